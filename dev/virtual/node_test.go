package virtual

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// nodeController returns how a node controller is made that asks for each node within a time, 0 for the default.
func nodeController(full time.Duration) func(*run) (controller, error) {
	return func(r *run) (controller, error) {
		return node.New(node.Options{
			Client: r.client, LiveReader: r.cluster, Cache: r.caches, Recorder: r.events, Inventory: r.inventory, Owners: r.owners,
			FullRefreshPeriod: full, Logger: logr.Discard(),
		})
	}
}

const (
	// longestNodeRetry is how long a node that fails waits at the most for its next try, and shortestNodeRetry without the jitter.
	longestNodeRetry, shortestNodeRetry = 2 * time.Minute, 109 * time.Second
	// prompt is how long a healthy object waits.
	prompt = time.Second
	// abandonedBound is how many goroutines may be left of an object whose calls have hung for three days.
	abandonedBound = 32
)

// failing are nodes for which calls fail forever.
var failing = map[string]pluginfault.Fault{
	"fails":     pluginfault.Fail(errors.New("internal error")),
	"panics":    pluginfault.Panic("nil map"),
	"throttled": pluginfault.Throttle(time.Minute),
}

// everyOther answers every other time with host names only.
func everyOther() pluginfault.Fault {
	answers := 0
	return pluginfault.Answer(func(_ *corev1.Node, right *cloudprovider.InstanceMetadata) *cloudprovider.InstanceMetadata {
		if answers++; answers%2 == 0 {
			return right
		}
		wrong := *right
		wrong.NodeAddresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "lies"}}
		return &wrong
	})
}

// hasAddress reports whether a node shows the address that its instance has.
func (r *run) hasAddress(name string) bool {
	shown := r.cluster.node(name).Status.Addresses
	address := r.cloud.Address(name)
	return len(shown) > 0 && shown[0].Address == address
}

// initialized waits until a node is initialized.
func (r *run) initialized(bound time.Duration, name string) {
	r.t.Helper()
	r.within(bound, name+" is initialized", func() bool { return !ownership.Uninitialized(r.cluster.node(name)) })
}

// TestNodesForDays: for days the cloud fails for one node, panics for one, hangs for one and refuses one for its quota. Every other answer about one
// node is wrong. One more node belongs to another controller. Meanwhile nodes that join are initialized at once. Existing nodes are compared with the
// cloud as often as documented: in each interval, or after pauses that are as long as nothing has changed. The faulty nodes cost some calls an hour.
// Once their faults end, they are initialized within their longest pause.
func TestNodesForDays(t *testing.T) {
	t.Run("each node in each interval", func(t *testing.T) {
		nodesForDays(t, node.DefaultStatusUpdateFrequency, func(r *run) {
			r.within(node.DefaultStatusUpdateFrequency+prompt, "the new address of a node", func() bool { return r.hasAddress("steady") })
		})
	})
	t.Run("nodes to which something happens", func(t *testing.T) {
		boots := 0
		nodesForDays(t, 0, func(r *run) {
			boots++
			r.cluster.change("steady", func(node *corev1.Node) { node.Status.NodeInfo.BootID = fmt.Sprint("boot-", boots) })
			if boots > 1 { // it had none before
				r.within(prompt, "the new address of a node that rebooted", func() bool { return r.hasAddress("steady") })
			}
		})
	})
}

// nodesForDays has the days pass. A function waits until the address that has moved is seen.
func nodesForDays(t *testing.T, full time.Duration, seen func(*run)) {
	const lasts = 3 * day
	virtually(t, faulty.Options{}, nodeController(full), func(r *run) {
		r.joined("steady")
		r.joined("lies")
		r.foreign("foreign")
		r.within(node.DefaultStatusUpdateFrequency+prompt, "the node's addresses", func() bool { return len(r.cluster.node("lies").Status.Addresses) > 0 })
		r.cloud.Fault("InstanceMetadata", "lies", everyOther())
		r.cloud.Fault("InstanceMetadata", "hangs", pluginfault.Hang())
		r.join("hangs")
		for name, fault := range failing {
			r.cloud.Fault("InstanceMetadata", name, fault)
			r.join(name)
		}
		time.Sleep(time.Hour)
		before := goroutines()
		for began := time.Now(); time.Since(began) < lasts; {
			r.hourOfNodes(seen, fmt.Sprintf("new-%d", int(time.Since(began).Hours())))
		}
		if grown := goroutines() - before; grown > abandonedBound {
			t.Errorf("%d goroutines more after %s, want at most %d", grown, lasts, abandonedBound)
		}
		if written := r.cluster.written("Node", "", "foreign"); written > 0 {
			t.Errorf("a foreign node was written %d times", written)
		}
		r.events.expectAtMost(t, int((lasts+2*time.Hour)/kit.EventInterval)+1)
		for name := range failing {
			r.cloud.Fault("InstanceMetadata", name, pluginfault.Fault{})
		}
		for name := range failing {
			r.initialized(longestNodeRetry+prompt, name)
		}
		if calls := len(r.cloud.Calls("InstanceMetadata", "hangs")); calls != 1 {
			t.Errorf("%d calls for the node whose call has not returned, want no other beside it", calls)
		}
	})
}

// hourOfNodes is an hour in which a node joins and leaves, and another one gets another address.
func (r *run) hourOfNodes(seen func(*run), joins string) {
	r.t.Helper()
	hour := time.Now()
	r.join(joins)
	r.initialized(prompt, joins)
	r.cluster.remove(r.cluster.node(joins))
	r.cloud.MoveInstance("steady")
	seen(r)
	time.Sleep(time.Until(hour.Add(time.Hour)))
	if r.cluster.node("lies").Status.Addresses[0].Type != corev1.NodeInternalIP {
		r.t.Errorf("a node that is ready lost its address by one answer: %v", r.cluster.node("lies").Status.Addresses)
	}
	refreshes := int(time.Hour / node.DefaultStatusUpdateFrequency)
	r.expectCalls("InstanceMetadata", "lies", hour, refreshes-1, refreshes+1)
	for name := range failing {
		r.expectCalls("InstanceMetadata", name, hour, int(time.Hour/longestNodeRetry)-1, int(time.Hour/shortestNodeRetry)+1)
	}
	r.expectCalls("InstanceMetadata", "hangs", hour, 0, 2)
	r.expectCalls(pluginfault.Any, "foreign", hour, 0, 0)
}
