package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const often = 200 * time.Millisecond

// With a watch what changes in the cloud reaches the nodes, and nothing is listed for it. Answers up to the refresh's period old will
// do, and a late mark is waited for: the period is far longer than the second between two marks, on a busy machine too.
func TestAWatchSparesListings(t *testing.T) {
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)}, func(c *sim.Config) { c.Watch = true })
	registry := prometheus.NewRegistry()
	instances := instances.New(instances.Options{Cloud: cloud.Decorate(provider, cloud.Options{}), Registerer: registry})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() { _ = instances.Start(ctx) })
	t.Cleanup(func() { cancel(); watching.Wait() })
	start(t, options{Cloud: provider, Refresh: 3 * time.Second, Inventory: instances})
	join(t, named("node-001"), named("node-002"))
	waitInitialized(t, "node-001")
	waitInitialized(t, "node-002")
	// A watch is not relied upon before its second mark, which says how long to wait for the next one. Until then, refreshes list.
	poll.Until(t, "the watch has shown two marks", func(context.Context) error {
		if marks := harness.Sum(t, registry, "mooring_inventory_watch_events_total", "kind", "mark"); marks < 2 {
			return fmt.Errorf("%v marks", marks)
		}
		return nil
	})

	for i, zone := range []string{"sim-1b", "sim-1c", "sim-1a", "sim-1b"} {
		if i == 1 { // the refresh of the first change was asked for after the second mark
			simulated.Service.ResetCounts()
		}
		simulated.Change(t, "node-001", func(spec *api.InstanceSpec) { spec.Zone = zone })
		waitFor(t, "node-001", "is in the zone "+zone, hasLabel(corev1.LabelTopologyZone, zone))
	}
	if listed := simulated.Service.Counts().Received(api.OpListInstances); listed != 0 {
		t.Errorf("%d pages were listed for three changes, want none", listed)
	}
}

// A listing from before an instance was up is not what its node is initialized from, however good it is for other nodes.
func TestAnInstanceThatWasNotUpIsLookedAtAgain(t *testing.T) {
	knobs := api.Knobs{Latency: metav1.Duration{Duration: 300 * time.Millisecond}}
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2), Knobs: knobs})
	var addresses []api.Address
	simulated.Change(t, "node-001", func(spec *api.InstanceSpec) { addresses, spec.Addresses = spec.Addresses, nil })
	start(t, options{Cloud: provider})
	join(t, named("node-002"))
	waitInitialized(t, "node-002")
	simulated.Change(t, "node-001", func(spec *api.InstanceSpec) { spec.Addresses = addresses })
	join(t, named("node-001"))
	waitInitialized(t, "node-001")
	waitFor(t, "node-001", "has its addresses with its initialization", func(n *corev1.Node) error {
		for _, address := range n.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				return nil
			}
		}
		return fmt.Errorf("it has %v", n.Status.Addresses)
	})
}

func TestChangesOfTheCloudReachTheNode(t *testing.T) {
	seed := cloudsim.DefaultSeed(2)
	seed.Instances[0].Labels = map[string]string{"rack": "7", "example.com/tier": "gold"}
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: seed})
	m := start(t, options{Cloud: provider, Refresh: often})
	join(t, named("node-001"), named("node-002"))
	waitInitialized(t, "node-001")
	waitInitialized(t, "node-002")
	change(t, "node-001", label("theirs", "1", "example.com/tier", "silver"))

	moved := simulated.Change(t, "node-001", func(spec *api.InstanceSpec) {
		spec.MachineType, spec.Zone = cloudsim.TypeLarge, "sim-1c"
		spec.Addresses = append(spec.Addresses[:2:2], api.Address{Type: api.AddressInternalIP, Address: "fd00::1"})
		spec.Labels = map[string]string{"rack": "8", "power": "ac", "example.com/tier": "bronze"}
	})
	labels := wellKnown(cloudsim.TypeLarge, "sim-1c", "sim-1")
	labels["rack"], labels["theirs"], labels["example.com/tier"] = "7", "1", "silver" // additional labels are set once
	want := shown{ProviderID: "sim://" + moved.ID, Labels: labels, Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "node-001"}, {Type: corev1.NodeInternalIP, Address: "10.0.0.2"},
		{Type: corev1.NodeInternalIP, Address: "fd00::1"},
	}}
	waitToShow(t, "node-001", want)

	if done := writes(t, m)["node-002"]; len(done) != 2 {
		t.Errorf("a node of which nothing changed was written %v, want its initialization only", done)
	}
	for _, event := range eventsOf(t, "node-001") {
		if strings.HasPrefix(event, "Warning") {
			t.Errorf("event %q, want no warning", event)
		}
	}
}

func waitToShow(t *testing.T, name string, want shown) {
	t.Helper()
	waitFor(t, name, "shows the change", func(n *corev1.Node) error {
		got := showing(n)
		got.Taints = nil
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// A zone that a user has set stays, whatever the cloud says after that; and so does one that the manager before has written, if it is named.
func TestAZoneStaysUnlessAManagerOfTheCloudWroteIt(t *testing.T) {
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	m := start(t, options{Cloud: provider, Refresh: often})
	join(t, named("node-001"), named("node-002"), named("node-003"))
	for name, manager := range map[string]string{"node-001": "kubectl-label", "node-002": "cloud-controller-manager"} {
		waitInitialized(t, name)
		writeZone(t, name, manager, "old")
	}
	waitFor(t, "node-002", "is in the cloud's zone", hasLabel(corev1.LabelTopologyZone, "sim-1b"))
	simulated.Change(t, "node-003", func(spec *api.InstanceSpec) { spec.Zone = "sim-1a" })
	waitFor(t, "node-003", "is in its new zone", hasLabel(corev1.LabelTopologyZone, "sim-1a"))
	if err := hasLabel(corev1.LabelTopologyZone, "old")(get(t, "node-001")); err != nil {
		t.Error(err)
	}
	if done := writes(t, m)["node-001"]; len(done) != 2 {
		t.Errorf("the node whose zone a user set was written %v, want its initialization only", done)
	}
}

// The reference's rule, for a node of ours of which the cloud says nothing yet.
func TestStableLabelsFollowBetaLabels(t *testing.T) {
	start(t, options{Cloud: newPlain("plain", always(nil, errors.New("unreachable")))})
	join(t, nodeagent.Options{Name: "beta", ProviderID: "plain://1"})
	waitForEvent(t, "beta", "Warning CloudError")
	change(t, "beta", func(n *corev1.Node) {
		n.Spec.Taints = nil
		n.Labels[corev1.LabelFailureDomainBetaZone], n.Labels[corev1.LabelTopologyZone] = "z", "other"
	})
	waitFor(t, "beta", "has a stable label like the beta one", hasLabel(corev1.LabelTopologyZone, "z"))
}

// A cluster at rest: nodes send heartbeats, and nothing is written. The cloud is asked for one listing a refresh.
func TestHeartbeatsCostNothing(t *testing.T) {
	const nodes, pageSize = 20, 7
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(nodes), Knobs: api.Knobs{PageSize: pageSize}})
	m := start(t, options{Cloud: provider, Refresh: time.Second})
	var joining []nodeagent.Options
	for i := 1; i <= nodes; i++ {
		joining = append(joining, nodeagent.Options{
			Name: cloudsim.DefaultInstance(i).Name, StatusPeriod: often, StatusReportPeriod: often,
		})
	}
	join(t, joining...)
	waitAllInitialized(t, nodes)
	beat(t, joining)
	refreshes := func() float64 { return m.Metric(t, "mooring_node_refresh_duration_seconds") }
	passed := func(n float64) {
		poll.Until(t, "refreshes pass", func(context.Context) error {
			if done := refreshes(); done < n {
				return fmt.Errorf("%v of %v", done, n)
			}
			return nil
		})
	}
	passed(refreshes() + 1)
	before, reconciled := writes(t, m), reconciles(t)
	start := refreshes()
	simulated.Service.ResetCounts()
	passed(start + 2)
	calls := simulated.Service.Counts().Received()
	during := refreshes() - start
	if diff := cmp.Diff(before, writes(t, m)); diff != "" {
		t.Errorf("a cluster at rest was written (-before +after):\n%s", diff)
	}
	const pages = (nodes + pageSize - 1) / pageSize
	if calls > int64(during+1)*pages { // one more refresh may be under way
		t.Errorf("%d calls of the cloud in %v refreshes, want %d pages each", calls, during, pages)
	}
	if after := reconciles(t); after != reconciled {
		t.Errorf("%v passes over nodes in a cluster at rest, want none", after-reconciled)
	}
}

// reconciles returns how many passes over nodes there were in this process.
func reconciles(t *testing.T) float64 {
	return harness.Sum(t, ctrlmetrics.Registry, "controller_runtime_reconcile_total", "controller", "cloud-node-controller")
}

// beat lets nodes send heartbeats until the test ends.
func beat(t *testing.T, joined []nodeagent.Options) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var beating sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		beating.Wait()
	})
	for _, o := range joined {
		agent, err := nodeagent.New(cluster.AdminConfig(), o)
		must.NoError(t, err)
		beating.Go(func() {
			if err := agent.Run(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
}

// A new node is initialized while a refresh of all others is stuck in the cloud.
func TestAStuckRefreshDoesNotDelayANewNode(t *testing.T) {
	release := make(chan struct{})
	var sticky atomic.Bool
	var inCloud atomic.Int32
	slow := newPlain("plain", func(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
		if sticky.Load() && n.Name != "new" {
			inCloud.Add(1)
			defer inCloud.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return instanceOf(n), nil
	})
	const bound = 80
	start(t, options{Cloud: slow, Refresh: often, Calls: cloud.Options{MaxInFlight: bound}})
	var old []nodeagent.Options
	for i := range bound + 10 { // more than calls may be in flight
		old = append(old, named(fmt.Sprintf("old-%d", i)))
	}
	join(t, old...)
	waitAllInitialized(t, len(old))
	sticky.Store(true)
	poll.Until(t, "the refresh is stuck", func(context.Context) error {
		if inCloud.Load() == 0 { // how many there are is up to the client of the cloud
			return errors.New("no call is")
		}
		return nil
	})
	join(t, named("new"))
	waitInitialized(t, "new")
	if got := inCloud.Load(); got == 0 || got >= bound {
		t.Errorf("%d calls for the other nodes are in the cloud, want some, and room left of %d", got, bound)
	}
	close(release)
}

// heldWrites holds the writes of a manager back until they are released.
type heldWrites struct {
	next     http.RoundTripper
	released chan struct{}
	held     chan string
}

func (w *heldWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.HasPrefix(request.URL.Path, "/api/v1/nodes/") {
		select {
		case <-w.released:
		default:
			w.held <- request.URL.Path
			<-w.released
		}
	}
	return w.next.RoundTrip(request)
}

// With one worker and all nodes to be rewritten, a new node is next.
func TestANewNodePassesTheRefresh(t *testing.T) {
	const old = 30
	simulated, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(old + 1)})
	var joining []nodeagent.Options
	for i := 1; i <= old; i++ {
		joining = append(joining, named(cloudsim.DefaultInstance(i).Name))
	}
	join(t, joining...)
	first := start(t, options{Cloud: provider})
	waitAllInitialized(t, old)
	first.Stop()
	for _, o := range joining {
		simulated.Change(t, o.Name, func(spec *api.InstanceSpec) { spec.MachineType = cloudsim.TypeLarge })
	}
	depth := func() float64 {
		return harness.Sum(t, ctrlmetrics.Registry, "workqueue_depth", "controller", "cloud-node-controller", "priority", "100")
	}
	held := &heldWrites{released: make(chan struct{}), held: make(chan string, 1)}
	m := start(t, options{Cloud: provider, Workers: 1, Refresh: never, Transport: func(next http.RoundTripper) http.RoundTripper {
		held.next = next
		return held
	}})
	<-held.held       // the only worker is busy with an old node, the others are in the queue
	before := depth() // what earlier managers of this process left in theirs
	newcomer := named(cloudsim.DefaultInstance(old + 1).Name)
	join(t, newcomer)
	poll.Until(t, "the new node is in the queue", func(context.Context) error {
		if got := depth(); got != before+1 {
			return fmt.Errorf("%v new nodes are in the queue", got-before)
		}
		return nil
	})
	close(held.released)
	waitInitialized(t, newcomer.Name)
	done := m.Writes(t, "nodes")
	place := slices.Index(done, harness.Write{Name: newcomer.Name, What: "update 200"})
	if want := 2; place != want { // after the node that was in the worker's hands, and the new node's own addresses
		t.Errorf("the new node's initialization is write %d of %v, want %d", place, done, want)
	}
}
