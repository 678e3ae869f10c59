package announce

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/health"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// oracle is a prober whose health states the test sets.
type oracle struct {
	mu      sync.Mutex
	seen    health.Snapshot
	targets map[model.Probe]netip.Addr
	asked   int
	changed chan struct{}
}

func newOracle() *oracle {
	return &oracle{seen: health.Snapshot{Health: map[model.Probe]model.Health{}, Ready: true}, changed: make(chan struct{}, 1)}
}

func (o *oracle) Run(ctx context.Context)  { <-ctx.Done() }
func (o *oracle) Configure(config.Health)  {}
func (o *oracle) Changed() <-chan struct{} { return o.changed }
func (o *oracle) Snapshot() health.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	copied := o.seen
	copied.Health = map[model.Probe]model.Health{}
	for probe := range o.targets {
		copied.Health[probe] = model.Healthy
	}
	for probe, known := range o.seen.Health {
		copied.Health[probe] = known
	}
	return copied
}

// SetTargets takes all new targets for healthy, unless the test has said otherwise.
func (o *oracle) SetTargets(targets map[model.Probe]netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.targets = targets
	o.signal()
}

func (o *oracle) signal() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *oracle) say(change func(*health.Snapshot)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(&o.seen)
	o.signal()
}

// network is a sink that remembers what it was to announce.
type network struct {
	mu     sync.Mutex
	tables []routing.Table
	err    error
	calls  int
}

// called returns how often there was something to announce.
func (n *network) called() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls
}

func (n *network) Announce(_ context.Context, announced routing.Table) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	if n.err != nil {
		return n.err
	}
	n.tables = append(n.tables, announced)
	return nil
}

func (n *network) hops(addr string) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.tables) == 0 {
		return nil
	}
	parsed := netip.MustParseAddr(addr)
	return n.tables[len(n.tables)-1][netip.PrefixFrom(parsed, parsed.BitLen())].NextHops
}

// rig is an Announcer on a fake API server.
type rig struct {
	*Announcer
	client    *fake.Clientset
	oracle    *oracle
	network   *network
	informers informers.SharedInformerFactory
	registry  *prometheus.Registry
}

func newRig(t *testing.T, objects ...runtime.Object) *rig {
	t.Helper()
	t.Parallel() // these wait more than they work
	r := &rig{client: fake.NewClientset(objects...), oracle: newOracle(), network: &network{}, registry: prometheus.NewRegistry()}
	r.informers = informers.NewSharedInformerFactory(r.client, 0)
	var err error
	r.Announcer, err = New(Options{
		Informers: r.informers, Prober: r.oracle, Sinks: map[string]Sink{"network": r.network},
		Config: config.Announcement{}.WithDefaults(), PoolOf: func(netip.Addr) string { return "public" }, Registerer: r.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r.informers.Start(ctx.Done())
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.informers.Shutdown()
	})
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll.Until(t, what, func(context.Context) error { return poll.Holds(condition()) })
}

func (r *rig) awaitHops(t *testing.T, addr string, want ...string) {
	t.Helper()
	eventually(t, "next hops of "+addr, func() bool {
		got := r.network.hops(addr)
		if len(got) != len(want) {
			return false
		}
		for i := range want {
			if got[i].String() != want[i] {
				return false
			}
		}
		return true
	})
}

func (r *rig) update(t *testing.T, node *corev1.Node) {
	t.Helper()
	if _, err := r.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func nodeObject(name, addr string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}},
	}
}

func serviceObject(name, addr string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			HealthCheckNodePort: checkPort},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: addr}}},
			Conditions:   []metav1.Condition{{Type: "LoadBalancerReady", Status: metav1.ConditionTrue, Reason: "Provided"}},
		},
	}
}

func sliceObject(service string, nodes ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: service + "-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, node := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.244.0.1"}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	return slice
}

const vip = "192.0.2.1"

func TestAnnouncerFollows(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), nodeObject("b", "10.0.0.2"), serviceObject("web", vip), sliceObject("web", "a"))
	r.run(t)
	r.awaitHops(t, vip, "10.0.0.1")

	ctx := t.Context()
	slices := r.client.DiscoveryV1().EndpointSlices("default")
	if _, err := slices.Update(ctx, sliceObject("web", "a", "b"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	r.oracle.say(func(s *health.Snapshot) { s.Health[model.Probe{Node: "a"}] = model.Unhealthy })
	r.awaitHops(t, vip, "10.0.0.2")
	r.oracle.say(func(s *health.Snapshot) { s.Health[model.Probe{Node: "a"}] = model.Healthy })
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")

	drained := nodeObject("b", "10.0.0.2")
	drained.Annotations = map[string]string{AnnotationDrain: ""}
	if _, err := r.client.CoreV1().Nodes().Update(ctx, drained, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitHops(t, vip, "10.0.0.1")
	if state := r.Snapshot().Nodes["b"]; state.NextHop != model.Draining {
		t.Errorf("the drained node is %+v", state)
	}
	if err := r.client.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.awaitHops(t, vip)
	if problems, err := testutil.GatherAndLint(r.registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}

func TestNothingIsHandedOnBeforeTheFirstRound(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), serviceObject("web", vip), sliceObject("web", "a"))
	r.oracle.say(func(s *health.Snapshot) { s.Ready = false })
	r.run(t)
	eventually(t, "both ports are probed", func() bool {
		r.oracle.mu.Lock()
		defer r.oracle.mu.Unlock()
		return len(r.oracle.targets) == 2
	})
	eventually(t, "some passes that must not hand anything on", func() bool {
		r.oracle.say(func(*health.Snapshot) {})
		r.oracle.mu.Lock()
		defer r.oracle.mu.Unlock()
		return r.oracle.asked > 5
	})
	if calls := r.network.called(); calls != 0 || r.Snapshot().Complete {
		t.Fatalf("%d tables were handed on", calls)
	}
	r.oracle.say(func(s *health.Snapshot) { s.Ready = true })
	r.awaitHops(t, vip, "10.0.0.1")
}

// TestApiServerIsAway has watches end and everything fail from a moment on: what is known stays, and probes go on to decide.
func TestApiServerIsAway(t *testing.T) {
	var mu sync.Mutex
	var watches []*apiwatch.RaceFreeFakeWatcher
	away := false
	r := newRig(t, nodeObject("a", "10.0.0.1"), nodeObject("b", "10.0.0.2"), serviceObject("web", vip), sliceObject("web", "a", "b"))
	r.client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		return away, nil, errors.New("connection refused")
	})
	r.client.PrependWatchReactor("*", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return true, nil, errors.New("connection refused")
		}
		watcher := apiwatch.NewRaceFreeFake()
		watches = append(watches, watcher)
		return true, watcher, nil
	})
	r.run(t)
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")

	mu.Lock()
	away = true
	for _, watcher := range watches {
		watcher.Stop()
	}
	mu.Unlock()
	r.oracle.say(func(s *health.Snapshot) { s.Health[model.Probe{Node: "a"}] = model.Unhealthy })
	r.awaitHops(t, vip, "10.0.0.2")
	r.oracle.say(func(s *health.Snapshot) { s.Health[model.Probe{Node: "a"}] = model.Healthy })
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	r.oracle.say(func(s *health.Snapshot) { s.Blind = true })
	eventually(t, "it is said", func() bool { return r.Snapshot().Blind })
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
}

func TestSinkThatFailsIsGivenTheTableAgain(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), serviceObject("web", vip), sliceObject("web", "a"))
	r.network.err = errors.New("no route to host")
	r.run(t)
	eventually(t, "it fails", func() bool {
		return r.network.called() > 0
	})
	r.network.mu.Lock()
	r.network.err = nil
	r.network.mu.Unlock()
	r.awaitHops(t, vip, "10.0.0.1")
}

func TestForeignServicesAreLeftAlone(t *testing.T) {
	foreign := serviceObject("foreign", "192.0.2.7")
	foreign.Status.Conditions = nil
	elsewhere := serviceObject("elsewhere", "192.0.2.8")
	elsewhere.Status.Conditions[0].Status = metav1.ConditionUnknown
	r := newRig(t, nodeObject("a", "10.0.0.1"), foreign, elsewhere, serviceObject("web", vip),
		sliceObject("web", "a"), sliceObject("foreign", "a"), sliceObject("elsewhere", "a"))
	r.run(t)
	r.awaitHops(t, vip, "10.0.0.1")
	if got := r.Snapshot(); len(got.Table) != 1 || len(got.Services) != 1 {
		t.Errorf("announced: %v", got.Table)
	}
}

// TestInventoryChanges has a machine leave the inventory: nothing of its node changes in the API.
func TestInventoryChanges(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), nodeObject("b", "10.0.0.2"), serviceObject("web", vip), sliceObject("web", "a", "b"))
	var gone atomic.Bool
	r.cluster.ownsNode = func(node *corev1.Node) bool { return node.Name != "b" || !gone.Load() }
	r.run(t)
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	gone.Store(true)
	r.Reconfigure(config.Announcement{}.WithDefaults(), nil, func(netip.Addr) string { return "public" })
	r.awaitHops(t, vip, "10.0.0.1")
}

// TestExcludeLabelComesAndGoes labels a node that is a next hop while all runs, and takes the label off again.
func TestExcludeLabelComesAndGoes(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), nodeObject("b", "10.0.0.2"), serviceObject("web", vip), sliceObject("web", "a", "b"))
	r.run(t)
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	for range 2 {
		labeled := nodeObject("b", "10.0.0.2")
		labeled.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		r.update(t, labeled)
		r.awaitHops(t, vip, "10.0.0.1")
		if state := r.Snapshot().Nodes["b"]; state.Reason != model.NodeExcluded {
			t.Errorf("the labeled node is %+v", state)
		}
		r.update(t, nodeObject("b", "10.0.0.2"))
		r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	}
	for _, name := range []string{"a", "b"} { // the last one, too, and then the condition says why
		labeled := nodeObject(name, map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}[name])
		labeled.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		r.update(t, labeled)
	}
	r.awaitHops(t, vip)
	if got := r.Snapshot().Services[key("web")].Message(); !strings.Contains(got, "2 nodes labeled "+corev1.LabelNodeExcludeBalancers) {
		t.Error(got)
	}
}

// TestCordonDrains cordons a node under either setting, which changes while all runs.
func TestCordonDrains(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), nodeObject("b", "10.0.0.2"), serviceObject("web", vip), sliceObject("web", "a", "b"))
	r.run(t)
	cordoned := nodeObject("b", "10.0.0.2")
	cordoned.Spec.Unschedulable = true
	r.update(t, cordoned)
	eventually(t, "the cordon is seen", func() bool {
		r.cluster.mu.Lock()
		defer r.cluster.mu.Unlock()
		return r.cluster.nodes["b"].Cordoned
	})
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	r.Reconfigure(config.Announcement{DrainOnCordon: true}.WithDefaults(), nil, func(netip.Addr) string { return "public" })
	r.awaitHops(t, vip, "10.0.0.1")
	if state := r.Snapshot().Nodes["b"]; state.NextHop != model.Draining || state.Removal != model.RemovalByCordon {
		t.Errorf("the cordoned node is %+v", state)
	}
	r.update(t, nodeObject("b", "10.0.0.2"))
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
}

// TestKubeletClaimsForeignRanges has a node come with ranges that are not its own to name; the config overrules --cluster-cidr.
func TestKubeletClaimsForeignRanges(t *testing.T) {
	good, bad := nodeObject("a", "10.0.0.1"), nodeObject("b", "10.0.0.2")
	good.Spec.PodCIDRs, bad.Spec.PodCIDRs = []string{"10.244.1.0/24"}, []string{"10.244.2.0/24", "0.0.0.0/0", "192.0.2.1/32"}
	r := newRig(t, good, bad)
	r.clusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	r.run(t)
	ranges := func(want ...string) func() bool {
		return func() bool {
			var got []string
			for _, route := range r.Snapshot().Table.Sorted() {
				got = append(got, route.Prefix.String())
			}
			return slices.Equal(got, want)
		}
	}
	eventually(t, "the ranges within --cluster-cidr are announced", ranges("10.244.1.0/24", "10.244.2.0/24"))
	if problems := r.Snapshot().Nodes["b"].PodProblems; len(problems) != 2 || problems[0].Reason != model.PodsOutside {
		t.Errorf("of the others is said %+v", problems)
	}
	r.Reconfigure(config.Announcement{PodCIDRs: []string{"10.244.2.0/23"}}.WithDefaults(), nil, func(netip.Addr) string { return "public" })
	eventually(t, "the ranges within podCIDRs are announced", ranges("10.244.2.0/24"))
}

func TestReconfigure(t *testing.T) {
	labeled := nodeObject("b", "10.0.0.2")
	labeled.Labels = map[string]string{"edge": "yes"}
	r := newRig(t, nodeObject("a", "10.0.0.1"), labeled, serviceObject("web", vip), sliceObject("web", "a", "b"))
	r.run(t)
	r.awaitHops(t, vip, "10.0.0.1", "10.0.0.2")
	changed := config.Announcement{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"edge": "yes"}}}.WithDefaults()
	r.Reconfigure(changed, nil, func(netip.Addr) string { return "edge" })
	r.awaitHops(t, vip, "10.0.0.2")
	if route := r.Snapshot().Table[netip.MustParsePrefix(vip+"/32")]; route.Pool != "edge" {
		t.Errorf("%+v", route)
	}
	eventually(t, "what is no candidate is not probed", func() bool {
		r.oracle.mu.Lock()
		defer r.oracle.mu.Unlock()
		return len(r.oracle.targets) == 2
	})
}
