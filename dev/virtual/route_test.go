package virtual

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/route"
)

func routeController(r *run) (controller, error) {
	return route.New(route.Options{
		Client: r.client, Live: r.cluster, Cache: r.caches, Recorder: r.events, Cloud: r.decorated, Owners: r.owners, ClusterName: "cluster",
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Logger: logr.Discard(),
	})
}

// routed has a node appear that has a pod CIDR.
func (r *run) routed(name string, number int) {
	r.joined(name)
	r.cluster.change(name, func(node *corev1.Node) {
		node.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", number/256, number%256)
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: r.cloud.Address(name)}}
	})
}

// routedWithin is how long a node waits for its route, and the route of a node that is gone for its end: the least pause between two passes,
// and a pass that waits for calls that hang.
const routedWithin = route.DefaultPeriod + route.DefaultPeriod/2 + prompt

const (
	// retriedWithin is the longest pause after a failure.
	retriedWithin = 2 * time.Minute
	// lostWithin is how long a deleted route may be missing: until the next list, and until another list lacks it, too.
	lostWithin = 5*route.DefaultPeriod + prompt
)

// TestRoutesForDays: for days the creation of one route fails, another creation panics, one hangs, and one is refused for the quota. The cloud loses
// one route each hour, and one node belongs to another controller. Meanwhile new nodes get routes in time, and deleted nodes lose them in time. The
// controller makes lost routes again, and reads the table as often as documented. The faulty nodes cost some calls an hour, and get their routes once
// their faults end.
func TestRoutesForDays(t *testing.T) {
	const lasts = 3 * day
	sick := map[string]pluginfault.Fault{
		"fails": pluginfault.Fail(errors.New("internal error")), "panics": pluginfault.Panic("nil map"), "throttled": pluginfault.Throttle(time.Minute),
	}
	virtually(t, faulty.Options{}, routeController, func(r *run) {
		r.routed("steady", 1)
		r.routed("lost", 2)
		r.foreign("foreign")
		r.cluster.change("foreign", func(node *corev1.Node) { node.Spec.PodCIDRs = []string{"10.0.3.0/24"} })
		r.cloud.Fault("CreateRoute", "hangs", pluginfault.Hang())
		r.routed("hangs", 4)
		for name, fault := range sick {
			r.cloud.Fault("CreateRoute", name, fault)
			r.routed(name, 5+len(name))
		}
		time.Sleep(time.Hour)
		before := goroutines()
		for began := time.Now(); time.Since(began) < lasts; {
			r.hourOfRoutes(int(time.Since(began).Hours()))
			for name := range sick {
				r.expectCalls("CreateRoute", name, time.Now().Add(-time.Hour), 26, 32)
			}
		}
		if grown := goroutines() - before; grown > 4 {
			t.Errorf("%d goroutines more after %s", grown, lasts)
		}
		if created := len(r.cloud.Calls("CreateRoute", "hangs")); created != 1 {
			t.Errorf("a write that never returned was made %d times: another beside it might undo what it does", created)
		}
		r.expectCalls(pluginfault.Any, "foreign", time.Time{}, 0, 0)
		r.events.expectAtMost(t, int((lasts+2*time.Hour)/kit.EventInterval)+1)
		for name := range sick {
			r.cloud.Fault("CreateRoute", name, pluginfault.Fault{})
		}
		for name := range sick {
			r.within(retriedWithin+routedWithin, "the route to "+name, func() bool { return r.hasRoute(name) })
		}
	})
}

func (r *run) hasRoute(node string) bool { return slices.Contains(r.cloud.RoutedNodes(), node) }

// hourOfRoutes is an hour in which a node comes and goes, and a route is lost.
func (r *run) hourOfRoutes(number int) {
	r.t.Helper()
	hour, name := time.Now(), fmt.Sprintf("new-%d", number)
	r.routed(name, 1000+number)
	r.within(routedWithin, "the route to a new node", func() bool { return r.hasRoute(name) })
	r.cluster.remove(r.cluster.node(name))
	r.within(2*routedWithin, "the end of the route to a node that is gone", func() bool { return !r.hasRoute(name) })
	r.cloud.LoseRoute("lost")
	r.within(lostWithin, "a lost route", func() bool { return r.hasRoute("lost") })
	time.Sleep(time.Until(hour.Add(time.Hour)))
	r.expectCalls("CreateRoute", "steady", hour, 0, 0)
	r.expectCalls("DeleteRoute", "steady", hour, 0, 0)
	r.expectCalls("ListRoutes", "", hour, int(time.Hour/(3*route.DefaultPeriod))-1, int(time.Hour/route.DefaultPeriod))
}
