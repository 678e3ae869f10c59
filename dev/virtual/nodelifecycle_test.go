package virtual

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
)

func lifecycleController(r *run) (controller, error) {
	leases := fake.NewClientset()
	return nodelifecycle.New(nodelifecycle.Options{
		Client: r.client, Cache: r.caches, Recorder: r.events, Inventory: r.inventory, Owners: r.owners,
		DeletionLog: &nodelifecycle.DeletionLog{Leases: leases.CoordinationV1(), Namespace: metav1.NamespaceSystem, Name: "deletions"},
		Settings:    nodelifecycle.DefaultSettings(), Period: time.Minute, Logger: logr.Discard(), // twelve times fewer passes than by default
	}), nil
}

const (
	// lifecycleNodes are ready nodes. As many more are needed that ten of all are no more than half.
	lifecycleNodes = 8
	// dyingNodes are more than may be deleted within ten minutes, which limitedNodes is.
	dyingNodes, limitedNodes = 16, 10
	// deletedWithin is how long a dead node stays: ten seconds of denials, and the pauses before a pass and for an answer that does not
	// come.
	deletedWithin = 20 * time.Second
	// triesAnHour is how often the cloud is asked about a node for which it fails, by each of the two questions.
	triesAnHour = 60
)

// silent are nodes that are not ready and for which the cloud does not answer.
var silent = map[string]pluginfault.Fault{
	"fails": pluginfault.Fail(errors.New("internal error")), "panics": pluginfault.Panic("nil map"),
	"throttled": pluginfault.Throttle(time.Minute), "hangs": pluginfault.Hang(),
}

// TestDeadNodesForDays: some nodes are not ready. For days the cloud fails for one, panics for one, hangs for one and refuses one for its quota. It
// denies a ready node, and one more node belongs to another controller. Meanwhile nodes are deleted in time when their instances are gone, and
// tainted when their instances are stopped. No other node is touched.
func TestDeadNodesForDays(t *testing.T) {
	const lasts = day // of a pass every few seconds
	virtually(t, faulty.Options{}, lifecycleController, func(r *run) {
		for i := range lifecycleNodes {
			r.joined(fmt.Sprintf("ready-%d", i))
		}
		r.joined("denied")
		r.cloud.LoseInstance("denied")
		r.foreign("foreign")
		// A method that has never returned may be filling a cache: its first call keeps its place for as long as it hangs.
		r.turn("ready-1", corev1.ConditionUnknown)
		r.within(deletedWithin, "the first answer", func() bool { return len(r.cloud.Calls("InstanceExists", "ready-1")) > 0 })
		r.turn("ready-1", corev1.ConditionTrue)
		for name, fault := range silent {
			r.cloud.Fault("InstanceExists", name, fault)
			r.cloud.Fault("InstanceMetadata", name, fault)
			r.joined(name)
			r.turn(name, corev1.ConditionUnknown)
		}
		began := time.Now()
		time.Sleep(time.Hour)
		before := goroutines()
		for time.Since(began) < time.Hour+lasts {
			r.hourOfDeadNodes(fmt.Sprintf("dead-%d", int(time.Since(began).Hours())))
		}
		r.massDeath()
		if grown := goroutines() - before; grown > abandonedBound {
			t.Errorf("%d goroutines more after %s, want at most %d", grown, lasts, abandonedBound)
		}
		for _, name := range []string{"fails", "panics", "throttled", "hangs", "foreign", "denied", "ready-0"} {
			if written := r.cluster.written("Node", "", name); written > 0 || r.cluster.node(name) == nil {
				t.Errorf("node %s was written %d times, and exists: %t", name, written, r.cluster.node(name) != nil)
			}
		}
		r.events.expectAtMost(t, int(time.Since(began)/kit.EventInterval)+1)
	})
}

// hourOfDeadNodes is an hour in which one node dies, and another one's instance is stopped and started.
func (r *run) hourOfDeadNodes(dead string) {
	r.t.Helper()
	hour := time.Now()
	r.joined(dead)
	time.Sleep(time.Minute)
	r.cloud.RemoveInstance(dead)
	r.turn(dead, corev1.ConditionUnknown)
	r.within(deletedWithin, "the deletion of a dead node", func() bool { return r.cluster.node(dead) == nil })
	r.cloud.StopInstance("ready-1")
	r.turn("ready-1", corev1.ConditionUnknown)
	r.within(deletedWithin, "the taint of a stopped node", func() bool { return len(r.cluster.node("ready-1").Spec.Taints) == 1 })
	r.cloud.StartInstance("ready-1")
	r.turn("ready-1", corev1.ConditionTrue)
	r.within(time.Minute+prompt, "its removal", func() bool { return len(r.cluster.node("ready-1").Spec.Taints) == 0 })
	time.Sleep(time.Until(hour.Add(time.Hour)))
	r.expectCalls(pluginfault.Any, "foreign", hour, 0, 0)
	r.expectCalls(pluginfault.Any, "ready-0", hour, 0, 4)
	for _, name := range []string{"fails", "panics", "throttled"} {
		r.expectCalls(pluginfault.Any, name, hour, triesAnHour/2, 2*triesAnHour)
	}
	r.expectCalls(pluginfault.Any, "hangs", hour, 0, 2)
}

// massDeath has twice as many nodes die at once as are ready. Within any ten minutes no more are deleted than the limit allows, and in the end
// all of them are.
func (r *run) massDeath() {
	r.t.Helper()
	left := map[string]bool{}
	for i := range dyingNodes {
		name := fmt.Sprintf("dies-%d", i)
		left[name] = true
		r.joined(name)
	}
	time.Sleep(time.Hour)
	for name := range left {
		r.cloud.RemoveInstance(name)
		r.turn(name, corev1.ConditionUnknown)
	}
	var deleted []time.Time
	for began := time.Now(); len(left) > 0; time.Sleep(time.Second) {
		if time.Since(began) > 2*time.Hour {
			r.t.Errorf("%d dead nodes are left after %s", len(left), time.Since(began))
			return
		}
		for name := range left {
			if r.cluster.node(name) == nil {
				delete(left, name)
				deleted = append(deleted, time.Now())
			}
		}
		recent := slices.IndexFunc(deleted, func(at time.Time) bool { return time.Since(at) < nodelifecycle.DefaultWindow })
		if recent >= 0 && len(deleted)-recent > limitedNodes {
			r.t.Errorf("%d nodes were deleted within %s, want at most %d", len(deleted)-recent, nodelifecycle.DefaultWindow, limitedNodes)
			return
		}
	}
}
