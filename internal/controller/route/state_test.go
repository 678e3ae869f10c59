package route

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// remembering is a state, a plan over nodes and routes, and the time.
type remembering struct {
	*state
	nodes  []member
	routes []*cloudprovider.Route
	now    time.Time
}

func (r *remembering) plan() plan {
	return makePlan(desire(r.nodes, clusterCIDRs), r.routes, abilities{})
}

// admitted returns what of the plan would be done now.
func (r *remembering) admitted(busy ...destination) (doing, waiting []string) {
	got := r.admit(desire(r.nodes, clusterCIDRs), r.plan(), busy, r.now)
	for _, want := range got.waiting {
		waiting = append(waiting, want.cidr)
	}
	return lines(plan{removals: got.removals, makes: got.makes}), waiting
}

func (r *remembering) expect(t *testing.T, doing, waiting []string, busy ...destination) {
	t.Helper()
	gotDoing, gotWaiting := r.admitted(busy...)
	if diff := cmp.Diff(doing, gotDoing); diff != "" {
		t.Errorf("done now (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(waiting, gotWaiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}

func remember(nodes []member, routes ...*cloudprovider.Route) *remembering {
	return &remembering{state: newState(DefaultPeriod), nodes: nodes, routes: routes, now: epoch}
}

// do begins and ends the first operation of the plan.
func (r *remembering) do(err error) {
	planned := r.plan()
	first := append(planned.removals, planned.makes...)[0]
	r.begin(first)
	r.end(first, err, r.now)
}

func TestAFailedOperationRests(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")})
	pauses := slices.Concat(seconds(10, 20), slices.Repeat(seconds(30), persistent-2), seconds(120, 120))
	for _, pause := range pauses {
		r.do(errors.New("no"))
		r.expect(t, []string{"create 10.120.1.0/24 by b"}, []string{"10.120.0.0/24"})
		if got := r.next(r.now).Sub(r.now); got != pause {
			t.Errorf("the next try is due in %s, want %s", got, pause)
		}
		r.now = r.now.Add(pause)
		r.expect(t, []string{"create 10.120.0.0/24 by a", "create 10.120.1.0/24 by b"}, nil)
		if got := r.next(r.now); !got.IsZero() {
			t.Errorf("a try is due at %s, want none: it is due already", got)
		}
	}
	r.do(nil)
	r.now = r.now.Add(maxLag)
	r.do(errors.New("no"))
	if got := r.next(r.now).Sub(r.now); got != DefaultPeriod {
		t.Errorf("after a success the first failure delays by %s, want %s", got, DefaultPeriod)
	}
}

func TestAnOperationThatFailedIsTriedAtOnceWhenTheNodeChanges(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24")})
	r.do(&provider.TerminalError{Err: errors.New("no such address")})
	r.now = r.now.Add(59 * time.Second)
	r.expect(t, nil, []string{"10.120.0.0/24"})
	r.nodes[0].node.Status.Addresses = addresses("new")
	r.expect(t, []string{"create 10.120.0.0/24 by a"}, nil)
}

func TestAListThatLagsIsNotBelieved(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24")})
	r.do(nil)
	r.expect(t, nil, nil)
	r.now = r.now.Add(maxLag - time.Second)
	r.expect(t, nil, nil)
	r.now = r.now.Add(time.Second)
	r.expect(t, []string{"create 10.120.0.0/24 by a"}, nil)

	r = remember([]member{node("a", "10.120.0.0/24")}, route("stale", "10.120.0.0/25", "gone"))
	r.do(nil)
	r.expect(t, []string{"create 10.120.0.0/24 by a"}, nil) // the removal is through, whatever the list shows
	r.now = r.now.Add(maxLag)
	r.expect(t, []string{"remove stale", "create 10.120.0.0/24 by a"}, nil)
}

// lists has a list show a route to the node of a test, or none, and says whether the route would be made and whether the node may be told that it has none.
func (r *remembering) lists(there bool) (makes, denies bool) {
	r.routes = nil
	if there {
		r.routes = []*cloudprovider.Route{route("r", "10.120.0.0/24", "a")}
	}
	doing, _ := r.admitted()
	wanted := desire(r.nodes, clusterCIDRs).wants[0]
	return len(doing) > 0, r.deniable(wanted.key(), r.now)
}

// What a list lacks that was there before is made again when lists have lacked it for a period. It is denied when they have lacked it for longer
// than any list may lag: several pages in a row may be empty, and the creation that follows may be refused.
func TestOneListDeniesNothing(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24")})
	r.nodes[0].shown = true
	for since := r.now; r.now.Sub(since) <= maxLag; r.now = r.now.Add(5 * time.Second) {
		lacked := r.now.Sub(since)
		makes, denies := r.lists(false)
		if makes != (lacked >= DefaultPeriod) || denies != (lacked >= maxLag) {
			t.Errorf("%s after the first list that lacks it: made again %t, denied %t", lacked, makes, denies)
		}
	}
}

// A node that never had a route is told so at once; one whose destination is another's now, too.
func TestWhatWasNeverThereIsDenied(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24")})
	if makes, denies := r.lists(false); !makes || !denies {
		t.Errorf("a route that was never there: made %t, denied %t", makes, denies)
	}
	r.lists(true)
	r.routes = []*cloudprovider.Route{blackhole("r", "10.120.0.0/24", "")}
	r.expect(t, []string{"recreate r by a"}, nil)
	if !r.deniable(desire(r.nodes, clusterCIDRs).wants[0].key(), r.now) {
		t.Error("a route that drops packets is believed to be there")
	}
}

// Who had a route before another one to its destination was removed, or has got one since, is not without one because one list lacks it.
func TestARemovalConcernsNoOtherRoute(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24")}, route("r", "10.120.0.0/24", "a"))
	r.expect(t, nil, nil)
	r.routes = append(r.routes, route("s", "10.120.0.0/24", "gone"))
	r.do(nil)
	r.lists(true)
	if makes, _ := r.lists(false); makes {
		t.Error("a route that was there before the removal is made again")
	}

	r = remember(nil, route("r", "10.120.0.0/24", "a"))
	r.do(nil)
	r.nodes, r.routes = []member{node("a", "10.120.0.0/24")}, nil
	r.do(nil)
	r.lists(true)
	if makes, _ := r.lists(false); makes {
		t.Error("a route that was made after the removal is made again")
	}
}

func TestNothingIsMadeWhereARouteShouldBeGone(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")}, route("stale", "10.120.0.0/25", "gone"))
	r.do(errors.New("no"))
	r.expect(t, []string{"create 10.120.1.0/24 by b"}, []string{"10.120.0.0/24"})
}

// A stale route that cannot be deleted, and covers the pod CIDRs of nodes, holds up none of theirs: the more specific route wins.
func TestARouteThatCoversOthersIsInNoNodesWay(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")}, blackhole("wide", "10.120.0.0/16", ""))
	creations := []string{"create 10.120.0.0/24 by a", "create 10.120.1.0/24 by b"}
	for range 10 {
		r.do(errors.New("403 forbidden"))
		r.expect(t, creations, nil)
		r.now = r.next(r.now)
		r.expect(t, append([]string{"remove wide"}, creations...), nil)
	}
	r.begin(r.plan().removals[0]) // it hangs
	r.expect(t, creations, nil, r.underWay()...)

	// Nor does a route that cannot be made hold up the removal of one that covers it.
	r = remember([]member{node("a", "10.120.0.0/24")}, blackhole("wide", "10.120.0.0/16", ""))
	r.begin(r.plan().makes[0])
	r.expect(t, []string{"remove wide"}, []string{"10.120.0.0/24"}, r.underWay()...)
}

func TestNothingIsDoneWhereSomethingIsUnderWay(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")},
		route("stale", "10.120.0.0/25", "gone"), route("other", "10.120.1.0/24", "gone"))
	first := r.plan().removals[0]
	r.begin(first)
	busy := r.underWay()
	r.expect(t, []string{"recreate other by b"}, []string{"10.120.0.0/24"}, busy...)
	if late := r.end(first, nil, r.now); late {
		t.Error("an operation that was not abandoned is late")
	}
	// It has ended since the routes were listed: the list may show the state before or after.
	r.expect(t, []string{"recreate other by b"}, []string{"10.120.0.0/24"}, busy...)
	r.expect(t, []string{"recreate other by b", "create 10.120.0.0/24 by a"}, nil, r.underWay()...)
}

func TestAbandonedOperationsAreLate(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")})
	makes := r.plan().makes
	r.begin(makes[0])
	r.begin(makes[1])
	r.end(makes[0], nil, r.now)
	if left := r.abandon(makes); left != 1 {
		t.Errorf("%d operations are left, want 1", left)
	}
	if !r.end(makes[1], nil, r.now) {
		t.Error("an abandoned operation is not late")
	}
}

func TestWhatIsNotPlannedAnyMoreIsForgotten(t *testing.T) {
	r := remember([]member{node("a", "10.120.0.0/24")})
	r.do(errors.New("no"))
	r.nodes = nil
	r.expect(t, nil, nil)
	if len(r.attempts) != 0 {
		t.Errorf("%d operations are remembered of a node that is gone", len(r.attempts))
	}
}
