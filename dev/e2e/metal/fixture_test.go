package metal_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/e2e/worker"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	// managerVariable holds, for the inside of the sandbox, where the cloud-controller-manager is.
	managerVariable = "MOORING_TEST_MANAGER"
	clusterCIDR     = "10.244.0.0/16,fd00:244::/48"
	// replicaCount is how many managers there are.
	replicaCount = 2
)

// pools are where load balancers get their addresses from.
var pools = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8:1::/120")}

// machine is a machine of the inventory, its node and the pod on it.
type machine struct {
	rack.Machine
	// proxy is kube-proxy, which the test may end.
	proxy *worker.Program
}

// systemUUID is what its management controller says when it names its system.
func (m *machine) systemUUID() string {
	return fmt.Sprintf("01234567-89ab-cdef-0123-00000000000%d", m.Index)
}
func (m *machine) podCIDRs() []string {
	return []string{fmt.Sprintf("10.244.%d.0/24", m.Index), fmt.Sprintf("fd00:244:0:%d::/64", m.Index)}
}
func (m *machine) pod4() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("10.244.%d.10/24", m.Index))
}
func (m *machine) pod6() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("fd00:244:0:%d::10/64", m.Index))
}

// fixture is everything that runs in the sandbox.
type fixture struct {
	// lifetime is the test that everything lives as long as; stages are shorter.
	lifetime *testing.T
	dir      string
	segment  *sandbox.Segment
	cluster  *localcluster.Cluster
	client   kubernetes.Interface
	router   *router.Router
	outside  *sandbox.Host // where the client is
	machines []*machine
	replicas []*replica
	programs []*worker.Program
	// proxyMode is kube-proxy's.
	proxyMode string
	// quick says that nodes are probed as by default. Before, it takes longer until one counts as dead: on a busy machine one that
	// works answers late, and that is not what the stages are about in which nothing may change.
	quick bool
	// beside is the cloud config beside resources of MetalLB. Empty: the cloud config has all.
	beside string
}

// enter runs the calling test in a sandbox, and returns the fixture inside, nil outside.
func enter(t *testing.T, kind router.Kind, proxyMode string) *fixture {
	t.Helper()
	if !sandbox.Inside() {
		t.Parallel()
		sandbox.Require(t, append(router.Programs(kind), "containerd", "nft", "iptables", "conntrack")...)
		localclustertest.Build(t, localcluster.Parts()...)
		manager := filepath.Join(t.TempDir(), "cloud-controller-manager")
		must.NoError(t, harness.BuildDaemon(t.Context(), manager, os.Stderr))
		sandbox.Run(t, sandbox.Options{
			Env: []string{managerVariable + "=" + manager}, Sysctls: worker.Sysctls, Cgroups: worker.Cgroups,
			Dirs: append(router.Dirs(), worker.Dirs...), Timeout: 15 * time.Minute,
		})
		return nil
	}
	l := &fixture{lifetime: t, dir: sandbox.Furnish(t), proxyMode: proxyMode}
	l.segment = sandbox.NewSegment(t, rack.ControlPlane4, rack.ControlPlane6)
	l.cluster = localclustertest.Start(t, localclustertest.WithControllerManager, func(options *localcluster.Options) {
		options.Dir = filepath.Join(l.dir, "controlplane")
		options.BindAddress = rack.ControlPlane4.Addr()
		options.NodeMonitorGracePeriod = 4 * time.Second
		options.APIServerArgs = []string{
			"--service-cluster-ip-range=" + rack.ServiceCIDR,
			"--kubelet-certificate-authority=" + filepath.Join(options.Dir, "pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		}
		options.ControllerManagerArgs = []string{"--service-cluster-ip-range=" + rack.ServiceCIDR}
	})
	l.client = kubernetes.NewForConfigOrDie(l.cluster.AdminConfig())
	l.startRouter(t, kind)
	l.startNodes(t)
	t.Cleanup(func() {
		if t.Failed() {
			l.quote(t)
		}
	})
	return l
}

// startRouter makes the router, and the client's network behind it. Everybody but the control plane reaches others through it.
func (l *fixture) startRouter(t *testing.T, kind router.Kind) {
	t.Helper()
	l.router = rack.StartRouter(t, l.segment, kind, replicaCount+1, l.dir) // a rolling update may have one more
	l.outside = rack.NewClient(t, l.router)
	// The API server answers to nodes and replicas on the segment; pods and clients are reached through the router.
	sandbox.Command(t, "ip", "route", "add", "10.244.0.0/16", "via", rack.Router4.Addr().String())
}

// startNodes makes the nodes: a kubelet, kube-proxy and a pod with a server each.
func (l *fixture) startNodes(t *testing.T) {
	t.Helper()
	containerd, socket := worker.StartContainerd(t, l.dir)
	l.programs = append(l.programs, containerd)
	for i := 1; i <= rack.Nodes; i++ {
		m := &machine{Machine: rack.NewMachine(t, l.segment, i)}
		must.NoError(t, m.Host.Blackhole(t.Context(), pools...))
		m.proxy = worker.StartKubeProxy(t, l.cluster, m.Host, m.Name, l.proxyMode, clusterCIDR, filepath.Join(l.dir, m.Name))
		l.startPod(t, m)
		l.machines = append(l.machines, m)
	}
	for _, m := range l.machines {
		l.awaitProxy(t, m)
		l.programs = append(l.programs, worker.StartKubelet(t, l.cluster, m.Host, worker.Kubelet{
			Name: m.Name, NodeIPs: []netip.Addr{m.Addr4().Addr(), m.Addr6().Addr()}, ServerTLSBootstrap: true,
		}, filepath.Join(l.dir, m.Name), socket))
	}
}

// startPod puts a server into a network of its own on a node.
func (l *fixture) startPod(t *testing.T, m *machine) {
	t.Helper()
	at := func(p netip.Prefix, last string) netip.Prefix {
		addr := p.Addr().String()
		return netip.PrefixFrom(netip.MustParseAddr(strings.TrimSuffix(addr, "10")+last), p.Bits())
	}
	pod := must.Value(m.Host.Attach(t.Context(), "pod"+m.Name,
		[]netip.Prefix{at(m.pod4(), "1"), at(m.pod6(), "1")}, []netip.Prefix{m.pod4(), m.pod6()}))(t)
	args := append(pod.Args(), self(t), m.Name)
	command := exec.Command(args[0], args[1:]...)
	command.Env = append(os.Environ(), roleVariable+"="+roleServer)
	command.Stderr = os.Stderr
	must.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

// replica is one of the managers.
type replica struct {
	*worker.Program
	index int
	host  *sandbox.Host
}

// startReplica starts a manager on a host of its own, with the rights that ship for this provider.
func (l *fixture) startReplica(t *testing.T, i int) *replica {
	t.Helper()
	r := &replica{index: i}
	if i < len(l.replicas) {
		r.host = l.replicas[i].host
	} else {
		r.host = rack.NewReplica(t, l.segment, i)
	}
	config, source := l.config(), ""
	if l.beside != "" {
		config, source = l.beside, "metallb"
	}
	r.Program = worker.StartManager(l.lifetime, harness.Manager{
		Name: fmt.Sprintf("ccm%d-%d", i, time.Now().UnixMilli()), Dir: l.dir, Path: os.Getenv(managerVariable), Inside: r.host.Args(), Port: 10258,
		Kubeconfig: l.kubeconfig(t), CloudConfig: config, Flags: []string{
			"--cloud-provider=metal", "--allocate-node-cidrs", "--cluster-cidr=" + clusterCIDR,
			"--node-monitor-period=1s", "--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s", "--leader-elect-lease-duration=5s",
			"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s", "--controllers=*,kubelet-serving-certificate", "--v=2",
			"--metal-config-source=" + source,
		},
	})
	if i < len(l.replicas) {
		l.replicas[i] = r
	} else {
		l.replicas = append(l.replicas, r)
	}
	return r
}

func (l *fixture) config() string { return filepath.Join(l.dir, "cloud.yaml") }

// power is the file that the management controller of a machine reads.
func (l *fixture) power(m *machine) string { return filepath.Join(l.dir, "power-"+m.Name) }

// writeConfig writes the cloud config with the machines of these indices.
func (l *fixture) writeConfig(t *testing.T, machines ...*machine) {
	t.Helper()
	var inventory strings.Builder
	for _, m := range machines {
		fmt.Fprintf(&inventory, `  - name: %s
    id: serial-%d
    zone: rack-%d
    machineType: r640
    addresses: [{address: %s}, {address: "%s"}]
    bmc: {systemUUID: %s, command: {argv: [/bin/cat, %s]}}
`, m.Name, m.Index, m.Index, m.Addr4().Addr(), m.Addr6().Addr(), m.systemUUID(), l.power(m))
	}
	health := "health: {timeout: 2s, failures: 3}, "
	if l.quick {
		health = ""
	}
	text := fmt.Sprintf(`apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
inventory:
  defaults: {region: basement}
  machines:
%spower: {interval: 1s, timeout: 1s}
pools:
- name: public
  addresses: [%s, "%s"]
announcement: {%sdrainWait: 2s}
bgp:
  asn: %d
  peers: [{name: rtr, address: %s, asn: %d, connectRetry: 2s}]
`, inventory.String(), pools[0], pools[1], health, rack.ASN, rack.Router4.Addr(), rack.ASN)
	must.NoError(t, os.WriteFile(l.config()+".new", []byte(text), 0o600))
	must.NoError(t, os.Rename(l.config()+".new", l.config()))
}

// kubeconfig returns the path of the manager's kubeconfig.
func (l *fixture) kubeconfig(t *testing.T) string {
	t.Helper()
	must.NoError(t, l.cluster.Apply(t.Context(), deploy.With(deploy.MetalRBAC, deploy.ServingCertificateRBAC)))
	path, err := l.cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	must.NoError(t, err)
	return path
}

// node returns the node of a machine.
func (l *fixture) node(ctx context.Context, m *machine) (*corev1.Node, error) {
	return l.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
}

// awaitNode waits until a node is as wanted.
func (l *fixture) awaitNode(t *testing.T, m *machine, what string, check func(*corev1.Node) error) {
	t.Helper()
	poll.Until(t, "node "+m.Name+" "+what, func(ctx context.Context) error {
		node, err := l.node(ctx, m)
		if err != nil {
			return err
		}
		return check(node)
	})
}

// kubectl runs a command as docs/tutorial/metal-rack.md shows it, and returns what it says.
func (l *fixture) kubectl(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-c", line)
	shell.Env = append(os.Environ(), "KUBECONFIG="+l.cluster.AdminKubeconfig(), "KUBECACHEDIR="+l.dir,
		"PATH="+localclustertest.Build(t, localcluster.Client).Dir()+":"+os.Getenv("PATH"))
	said, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, said)
	}
	return string(said)
}

// quote shows the end of what each program wrote.
func (l *fixture) quote(t *testing.T) {
	t.Helper()
	for _, r := range l.replicas {
		t.Logf("the end of the log of %s:\n%s", r.Name, r.Tail())
	}
	t.Logf("router:\n%s", tail(l.router.Log()))
}

func tail(text string) string { return text[max(0, len(text)-3000):] }
