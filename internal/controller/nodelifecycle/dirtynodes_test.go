package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// watched is a cluster's nodes as a cache shows them: it delivers their changes, and counts how often it is listed.
type watched struct {
	client.Client
	handler toolscache.ResourceEventHandler

	mu     sync.Mutex
	nodes  map[string]*corev1.Node
	listed int
}

// watchedCache and watchedInformer deliver them.
type watchedCache struct {
	cache.Cache
	nodes *watched
}

func (c watchedCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return watchedInformer{nodes: c.nodes}, nil
}

type watchedInformer struct {
	cache.Informer
	nodes *watched
}

func (i watchedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.nodes.handler = handler
	for _, node := range i.nodes.nodes {
		handler.OnAdd(node, true)
	}
	return registered{}, nil
}

type registered struct {
	toolscache.ResourceEventHandlerRegistration
}

func (registered) HasSynced() bool { return true }

func (w *watched) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed++
	for _, node := range w.nodes {
		list.(*corev1.NodeList).Items = append(list.(*corev1.NodeList).Items, *node)
	}
	return nil
}

// Patch refuses: a test that changes nodes does so itself.
func (*watched) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("nothing is written here")
}

// lists returns how often the nodes were listed since it was last called.
func (w *watched) lists() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.listed = 0 }()
	return w.listed
}

// put makes a node what it is from now on.
func (w *watched) put(node *corev1.Node) {
	w.mu.Lock()
	before, known := w.nodes[node.Name]
	w.nodes[node.Name] = node
	w.mu.Unlock()
	if known {
		w.handler.OnUpdate(before, node)
	} else {
		w.handler.OnAdd(node, false)
	}
}

func (w *watched) remove(name string) {
	w.mu.Lock()
	last := w.nodes[name]
	delete(w.nodes, name)
	w.mu.Unlock()
	w.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: name, Obj: last})
}

// runningCloud is a plugin for which all instances run.
type runningCloud struct{ cloudprovider.Interface }

func (runningCloud) ProviderName() string { return "sim" }

func (runningCloud) Capabilities() provider.Capabilities { return provider.Capabilities{} }

func (runningCloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (runningCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return runningInstances{}, true }

type runningInstances struct{ cloudprovider.InstancesV2 }

func (runningInstances) InstanceExists(context.Context, *corev1.Node) (bool, error) { return true, nil }

func (runningInstances) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, nil
}

// watching runs the controller over nodes, within a bubble of virtual time, until the test ends.
func watching(t *testing.T, nodes ...*corev1.Node) *watched {
	t.Helper()
	w := &watched{nodes: map[string]*corev1.Node{}}
	for _, node := range nodes {
		w.nodes[node.Name] = node
	}
	settings := testSettings()
	settings.Limit = Limit{Percent: 100} // no record of deletions
	source := instances.New(instances.Options{Cloud: runningCloud{}})
	controller := New(Options{
		Client: w, Cache: watchedCache{nodes: w}, Recorder: record.NewFakeRecorder(1), Inventory: source,
		Owners: ownership.Rules{ProviderName: "sim"}, DeletionLog: &DeletionLog{}, Settings: settings, Logger: logr.Discard(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// laterHeartbeat is another version of a node that says the same.
func laterHeartbeat(node *corev1.Node) *corev1.Node {
	later := node.DeepCopy()
	later.ResourceVersion += "0"
	for i := range later.Status.Conditions {
		later.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
	}
	return later
}

func TestAHealthyClusterIsNotWalked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*corev1.Node
		for i := range 100 {
			nodes = append(nodes, node(fmt.Sprintf("n%02d", i), corev1.ConditionTrue))
		}
		foreign := node("foreign", corev1.ConditionUnknown, func(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: "true"} })
		w := watching(t, append(nodes, foreign)...)
		step := func(what string, during time.Duration, most int) {
			t.Helper()
			time.Sleep(during)
			synctest.Wait()
			if got := w.lists(); got == 0 && most > 0 || got > most {
				t.Errorf("%s: the nodes were listed %d times in %s, want at most %d, and once at least unless that is 0", what, got, during, most)
			}
		}
		step("at the start", time.Minute, 2)
		for range 60 {
			for _, node := range nodes {
				w.put(laterHeartbeat(node))
			}
			time.Sleep(time.Minute)
		}
		step("an hour of heartbeats", time.Second, 0)
		w.put(node("n00", corev1.ConditionUnknown))
		step("while a node is not ready", time.Minute, 2*13)
		w.put(node("n00", corev1.ConditionTrue))
		step("when it is ready again", time.Minute, 2)
		step("afterwards", time.Hour, 0)
		w.put(node("n01", corev1.ConditionTrue, shutdownTainted))
		step("while a ready node has the shutdown taint", 10*time.Second, 2*3)
		w.put(node("n01", corev1.ConditionTrue, func(n *corev1.Node) { n.UID = "another" }))
		step("when another node has its name", time.Minute, 2)
		w.remove("n01")
		step("when that is gone", time.Minute, 2)
		step("at rest again", time.Hour, 0)
	})
}

// What needs no look is left alone, whatever the cloud says and whatever is remembered.
func TestWhatNeedsNoLookIsLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := node("a", rapid.SampledFrom([]corev1.ConditionStatus{"", corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, "ready"))
		if rapid.Bool().Draw(t, "held") {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: ConditionInstanceGone, Status: corev1.ConditionTrue})
		}
		if rapid.Bool().Draw(t, "tainted") {
			shutdownTainted(n)
		}
		if rapid.Bool().Draw(t, "announced") {
			withTaint(names.TaintToBeDeleted, "", corev1.TaintEffectNoSchedule)(n)
		}
		if rapid.Bool().Draw(t, "deleting") {
			beingDeleted(n)
		}
		if isDirty(n) {
			return
		}
		f := factsOf(n, rapid.SampledFrom([]owner{ours, awaited, foreign}).Draw(t, "owner"))
		said := answers{}
		if rapid.Bool().Draw(t, "answered") {
			said[f.uid] = answer{
				exists: rapid.Bool().Draw(t, "exists"), at: today,
				state: rapid.SampledFrom([]provider.InstanceState{provider.InstanceRunning, provider.InstanceStopped}).Draw(t, "state"),
			}
		}
		planned, next := decide([]facts{f}, said, guard{}, testSettings(), today)
		if len(planned.actions) > 0 || len(next.denials) > 0 || f.due(testSettings(), today) {
			t.Fatalf("a node that needs no look: due %t, actions %v, denials %v", f.due(testSettings(), today), show(planned), next.denials)
		}
	})
}

// BenchmarkHeartbeats is what the heartbeats of 5,000 ready nodes cost.
func BenchmarkHeartbeats(b *testing.B) {
	nodes := slices.Repeat([]*corev1.Node{node("a", corev1.ConditionTrue)}, 5000)
	a := newDirtyNodes(ownership.Rules{ProviderName: "sim"})
	b.ReportAllocs()
	for b.Loop() {
		for _, node := range nodes {
			a.update(node)
		}
	}
}
