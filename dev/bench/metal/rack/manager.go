package rack

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/netlab"
	"github.com/mooring-ccm/mooring/dev/program"
)

// System is a system to compare.
type System string

const (
	// Mooring runs as two replicas on hosts of the control plane.
	Mooring System = "Mooring"
	// MetalLB runs as a controller on a host of the control plane and a speaker on each machine, with native BGP.
	MetalLB System = "MetalLB"
)

// Systems are all of them.
func Systems() []System { return []System{Mooring, MetalLB} }

// member is a container of a system: a program that a kubelet would start again.
type member struct {
	options program.Options
	// running is the latest process; spent is the processor time of those before, in seconds.
	running *program.Program
	spent   float64
	// pod is reported to have ended when the process was killed. Nil: nothing reads that.
	pod *harness.Pod
}

func (m *member) start() (err error) {
	m.running, err = program.Start(m.options)
	m.options.Append = true
	return err
}

// users are the names by which the API server knows a system.
func (s System) users() []string {
	if s == MetalLB {
		return []string{"system:serviceaccount:" + metalLBNamespace + ":controller", "system:serviceaccount:" + metalLBNamespace + ":speaker"}
	}
	return []string{harness.Mooring.User()}
}

// install gives a system its rights and its configuration, and returns what to start, the leader first.
func (r *Run) install(ctx context.Context) ([]*member, error) {
	if r.System == MetalLB {
		return r.installMetalLB(ctx)
	}
	return r.installMooring(ctx)
}

// installMooring configures as little as MetalLB gets: a pool and a router. Pod CIDRs are not announced, which MetalLB cannot.
func (r *Run) installMooring(ctx context.Context) ([]*member, error) {
	identity := harness.Identity{Account: harness.Mooring.Account, Rights: [][]byte{deploy.LoadBalancersOnlyRBAC}}
	if err := r.cluster.Grant(ctx, identity); err != nil {
		return nil, err
	}
	config := filepath.Join(r.dir, "cloud.yaml")
	health := "{}"
	if r.setup.Probes > 0 {
		health = fmt.Sprintf("{interval: %s, timeout: %[1]s}", r.setup.Probes)
	}
	from, announced := pool, fmt.Sprintf("bgp:\n  asn: %d\n  peers: [{name: router, address: %s, asn: %[1]d, holdTime: 9s}]", asn, routerAddr.Addr())
	if r.setup.Layer2 {
		from, announced = onSegment, "l2: {}"
	}
	text := fmt.Sprintf(`apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
pools: [{name: public, addresses: [%s]}]
announcement: {podRoutes: false, health: %s}
%s
`, from, health, announced)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	var members []*member
	for i, host := range r.rack.hosts {
		name := fmt.Sprintf("replica%d", i+1)
		pod, err := r.cluster.CreatePod(ctx, r.dir, name)
		if err != nil {
			return nil, err
		}
		options, err := harness.Manager{
			Name: name, Dir: r.dir, Path: r.rack.options.Programs.Mooring, Inside: host.Args(), Identity: identity, CloudConfig: config, Port: 10258,
			Flags: []string{"--cloud-provider=metal", "--controllers=service-lb-controller"}, Env: pod.Env(),
		}.Command(ctx, r.cluster)
		if err != nil {
			return nil, err
		}
		members = append(members, &member{options: options, pod: &pod})
	}
	return members, nil
}

// metalLBNamespace is where MetalLB's manifest puts everything.
const metalLBNamespace = "metallb-system"

// installed are the kinds of MetalLB's manifest that are applied. There is no kubelet for its Pods, and its webhook, which would need one, only
// refuses wrong resources.
var installed = []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}

func (r *Run) installMetalLB(ctx context.Context) ([]*member, error) {
	manifest, err := os.ReadFile(r.rack.options.Programs.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read MetalLB's manifest: %w", err)
	}
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var object metav1.TypeMeta
		if err := yaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("read MetalLB's manifest: %w", err)
		}
		if !slices.Contains(installed, object.Kind) {
			continue
		}
		if err := r.cluster.Apply(ctx, document); err != nil {
			return nil, err
		}
	}
	from, announced := pool, fmt.Sprintf(`apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router, namespace: %[1]s}
spec: {myASN: %[2]d, peerASN: %[2]d, peerAddress: %[3]s, holdTime: 9s}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: public, namespace: %[1]s}
`, metalLBNamespace, asn, routerAddr.Addr())
	if r.setup.Layer2 {
		from, announced = onSegment, fmt.Sprintf(`apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: public, namespace: %s}
`, metalLBNamespace)
	}
	resources := fmt.Sprintf(`apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: public, namespace: %s}
spec: {addresses: [%s]}
---
%s`, metalLBNamespace, from, announced)
	established := func(ctx context.Context) error { return r.cluster.Apply(ctx, []byte(resources)) }
	if err := program.Await(ctx, "the API server serves MetalLB's resources", nil, established); err != nil {
		return nil, err
	}
	controller, err := r.metalLBMember(ctx, "controller", "controller", r.rack.hosts[0], r.rack.options.Programs.Controller, "--webhook-mode=disabled")
	if err != nil {
		return nil, err
	}
	members := []*member{controller}
	for _, m := range r.rack.machines {
		speaker, err := r.metalLBMember(ctx, "speaker-"+m.name, "speaker", m.host, r.rack.options.Programs.Speaker, "--node-name="+m.name)
		if err == nil {
			err = r.giveAddress(ctx, "speaker-"+m.name, m.addr)
		}
		if err != nil {
			return nil, err
		}
		speaker.options.Env = append(speaker.options.Env, "METALLB_ML_BIND_ADDR="+m.addr.String(), "METALLB_ML_LABELS="+componentLabel+"=speaker")
		members = append(members, speaker)
	}
	return members, nil
}

// componentLabel is the label by which MetalLB's speakers find each other, as in its manifest.
const componentLabel = "component"

// giveAddress gives the Pod of a speaker the address at which the others look whether it lives.
func (r *Run) giveAddress(ctx context.Context, name string, addr netip.Addr) error {
	patch := fmt.Sprintf(`{"status": {"podIP": %q, "podIPs": [{"ip": %[1]q}]}}`, addr)
	_, err := r.cluster.Client.CoreV1().Pods(metalLBNamespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// metalLBMember is a program of MetalLB, with the flags of its manifest where they matter without a kubelet.
func (r *Run) metalLBMember(ctx context.Context, name, account string, host *netlab.Host, path string, flags ...string) (*member, error) {
	kubeconfig, err := r.cluster.ServiceAccountKubeconfig(ctx, metalLBNamespace, account)
	if err != nil {
		return nil, err
	}
	// MetalLB makes its Pod the owner of what it writes.
	_, err = r.cluster.Client.CoreV1().Pods(metalLBNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{componentLabel: account}},
		Spec:       corev1.PodSpec{NodeName: "absent", Containers: []corev1.Container{{Name: account, Image: account}}},
	}, metav1.CreateOptions{})
	args := slices.Concat(host.Args(), []string{path, "--port=0", "--namespace=" + metalLBNamespace, "--pod-name=" + name}, flags)
	env := []string{"KUBECONFIG=" + kubeconfig, "METALLB_BGP_TYPE=native"}
	return &member{options: program.Options{Name: name, Path: args[0], Args: args[1:], Dir: r.dir, Env: env}}, err
}

// relist is how long a kubelet takes to see that a container has ended, and to start it again.
const relist = harness.Relist

// restart waits as long as a kubelet does, reports the end of members that were killed, and starts them again.
func (r *Run) restart(ctx context.Context, killed ...*member) error {
	ended := metav1.Now()
	select {
	case <-time.After(relist):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, m := range killed {
		if m.pod != nil {
			if err := r.cluster.ReportKilled(ctx, *m.pod, ended); err != nil {
				return fmt.Errorf("report the end of %s: %w", m.options.Name, err)
			}
		}
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}
