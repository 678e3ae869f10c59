package dead

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// grid knows the power of machines by the names of their nodes, and that the inventory has none of these names.
type grid struct {
	Machines
	mu      sync.Mutex
	states  map[string]metalpower.Observation
	changed func()
}

func (g *grid) Named(string) *config.Machine { return nil }
func (g *grid) Claims(*v1.Node) []string     { return nil }
func (g *grid) GoesToSleep(*v1.Node) bool    { return false }

func (g *grid) Observe(node *v1.Node) metalpower.Observation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.states[node.Name]
}

func (g *grid) Subscribe(changed func()) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = changed
	return func() {}
}

func (g *grid) set(name string, state metalpower.State) {
	g.mu.Lock()
	g.states[name] = metalpower.Observation{State: state, Since: time.Now().Add(-time.Hour), Trusted: true}
	changed := g.changed
	g.mu.Unlock()
	changed()
}

// taintFixture is a real API server with a controller.
type taintFixture struct {
	*testing.T
	client *kubernetes.Clientset
	grid   *grid
}

func startTaints(t *testing.T) *taintFixture {
	t.Helper()
	cluster := localclustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &taintFixture{T: t, client: client, grid: &grid{states: map[string]metalpower.Observation{}}}
}

// run runs a controller until the test ends.
func (f *taintFixture) run(registry *prometheus.Registry) *record.FakeRecorder {
	f.Helper()
	factory := informers.NewSharedInformerFactory(f.client, 0)
	recorder := record.NewFakeRecorder(100)
	controller, err := New(Options{
		Client: f.client.CoreV1(), Nodes: factory.Core().V1().Nodes(), Recorder: recorder, Machines: f.grid,
		Leases: f.client.CoordinationV1(), LeaseNamespace: "kube-system", LeaseName: "fencing", Self: func() (self.Replica, error) { return self.Replica{}, nil },
		Settings: func() Settings { return Settings{Enabled: true, After: time.Second} }, Registerer: registry,
	})
	if err != nil {
		f.Fatal(err)
	}
	runUntilEnd(f.T, controller, factory)
	return recorder
}

// node creates a node.
func (f *taintFixture) node(name string, ready v1.ConditionStatus, taints ...v1.Taint) {
	f.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: taints}}
	created, err := f.client.CoreV1().Nodes().Create(f.Context(), node, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	created.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
	if _, err := f.client.CoreV1().Nodes().UpdateStatus(f.Context(), created, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

// ready changes what the kubelet says of itself.
func (f *taintFixture) ready(name string, status v1.ConditionStatus) {
	f.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/status/conditions/0/status","value":%q}]`, status)
	if _, err := f.client.CoreV1().Nodes().Patch(f.Context(), name, "application/json-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		f.Fatal(err)
	}
}

// taints are the keys of a node's taints, sorted, those of other controllers left out.
func (f *taintFixture) taints(name string) string {
	f.Helper()
	node, err := f.client.CoreV1().Nodes().Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var keys []string
	for _, taint := range node.Spec.Taints {
		if !strings.HasPrefix(taint.Key, "node.kubernetes.io/not-ready") {
			keys = append(keys, taint.Key)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

func (f *taintFixture) eventually(name, want string) {
	f.Helper()
	poll.Until(f, "the taints of node "+name, func(context.Context) error {
		if got := f.taints(name); got != want {
			return fmt.Errorf("they are %q, want %q", got, want)
		}
		return nil
	})
}

var shutdown = v1.Taint{Key: cloudproviderapi.TaintNodeShutdown, Effect: v1.TaintEffectNoSchedule}

const (
	shutdownKey = cloudproviderapi.TaintNodeShutdown
	bothKeys    = cloudproviderapi.TaintNodeShutdown + " " + v1.TaintNodeOutOfService
)

func TestOnARealAPIServer(t *testing.T) {
	f := startTaints(t)
	other := v1.Taint{Key: "a.example/other", Effect: v1.TaintEffectNoSchedule}
	f.node("off", v1.ConditionUnknown, shutdown, other)
	f.node("on", v1.ConditionUnknown, shutdown)
	f.node("unknown", v1.ConditionUnknown, shutdown)
	f.node("alive", v1.ConditionTrue, shutdown)
	for name, state := range map[string]metalpower.State{"off": metalpower.Off, "on": metalpower.On, "alive": metalpower.Off} {
		f.grid.states[name] = metalpower.Observation{State: state, Since: time.Now().Add(-time.Hour), Trusted: true}
	}
	registry := prometheus.NewRegistry()
	recorder := f.run(registry)
	f.eventually("off", "a.example/other "+bothKeys)
	if event := <-recorder.Events; !strings.Contains(event, "Warning MachineOff The machine is off since ") {
		t.Errorf("event %q", event)
	}
	for _, name := range []string{"on", "unknown", "alive"} {
		if got := f.taints(name); got != shutdownKey {
			t.Errorf("node %s has the taints %q", name, got)
		}
	}
	f.grid.set("unknown", metalpower.Off) // by a reading
	f.eventually("unknown", bothKeys)
	<-recorder.Events

	f.grid.set("off", metalpower.Unknown)
	f.ready("off", v1.ConditionTrue) // it may be an old report: not by this alone
	f.grid.set("unknown", metalpower.On)
	f.ready("unknown", v1.ConditionTrue)
	f.eventually("unknown", shutdownKey)
	if event := <-recorder.Events; !strings.Contains(event, "Normal MachineOn") {
		t.Errorf("event %q", event)
	}
	if got := f.taints("off"); got != "a.example/other "+bothKeys {
		t.Errorf("a node whose machine's power is unknown has the taints %q", got)
	}
	f.grid.set("off", metalpower.On)
	f.eventually("off", "a.example/other "+shutdownKey)
	f.counted(registry, `
# HELP mooring_metal_out_of_service_writes_total Changes of the taint node.kubernetes.io/out-of-service on nodes, by operation: taint or untaint.
# TYPE mooring_metal_out_of_service_writes_total counter
mooring_metal_out_of_service_writes_total{operation="taint"} 2
mooring_metal_out_of_service_writes_total{operation="untaint"} 2
`)
	f.isOutdated()
}

// counted waits until the writes are counted: the API server has a write before the controller has its answer.
func (f *taintFixture) counted(registry *prometheus.Registry, want string) {
	f.Helper()
	poll.Until(f, "the writes are counted", func(context.Context) error {
		return testutil.GatherAndCompare(registry, strings.NewReader(want),
			"mooring_metal_out_of_service_writes_total", "mooring_metal_out_of_service_write_failures_total")
	})
}

// isOutdated shows that the API server refuses what was planned for an older node, or for another one of its name.
func (f *taintFixture) isOutdated() {
	f.Helper()
	f.grid.set("alive", metalpower.Unknown) // so only what follows writes to it
	get := func() facts {
		f.Helper()
		node, err := f.client.CoreV1().Nodes().Get(f.Context(), "alive", metav1.GetOptions{})
		if err != nil {
			f.Fatal(err)
		}
		return tainted(node, nodestate.Off, time.Now())
	}
	writer := writer{nodes: f.client.CoreV1(), recorder: record.NewFakeRecorder(10)}
	expectOutdated := func(what string, node facts) {
		f.Helper()
		if err := writer.changeTaint(f.Context(), action{putTaint, node}); !errors.Is(err, errOutdated) {
			f.Errorf("a patch for %s: %v", what, err)
		}
	}
	before := get()
	f.ready("alive", v1.ConditionFalse)
	expectOutdated("an older version", before)
	before = get()
	if err := f.client.CoreV1().Nodes().Delete(f.Context(), "alive", metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	expectOutdated("a node that is gone", before)
	f.node("alive", v1.ConditionUnknown, shutdown)
	expectOutdated("another node of its name", before)
	if got := f.taints("alive"); got != shutdownKey {
		f.Errorf("the taints are %q", got)
	}
}

// A machine that is off by the word of a controller that is another machine's, or may be, keeps its pods and volumes, and an event
// says why; meanwhile the one whose controller is verified loses them.
func TestControllersAreVerified(t *testing.T) {
	f := startTaints(t)
	hour := time.Now().Add(-time.Hour)
	for name, observed := range map[string]metalpower.Observation{
		"wrong": {Err: &metalpower.WrongSystemError{
			Machine: "wrong", Source: metalpower.SourceBMC, UUID: "uuid-2", Reference: metalpower.SourceInventory, Want: "uuid-1",
		}},
		"unverified": {State: metalpower.Off, Since: hour},
		"verified":   {State: metalpower.Off, Since: hour, Verified: true, Trusted: true},
	} {
		f.node(name, v1.ConditionUnknown, shutdown)
		f.grid.states[name] = observed
	}
	f.node("talks", v1.ConditionFalse, shutdown)
	f.grid.states["talks"] = f.grid.states["verified"]
	recorder := f.run(prometheus.NewRegistry())
	f.eventually("verified", bothKeys)
	var events []string
	for range 3 {
		events = append(events, <-recorder.Events)
	}
	slices.Sort(events)
	for i, want := range []string{"Warning MachineOff", "Warning UnverifiedBMC The BMC says", "Warning WrongBMC"} {
		if !strings.HasPrefix(events[i], want) {
			t.Errorf("event %q, want %s", events[i], want)
		}
	}
	if !strings.Contains(events[2], "uuid-1") || !strings.Contains(events[2], "uuid-2") {
		t.Errorf("event %q does not name both UUIDs", events[2])
	}
	f.grid.set("verified", metalpower.Off) // passes go on
	f.node("later", v1.ConditionUnknown, shutdown)
	f.grid.set("later", metalpower.Off)
	f.eventually("later", bothKeys)
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning MachineOff") {
		t.Errorf("event %q: the others are recorded once", event)
	}
	for _, name := range []string{"wrong", "unverified", "talks"} {
		if got := f.taints(name); got != shutdownKey {
			t.Errorf("node %s has the taints %q", name, got)
		}
	}
}
