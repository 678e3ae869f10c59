package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/provider"
)

// changeRoutes is provider.Capabilities.ChangeRoutes of a scripted plugin: one call, which fails by itself for the changes that
// are to fail. A call that holds a change that spoils it fails as a whole.
func (s *scripted) changeRoutes(_ context.Context, cluster string, changes []provider.RouteChange) ([]error, error) {
	var parts []string
	results := make([]error, len(changes))
	var whole error
	for i, change := range changes {
		part := lineOf(change)
		parts = append(parts, part)
		switch {
		case s.spoils != nil && strings.Contains(part, s.spoiled):
			whole = s.spoils
		case s.fails != "" && strings.Contains(part, s.fails):
			results[i] = errors.New("scripted failure")
		}
	}
	_ = s.call(fmt.Sprintf("change %s: %s", cluster, strings.Join(parts, ", "))) // which fails for a part of it
	if whole != nil {
		return nil, whole
	}
	return results, nil
}

func lineOf(change provider.RouteChange) string {
	switch {
	case change.New == nil:
		return "delete " + change.Old.Name
	case change.Old == nil:
		return fmt.Sprintf("create %s %s by %s", change.NameHint, change.New.DestinationCIDR, change.New.TargetNode)
	default:
		return fmt.Sprintf("replace %s by %s %s", change.Old.Name, change.NameHint, change.New.TargetNode)
	}
}

// newBatching is an applier that makes up to batch changes by a call, with as many calls at once as there are places.
func newBatching(places, batch int) *applying {
	a := newApplying(places)
	a.change, a.batch = a.plugin.changeRoutes, batch
	return a
}

// nodesWithRoutesToMake are nodes n00, n01 and so on with a pod CIDR each.
func nodesWithRoutesToMake(count int) (nodes []member) {
	for i := range count {
		nodes = append(nodes, node(fmt.Sprintf("n%02d", i), fmt.Sprintf("10.120.%d.0/24", i)))
	}
	return nodes
}

func TestApplyMakesChangesByOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatching(8, 10)
		nodes := []member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24"), node("c", "10.120.2.0/24")}
		routes := []*cloudprovider.Route{
			route("stale", "10.120.9.0/24", "gone"), route("old", "10.120.1.0/24", "gone"), blackhole("hole", "10.120.8.0/24", ""),
		}
		if got := failed(a.run(t, nodes, routes, abilities{replaces: true})); got != nil {
			t.Errorf("failures: %q", got)
		}
		want := []string{
			"change test: delete hole, delete stale",
			"change test: replace old by uid-b b, create uid-a 10.120.0.0/24 by a, create uid-c 10.120.2.0/24 by c",
		}
		if diff := cmp.Diff(want, a.plugin.seen()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestBatchesKeepToTheBounds: a batch is no larger than the provider takes, and each call counts against the bound of concurrent writes.
func TestBatchesKeepToTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatching(2, 10)
		begun := time.Now()
		outcomes := a.run(t, nodesWithRoutesToMake(45), nil, abilities{})
		if len(outcomes) != 45 || failed(outcomes) != nil || a.plugin.most != 2 || time.Since(begun) != 3*time.Second {
			t.Errorf("%d outcomes by %d calls, %d at once, in %s; want 45 by 5, 2 at once, in 3s",
				len(outcomes), len(a.plugin.seen()), a.plugin.most, time.Since(begun))
		}
		var sizes []int
		for _, call := range a.plugin.seen() {
			sizes = append(sizes, strings.Count(call, "create"))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{5, 10, 10, 10, 10}) {
			t.Errorf("batches of %v", sizes)
		}
	})
}

// What fails by itself is reported by itself, and the rest of its call is done.
func TestBatchesTellFailuresApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatching(8, 10)
		a.plugin.fails = "10.120.1.0/24"
		nodes := nodesWithRoutesToMake(3)
		outcomes := a.run(t, nodes, nil, abilities{})
		want := []string{"creating the route to 10.120.1.0/24 by node n01: scripted failure"}
		if diff := cmp.Diff(want, failed(outcomes)); diff != "" || len(outcomes) != 3 {
			t.Errorf("%d outcomes, failures (-want +got):\n%s", len(outcomes), diff)
		}
		if got := <-a.events.Events; !strings.Contains(got, want[0]) || len(a.events.Events) != 0 {
			t.Errorf("event %q and %d more", got, len(a.events.Events))
		}
		// Its turn comes after its pause, and not before.
		routes := []*cloudprovider.Route{route("r0", "10.120.0.0/24", "n00"), route("r2", "10.120.2.0/24", "n02")}
		if again := a.run(t, nodes, routes, abilities{}); again != nil {
			t.Errorf("tried again at once: %v", again)
		}
		time.Sleep(DefaultPeriod)
		if again := a.run(t, nodes, routes, abilities{}); len(again) != 1 {
			t.Errorf("%d outcomes after the pause, want 1", len(again))
		}
	})
}

// One change by which a cloud refuses the whole call holds up the others for a few seconds, and then itself alone.
func TestAChangeThatSpoilsItsCallIsSoonAlone(t *testing.T) {
	for name, spoils := range map[string]error{
		"any error": errors.New("invalid next hop"), "one that repeating cannot help": provider.Terminal(errors.New("invalid next hop")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newBatching(8, 64)
				a.plugin.spoils, a.plugin.spoiled, a.plugin.takes = spoils, "10.120.7.0/24", 0
				nodes := nodesWithRoutesToMake(64)
				var routes []*cloudprovider.Route
				passes := 0
				for begun := time.Now(); len(routes) < 63; passes++ {
					if time.Since(begun) > 8*time.Second {
						t.Fatalf("after %d passes in %s there are %d routes", passes, time.Since(begun), len(routes))
					}
					for _, done := range a.run(t, nodes, routes, abilities{}) {
						if done.err == nil {
							routes = append(routes, route("r-"+string(done.action.want.node), done.action.want.cidr, string(done.action.want.node)))
						}
					}
					time.Sleep(time.Second)
				}
				if calls := len(a.plugin.seen()); calls > 1+4+4+4 {
					t.Errorf("%d calls", calls)
				}
			})
		})
	}
}

// A refusal for quota says nothing against company.
func TestRefusalsLeaveBatchesWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatching(8, 10)
		a.plugin.spoils, a.plugin.spoiled = provider.Throttled(time.Second, errors.New("429")), "10.120.1.0/24"
		nodes := nodesWithRoutesToMake(10)
		for range 3 {
			if outcomes := a.run(t, nodes, nil, abilities{}); len(failed(outcomes)) != 10 {
				t.Errorf("%d failures, want one a node", len(failed(outcomes)))
			}
			time.Sleep(time.Minute)
		}
		if got := a.plugin.seen(); len(got) != 3 {
			t.Errorf("%d calls, want one each time: %q", len(got), got)
		}
	})
}

// A provider that breaks its promise of a result for each change is not believed at all.
func TestResultsThatAreMissingAreNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatching(8, 10)
		a.change = func(context.Context, string, []provider.RouteChange) ([]error, error) { return []error{nil}, nil }
		got := failed(a.run(t, nodesWithRoutesToMake(2), nil, abilities{}))
		if len(got) != 2 || !strings.Contains(got[0], "returned 1 results for 2 changes") {
			t.Errorf("failures: %q", got)
		}
	})
}

// A batch that hangs holds up neither other batches nor the next pass, and is not made again while it hangs.
func TestApplyDoesNotWaitForABatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newBatching(8, 2)
		a.plugin.hangs = "10.120.0.0/24"
		nodes := nodesWithRoutesToMake(4)
		if outcomes := a.run(t, nodes, nil, abilities{}); len(outcomes) != 2 {
			t.Errorf("%d outcomes, want those of the other batch", len(outcomes))
		}
		routes := []*cloudprovider.Route{route("r2", "10.120.2.0/24", "n02"), route("r3", "10.120.3.0/24", "n03")}
		if again := a.run(t, append(nodes, node("z", "10.120.9.0/24")), routes, abilities{}); len(again) != 1 {
			t.Errorf("%d outcomes of a second pass, want only the new node's", len(again))
		}
		close(a.plugin.released)
		<-a.pokes
		a.running.Wait()
		if got := a.plugin.seen(); len(got) != 3 || len(a.pokes) != 0 {
			t.Errorf("calls %q and %d more pokes, want the one that hung and one trigger", got, len(a.pokes))
		}
	})
}

// hangingBatches is a plugin whose calls of ChangeRoutes make all changes but one, at which they hang.
type hangingBatches struct {
	cloudprovider.Interface
	hangsAt string
	// partly says that a call has results when its context ends.
	partly bool

	mu   sync.Mutex
	made map[string]types.NodeName
}

func (h *hangingBatches) ProviderName() string { return "sim" }

func (h *hangingBatches) Capabilities() provider.Capabilities {
	return provider.Capabilities{ChangeRoutes: h.change, RouteBatch: 64}
}

func (h *hangingBatches) change(ctx context.Context, _ string, changes []provider.RouteChange) ([]error, error) {
	results := make([]error, len(changes))
	for i, change := range changes {
		if change.New.DestinationCIDR != h.hangsAt {
			h.mu.Lock()
			h.made[change.New.DestinationCIDR] = change.New.TargetNode
			h.mu.Unlock()
			continue
		}
		<-ctx.Done()
		for ; i < len(changes); i++ {
			results[i] = ctx.Err()
		}
		if h.partly {
			return results, nil
		}
		return nil, ctx.Err()
	}
	return results, nil
}

// listed returns the routes that there are.
func (h *hangingBatches) listed() (routes []*cloudprovider.Route) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for cidr, target := range h.made {
		routes = append(routes, route("to-"+cidr, cidr, string(target)))
	}
	return routes
}

// A change at which the plugin hangs until its context ends holds up the others of its call until the deadline that was set, and then itself
// alone: nodes that join in the next days have their routes at once.
func TestAChangeThatHangsIsSoonAlone(t *testing.T) {
	for name, plugin := range map[string]*hangingBatches{"without results": {}, "with results": {partly: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin.hangsAt, plugin.made = "10.120.7.0/24", map[string]types.NodeName{}
				a := newApplying(8)
				a.change, a.batch = provider.CapabilitiesOf(cloud.Decorate(plugin, cloud.Options{WriteTimeout: time.Minute})).ChangeRoutes, 64
				nodes := nodesWithRoutesToMake(64)
				pass := func() { // passes come once a second
					a.run(t, nodes, plugin.listed(), abilities{})
					time.Sleep(time.Second)
				}
				for begun := time.Now(); len(plugin.listed()) < 63; pass() {
					if time.Since(begun) > 75*time.Second {
						t.Fatalf("after %s there are %d routes, want 63", time.Since(begun), len(plugin.listed()))
					}
				}
				for day := range 3 {
					time.Sleep(24 * time.Hour)
					nodes = append(nodes, node(fmt.Sprintf("new-%d", day), fmt.Sprintf("10.120.%d.0/24", 100+day)))
					pass()
					if got := len(plugin.listed()); got != 64+day {
						t.Errorf("after %d days there are %d routes, want %d: a new node has none", day+1, got, 64+day)
					}
				}
				a.running.Wait()
			})
		})
	}
}
