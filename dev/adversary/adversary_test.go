package adversary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/extensions"
	"github.com/mooring-ccm/mooring/extensions/metallb"
	"github.com/mooring-ccm/mooring/extensions/servingcertificate"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	_ "github.com/mooring-ccm/mooring/providers/sim" // Registers the provider "sim".
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	nodes = 5
	// leaseName is the Lease of the leader.
	leaseName = "cloud-controller-manager"
	// settles is how long the manager has to react to the last move: several of its periods.
	settles = 5 * time.Second
	// calms is how long nothing may have changed before the first move.
	calms = 3 * time.Second
)

// TestAStolenKubelet makes the moves of one seed beside a whole manager, and holds the rest of the cluster and of the cloud against what they were
// before.
func TestAStolenKubelet(t *testing.T) {
	t.Logf("seed %d, %d moves", *seed, *moves)
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(nodes)})
	startManager(t, deploy.With(deploy.RBAC, deploy.ServingCertificateRBAC), cloud.ConfigFile, "--cloud-provider=sim", "--controllers=*,"+servingcertificate.Name)
	names := startNodes(t)
	service := createService(t)
	poll.Within(t, 2*time.Minute, "the cluster is whole", func(ctx context.Context) error { return whole(ctx, cloud, service) })

	self := names[len(names)-1]
	a := &thief{client: kubelet(t, self), draw: mathrand.New(mathrand.NewPCG(*seed, 0)), self: self, lease: leaseName}
	for _, name := range names[:len(names)-1] {
		a.victims = append(a.victims, victimOf(t, name))
	}
	current, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), service, metav1.GetOptions{})
	must.NoError(t, err)
	a.vip = current.Status.LoadBalancer.Ingress[0].IP

	made := play(t, a.draw, a.moves(), func() any { return observe(t, cloud, a) })
	for _, never := range []string{"write the node of another", "delete the node of another", "write the manager's lease"} {
		if made[never] > 0 {
			t.Errorf("%d times the API server let a kubelet %s: this test does not stand on what it says", made[never], never)
		}
	}
}

// move is one thing that an adversary tries. Many are refused by the API server, which is no failure.
type move struct {
	name string
	try  func(context.Context) error
}

// play makes moves that are drawn, holds what is observed after each, and for a while after the last, against what was before the first, and
// returns how often the API server let each through.
func play(t *testing.T, draw *mathrand.Rand, all []move, observe func() any) (made map[string]int) {
	t.Helper()
	before := settled(t, observe)
	made = map[string]int{}
	refusals := map[string]error{}
	for range *moves {
		next := all[draw.IntN(len(all))]
		if err := next.try(t.Context()); err == nil {
			made[next.name]++
		} else if !refused(err) {
			t.Fatalf("%s: %v", next.name, err)
		} else if refusals[next.name] == nil {
			refusals[next.name] = err
		}
		if diff := cmp.Diff(before, observe()); diff != "" {
			t.Fatalf("after %q others are not as they were (-before +after):\n%s", next.name, diff)
		}
	}
	for until := time.Now().Add(settles); time.Now().Before(until); {
		if diff := cmp.Diff(before, observe()); diff != "" {
			t.Fatalf("after all moves others are not as they were (-before +after):\n%s", diff)
		}
	}
	t.Logf("the API server let these moves through: %v; refused for the first time: %v", made, refusals)
	if *moves >= 100 && len(made) < 5 {
		t.Errorf("only these moves were let through: %v", slices.Sorted(maps.Keys(made)))
	}
	return made
}

// settled observes others until they have not changed for several of the manager's periods, and returns them. The manager may still be busy
// with what the test has just made.
func settled(t *testing.T, observe func() any) any {
	t.Helper()
	last, since := observe(), time.Now()
	poll.Until(t, "others no longer change", func(context.Context) error {
		now := observe()
		if diff := cmp.Diff(last, now); diff != "" {
			last, since = now, time.Now()
			return fmt.Errorf("it has changed (-before +after):\n%s", diff)
		}
		if calm := time.Since(since); calm < calms {
			return fmt.Errorf("it has not changed for %s", calm)
		}
		return nil
	})
	return last
}

// refused reports whether the API server refused a move, as it does with many.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// others is all that is not the thief's own.
type others struct {
	// Nodes are the victims as the manager writes them, by name.
	Nodes map[string]shown
	// Instances are the IDs of all machines but the thief's.
	Instances []string
	// Routes are the routes to victims' pods, and to nothing else but the thief's own pod CIDR, by destination.
	Routes map[string]string
	// Targets are the victims behind the load balancer, and Balancers the load balancers.
	Targets, Balancers []string
	// Leader is who holds the lease.
	Leader string
	// Approved are requests for certificates that name others.
	Approved []string
}

// shown is what a manager writes to a node.
type shown struct {
	ProviderID string
	Labels     map[string]string
	Taints     []string
	Addresses  []corev1.NodeAddress
	Network    string
	UID        string
}

func observe(t *testing.T, cloud *simtest.Cloud, a *thief) others {
	t.Helper()
	seen := others{Nodes: map[string]shown{}, Routes: map[string]string{}}
	own := map[string]bool{}
	for _, v := range a.victims {
		node, err := admin.CoreV1().Nodes().Get(t.Context(), v.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		must.NoError(t, err)
		one := shown{ProviderID: node.Spec.ProviderID, Labels: node.Labels, Addresses: node.Status.Addresses, UID: string(node.UID)}
		for _, taint := range node.Spec.Taints {
			one.Taints = append(one.Taints, taint.Key)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeNetworkUnavailable {
				one.Network = string(condition.Status)
			}
		}
		seen.Nodes[v.name] = one
	}
	must.NoError(t, cloud.Client.ListInstances(t.Context(), func(page []api.Instance) error {
		for _, instance := range page {
			if instance.Name == a.self {
				own[instance.ID] = true
				continue
			}
			seen.Instances = append(seen.Instances, instance.ID)
		}
		return nil
	}))
	must.NoError(t, cloud.Client.ListRoutes(t.Context(), simtest.ClusterName, func(page []api.Route) error {
		for _, route := range page {
			if route.TargetName != a.self || overlapsVictim(route.DestinationCIDR, a.victims) {
				seen.Routes[route.DestinationCIDR] = route.TargetName
			}
		}
		return nil
	}))
	must.NoError(t, cloud.Client.ListLoadBalancers(t.Context(), nil, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			seen.Balancers = append(seen.Balancers, balancer.ID)
			for _, target := range balancer.Targets {
				if !own[target] {
					seen.Targets = append(seen.Targets, target)
				}
			}
		}
		return nil
	}))
	lease, err := admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), leaseName, metav1.GetOptions{})
	must.NoError(t, err)
	seen.Leader = *lease.Spec.HolderIdentity
	requests, err := admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	must.NoError(t, err)
	for _, request := range requests.Items {
		approved := slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved
		})
		if approved && strings.HasPrefix(request.Name, "thief-") { // each names something of others
			seen.Approved = append(seen.Approved, request.Name)
		}
	}
	for _, list := range [][]string{seen.Instances, seen.Targets, seen.Balancers, seen.Approved} {
		slices.Sort(list)
	}
	return seen
}

// overlapsVictim reports whether a destination has an address of a victim's pods.
func overlapsVictim(destination string, victims []victim) bool {
	prefix, err := netip.ParsePrefix(destination)
	return err == nil && slices.ContainsFunc(victims, func(v victim) bool { return netip.MustParsePrefix(v.podCIDR).Overlaps(prefix) })
}

// startManager runs a manager with the rights that are shipped for it until the test ends.
func startManager(t *testing.T, rights []byte, cloudConfig string, flags ...string) {
	t.Helper()
	must.NoError(t, cluster.Apply(t.Context(), rights))
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, "cloud-controller-manager")
	must.NoError(t, err)
	port, err := program.FreePort()
	must.NoError(t, err)
	manager := harness.Manager{Kubeconfig: kubeconfig, Port: port, Certs: t.TempDir(), CloudConfig: cloudConfig, Flags: append([]string{
		"--cluster-name=" + simtest.ClusterName, "--cluster-cidr=10.244.0.0/16", "--node-monitor-period=500ms", "--node-status-update-frequency=1s",
		"--route-reconciliation-period=1s", "--load-balancer-drift-check-period=1s", "--load-balancer-target-delay=1s", "--graceful-shutdown-timeout=10s",
		"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s", // a manager on a busy machine has to renew its lease in time
	}, flags...)}
	command := ccm.NewCommand(append(extensions.All(), metallb.All()...)...)
	command.SetArgs(manager.Args())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
}

// startNodes has healthy kubelets report for all nodes until the test ends, and returns their names.
func startNodes(t *testing.T) (names []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan struct{}, nodes)
	for n := 1; n <= nodes; n++ {
		name := cloudsim.DefaultInstance(n).Name
		names = append(names, name)
		cidr := fmt.Sprintf("10.244.%d.0/24", n)
		node := nodeagent.Node(nodeagent.Options{Name: name}, func(node *corev1.Node) {
			node.Spec.PodCIDR, node.Spec.PodCIDRs = cidr, []string{cidr}
		})
		_, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		must.NoError(t, err)
		t.Cleanup(func() {
			must.NoError(t, client.IgnoreNotFound(admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})))
		})
		if n == nodes { // the thief's own kubelet is silent
			running <- struct{}{}
			continue
		}
		agent, err := nodeagent.New(cluster.AdminConfig(), nodeagent.Options{Name: name, StatusPeriod: time.Second})
		must.NoError(t, err)
		go func() {
			_ = agent.Run(ctx)
			running <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range nodes {
			<-running
		}
	})
	return names
}

func createService(t *testing.T) (name string) {
	t.Helper()
	created, err := admin.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() { removeServices(t, metav1.NamespaceDefault) })
	return created.Name
}

// removeServices removes the Services of a namespace, which no manager cleans up any longer.
func removeServices(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	list, err := admin.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	must.NoError(t, err)
	for _, service := range list.Items {
		if service.Name == "kubernetes" {
			continue
		}
		_, err := admin.CoreV1().Services(namespace).Patch(ctx, service.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must.NoError(t, client.IgnoreNotFound(err))
		must.NoError(t, client.IgnoreNotFound(admin.CoreV1().Services(namespace).Delete(ctx, service.Name, metav1.DeleteOptions{})))
	}
}

// whole reports what the cluster lacks before the first move.
func whole(ctx context.Context, cloud *simtest.Cloud, service string) error {
	list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		node := &list.Items[i]
		if ownership.Uninitialized(node) || node.Spec.ProviderID == "" {
			return fmt.Errorf("node %s is not initialized", node.Name)
		}
		routed := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
		})
		if !routed {
			return fmt.Errorf("node %s has no route", node.Name)
		}
	}
	current, err := admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(current.Status.LoadBalancer.Ingress) == 0 {
		return errors.New("the Service has no address")
	}
	if !published(current) {
		return fmt.Errorf("the Service has the conditions %v", current.Status.Conditions)
	}
	targets := 0
	if err := cloud.Client.ListLoadBalancers(ctx, nil, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			targets += len(balancer.Targets)
		}
		return nil
	}); err != nil {
		return err
	}
	if targets < nodes-1 {
		return fmt.Errorf("the load balancer has %d targets", targets)
	}
	return nil
}

// published reports whether a Service shows the last that the manager writes on it: that it has a load balancer with targets.
func published(s *corev1.Service) bool {
	return slices.ContainsFunc(s.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == names.ConditionLoadBalancerReady && c.Status == metav1.ConditionTrue
	})
}

func kubelet(t *testing.T, name string) kubernetes.Interface {
	t.Helper()
	return clientOf(t, "system:node:"+name, "system:nodes")
}

// clientOf acts as a user.
func clientOf(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	config, err := cluster.UserConfig(user, groups...)
	must.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	must.NoError(t, err)
	return client
}

func victimOf(t *testing.T, name string) victim {
	t.Helper()
	node, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	must.NoError(t, err)
	v := victim{name: name, providerID: node.Spec.ProviderID, podCIDR: node.Spec.PodCIDR, systemUUID: node.Status.NodeInfo.SystemUUID}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			v.address = address.Address
		}
	}
	return v
}

// TestTheAdmissionPolicy keeps a kubelet from writing what only an operator or the manager may write, and lets it write all else.
func TestTheAdmissionPolicy(t *testing.T) {
	const name = "guarded"
	_, err := admin.CoreV1().Nodes().Create(t.Context(), nodeagent.Node(nodeagent.Options{Name: name}), metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() { // other tests want each node initialized
		must.NoError(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	client := kubelet(t, name)
	annotate := func(client kubernetes.Interface, key string, value any, subresources ...string) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
		must.NoError(t, err)
		_, err = client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
		return err
	}
	must.NoError(t, annotate(client, ownership.AnnotationIgnore, "true")) // without the policy nothing keeps it from that
	must.NoError(t, annotate(admin, ownership.AnnotationIgnore, nil))
	must.NoError(t, cluster.Apply(t.Context(), deploy.AdmissionPolicy))
	poll.Until(t, "the policy is in force", func(context.Context) error {
		err := annotate(client, ownership.AnnotationIgnore, "true")
		if err == nil {
			must.NoError(t, annotate(admin, ownership.AnnotationIgnore, nil))
			return errors.New("the kubelet may write the annotation")
		}
		return nil
	})
	for _, subresource := range [][]string{nil, {"status"}} {
		for _, key := range []string{ownership.AnnotationIgnore, "mooring.dev/confirm-deletion", "metal.mooring.dev/exclude-from-fencing"} {
			if err := annotate(client, key, "true", subresource...); !apierrors.IsForbidden(err) {
				t.Errorf("a kubelet that writes %s to %v got %v", key, subresource, err)
			}
		}
		must.NoError(t, annotate(client, "example.com/other", "true", subresource...))
	}
	must.NoError(t, annotate(admin, ownership.AnnotationIgnore, "true"))
	if err := annotate(client, ownership.AnnotationIgnore, nil); !apierrors.IsForbidden(err) {
		t.Errorf("a kubelet that removes the annotation got %v", err)
	}
	must.NoError(t, annotate(client, "example.com/other", "false")) // beside one that stays
}
