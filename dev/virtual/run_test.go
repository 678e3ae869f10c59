// Package virtual runs whole controllers for days of virtual time, while one object misbehaves in each way, and holds them to their promises
// about time: how long the others wait, how often the sick one is tried, and what is left behind.
package virtual

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeobjects "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const day = 24 * time.Hour

// run is one controller in virtual time, with all that it has in a manager: its queue and backoff, the client of the cloud with its
// quota, the inventory, and informers. The plugin is scripted, and the API server a cluster in memory.
type run struct {
	t         *testing.T
	cluster   *cluster
	cloud     *faulty.Cloud
	decorated cloudprovider.Interface
	inventory *instances.Inventory
	owners    ownership.Rules
	caches    *caches
	client    client.Client
	events    *events

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// controller is what a manager runs.
type controller interface{ Start(context.Context) error }

// virtually runs a test in a bubble of virtual time. Build makes the controller. Act is run beside it; afterwards everything has to end:
// a bubble does not, as long as a goroutine is left in it.
func virtually(t *testing.T, options faulty.Options, build func(*run) (controller, error), act func(*run)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &run{t: t, cluster: newCluster(), cloud: faulty.New(t.Name(), options), events: &events{counts: map[[2]string]int{}}}
		r.ctx, r.cancel = context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		r.decorated = cloud.Decorate(r.cloud, cloud.Options{})
		r.inventory = instances.New(instances.Options{Cloud: r.decorated, Logger: logr.Discard()})
		r.owners = ownership.Rules{Schemes: []string{t.Name()}, ProviderName: t.Name()}
		r.cluster.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}})
		r.caches = startCaches(r.ctx, r.cluster, &r.running)
		r.client = cachedClient{cluster: r.cluster, caches: r.caches}
		defer r.running.Wait()
		defer r.cloud.Release()
		defer r.cancel()
		r.running.Go(func() { _ = r.inventory.Start(r.ctx) })
		built, err := build(r)
		if err != nil {
			t.Error(err)
			return
		}
		r.running.Go(func() {
			if err := built.Start(r.ctx); err != nil {
				t.Error(err)
			}
		})
		act(r)
	})
}

// join has a node appear that a kubelet has registered: it waits for its initialization. Its instance exists already.
func (r *run) join(name string) {
	r.cloud.AddInstance(name)
	r.cluster.put(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
}

// joined has a node appear that was initialized before, ready or not.
func (r *run) joined(name string) {
	r.cloud.AddInstance(name)
	r.cluster.put(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-day))},
		Spec:       corev1.NodeSpec{ProviderID: r.cloud.ProviderID(name)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
}

// foreign has a node of another provider appear.
func (r *run) foreign(name string) {
	r.cluster.put(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-day))},
		Spec:       corev1.NodeSpec{ProviderID: "elsewhere://" + name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	})
}

// turn makes a node ready or not.
func (r *run) turn(name string, ready corev1.ConditionStatus) {
	r.cluster.change(name, func(node *corev1.Node) { node.Status.Conditions[0].Status = ready })
}

// within waits until something holds, and fails the test if that takes longer than a bound. It looks a hundred times until then.
func (r *run) within(bound time.Duration, what string, holds func() bool) {
	r.t.Helper()
	for began := time.Now(); !holds(); time.Sleep(bound / 100) {
		if took := time.Since(began); took > bound {
			r.t.Errorf("%s: not so after %s, want it within %s", what, took, bound)
			return
		}
	}
}

// expectCalls fails the test unless the calls of an operation for an object since a time are so many.
func (r *run) expectCalls(operation, object string, since time.Time, least, most int) {
	r.t.Helper()
	if count := r.cloud.CallsSince(operation, object, since); count < least || count > most {
		r.t.Errorf("%d calls of %s for %q within %s, want %d to %d", count, operation, object, time.Since(since), least, most)
	}
}

// goroutines returns how many there are once all of the bubble have come to rest.
func goroutines() int {
	synctest.Wait()
	return runtime.NumGoroutine()
}

// events counts the events of objects by reason.
type events struct {
	record.EventRecorder // nil: an event that is not expected here ends the test

	mu     sync.Mutex
	counts map[[2]string]int
}

// Event is part of record.EventRecorder.
func (e *events) Event(object kubeobjects.Object, _, reason, _ string) {
	about, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		about = &corev1.ObjectReference{Name: err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[[2]string{about.Name, reason}]++
}

// Eventf is part of record.EventRecorder.
func (e *events) Eventf(object kubeobjects.Object, kind, reason, message string, args ...any) {
	e.Event(object, kind, reason, fmt.Sprintf(message, args...))
}

// expectAtMost fails the test if an object has more events of one reason than so many.
func (e *events) expectAtMost(t *testing.T, most int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, about := range slices.SortedFunc(maps.Keys(e.counts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if e.counts[about] > most {
			t.Errorf("%s has %d events %s, want at most %d", about[0], e.counts[about], about[1], most)
		}
	}
}
