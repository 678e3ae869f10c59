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
	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// scripted is a plugin whose calls take a while, fail, or hang, as a test says.
type scripted struct {
	mu    sync.Mutex
	calls []string
	// takes is how long a call takes; fails and hangs say which do, by a part of their line.
	takes        time.Duration
	fails, hangs string
	// spoils is what a call fails with as a whole that has a change whose line has spoiled in it.
	spoils    error
	spoiled   string
	released  chan struct{}
	now, most int
}

func (s *scripted) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	return nil, errors.New("not scripted")
}

func (s *scripted) CreateRoute(_ context.Context, cluster, hint string, r *cloudprovider.Route) error {
	return s.call(fmt.Sprintf("create %s %s %s by %s", cluster, hint, r.DestinationCIDR, r.TargetNode))
}

func (s *scripted) DeleteRoute(_ context.Context, cluster string, r *cloudprovider.Route) error {
	return s.call(fmt.Sprintf("delete %s %s", cluster, r.Name))
}

func (s *scripted) replaceRoute(_ context.Context, cluster string, old, replacement *cloudprovider.Route) error {
	return s.call(fmt.Sprintf("replace %s %s by %s", cluster, old.Name, replacement.TargetNode))
}

func (s *scripted) call(line string) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	time.Sleep(s.takes)
	if s.hangs != "" && strings.Contains(line, s.hangs) {
		<-s.released
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	s.calls = append(s.calls, line)
	if s.fails != "" && strings.Contains(line, s.fails) {
		return errors.New("scripted failure")
	}
	return nil
}

func (s *scripted) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// applying is an applier over a scripted plugin, with the events that it wrote and how often it asked for a pass.
type applying struct {
	*applier
	plugin *scripted
	events *record.FakeRecorder
	pokes  chan struct{}
}

func newApplying(places int) *applying {
	a := &applying{
		plugin: &scripted{takes: time.Second, released: make(chan struct{})},
		events: record.NewFakeRecorder(100), pokes: make(chan struct{}, 100),
	}
	a.applier = &applier{
		routes: a.plugin, replace: a.plugin.replaceRoute, clusterName: "test", places: semaphore.NewWeighted(int64(places)),
		patience: DefaultPeriod / 2, state: newState(DefaultPeriod), metrics: newMetrics(nil),
		events: &events{recorder: a.events}, late: func() { a.pokes <- struct{}{} },
	}
	return a
}

// run plans for nodes and routes, and applies the plan.
func (a *applying) run(t *testing.T, nodes []member, routes []*cloudprovider.Route, can abilities) []outcome {
	wanted := desire(nodes, clusterCIDRs)
	planned := makePlan(wanted, routes, can)
	return a.apply(t.Context(), a.state.admit(wanted, planned, a.state.underWay(), time.Now()))
}

func failed(outcomes []outcome) (failures []string) {
	for _, outcome := range outcomes {
		if outcome.err != nil {
			failures = append(failures, outcome.err.Error())
		}
	}
	return failures
}

func TestApplyRemovesBeforeItMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		nodes := []member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24"), node("c", "10.120.2.0/24")}
		routes := []*cloudprovider.Route{
			route("stale", "10.120.9.0/24", "gone"), route("old", "10.120.1.0/24", "gone"), blackhole("hole", "10.120.2.0/24", ""),
		}
		begun := time.Now()
		if got := failed(a.run(t, nodes, routes, abilities{})); got != nil {
			t.Errorf("failures: %q", got)
		}
		got := a.plugin.seen()
		if len(got) == 0 || got[0] != "delete test stale" || time.Since(begun) != 3*time.Second {
			t.Errorf("%q in %s, want the removal first and the rest at once", got, time.Since(begun))
		}
		slices.Sort(got)
		want := []string{
			"create test uid-a 10.120.0.0/24 by a", "create test uid-b 10.120.1.0/24 by b", "create test uid-c 10.120.2.0/24 by c",
			"delete test hole", "delete test old", "delete test stale",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestApplyReplacesInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		a.run(t, []member{node("a", "10.120.0.0/24")}, []*cloudprovider.Route{addressed("old", "10.120.0.0/24", "a", "before")},
			abilities{replaces: true})
		if diff := cmp.Diff([]string{"replace test old by a"}, a.plugin.seen()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestApplyKeepsToTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(3)
		var nodes []member
		for i := range 10 {
			nodes = append(nodes, node(fmt.Sprintf("n%d", i), fmt.Sprintf("10.120.%d.0/24", i)))
		}
		begun := time.Now()
		a.run(t, nodes, nil, abilities{})
		if a.plugin.most != 3 || len(a.plugin.seen()) != 10 || time.Since(begun) != 4*time.Second {
			t.Errorf("%d calls, %d at once, in %s; want 10, 3 at once, in 4s", len(a.plugin.seen()), a.plugin.most, time.Since(begun))
		}
	})
}

// TestApplySpacesWhatFailed: a plugin's limiter that refuses at once admits one of several concurrent calls. The controller therefore does not retry
// failed calls at the same time.
func TestApplySpacesWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(20)
		var nodes []member
		for i := range 20 {
			nodes = append(nodes, node(fmt.Sprintf("n%d", i), fmt.Sprintf("10.120.%d.0/24", i)))
		}
		a.plugin.fails = "create"
		begun := time.Now()
		if a.run(t, nodes, nil, abilities{}); time.Since(begun) != a.plugin.takes {
			t.Errorf("%s for the first tries, want all at once", time.Since(begun))
		}
		time.Sleep(kit.LongestRetry)
		a.plugin.fails, a.plugin.most = "", 0
		begun = time.Now()
		if got := failed(a.run(t, nodes, nil, abilities{})); got != nil || a.plugin.most > 3 || time.Since(begun) > DefaultPeriod+a.plugin.takes {
			t.Errorf("failures %q, %d calls at once, in %s", got, a.plugin.most, time.Since(begun))
		}
	})
}

func TestApplyJoinsFailuresAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		a.plugin.fails = "10.120.0.0/24"
		outcomes := a.run(t, []member{node("a", "10.120.0.0/24", "a00:100::/24"), node("b", "10.120.1.0/24")}, nil, abilities{})
		want := []string{"creating the route to 10.120.0.0/24 by node a: scripted failure"}
		if diff := cmp.Diff(want, failed(outcomes)); diff != "" || len(outcomes) != 3 {
			t.Errorf("%d outcomes, failures (-want +got):\n%s", len(outcomes), diff)
		}
		event := "Warning FailedToCreateRoute Could not make the route to 10.120.0.0/24: " +
			"creating the route to 10.120.0.0/24 by node a: scripted failure"
		if got := <-a.events.Events; got != event {
			t.Errorf("event %q, want %q", got, event)
		}
	})
}

func TestApplyMakesNothingWhereARemovalFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		a.plugin.fails = "delete"
		nodes := []member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")}
		a.run(t, nodes, []*cloudprovider.Route{route("stale", "10.120.0.0/25", "gone")}, abilities{})
		if diff := cmp.Diff([]string{"delete test stale", "create test uid-b 10.120.1.0/24 by b"}, a.plugin.seen()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got := <-a.events.Events; !strings.Contains(got, "10.120.0.0/25 that is in its way") {
			t.Errorf("event %q does not name the route in the way", got)
		}
	})
}

func TestApplyMakesRoutesUnderOneThatCannotBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		a.plugin.fails = "delete"
		nodes := []member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")}
		a.run(t, nodes, []*cloudprovider.Route{blackhole("wide", "10.120.0.0/16", "")}, abilities{})
		if got := a.plugin.seen(); len(got) != 3 || got[0] != "delete test wide" || len(a.events.Events) != 0 {
			t.Errorf("calls %q and %d events, want the removal, then the routes of both nodes", got, len(a.events.Events))
		}
	})
}

// A call that hangs holds up neither the other nodes nor the next pass, is not made again while it hangs, and is followed by a
// pass when it ends.
func TestApplyDoesNotWaitForACallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		a.plugin.hangs = "10.120.0.0/24"
		nodes := []member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")}
		begun := time.Now()
		outcomes := a.run(t, nodes, nil, abilities{})
		if len(outcomes) != 1 || outcomes[0].action.want.node != "b" || time.Since(begun) != time.Second+DefaultPeriod/2 {
			t.Errorf("%d outcomes in %s, want only the other node's, after the default patience", len(outcomes), time.Since(begun))
		}
		routes := []*cloudprovider.Route{route("b", "10.120.1.0/24", "b")}
		if again := a.run(t, append(nodes, node("c", "10.120.2.0/24")), routes, abilities{}); len(again) != 1 || len(a.plugin.seen()) != 2 {
			t.Errorf("%d outcomes of a second pass and calls %q, want those of the new node", len(again), a.plugin.seen())
		}
		close(a.plugin.released)
		<-a.pokes
		a.running.Wait()
		if got := a.plugin.seen(); len(got) != 3 || len(a.pokes) != 0 {
			t.Errorf("calls %q and %d more pokes, want the one that hung and one trigger", got, len(a.pokes))
		}
	})
}

// As long as calls end, however many they are, a pass waits for all of them.
func TestApplyWaitsWhileCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(1)
		a.plugin.takes = DefaultPeriod/2 - time.Second
		var nodes []member
		for i := range 5 {
			nodes = append(nodes, node(fmt.Sprintf("n%d", i), fmt.Sprintf("10.120.%d.0/24", i)))
		}
		if got := a.run(t, nodes, nil, abilities{}); len(got) != 5 {
			t.Errorf("%d outcomes, want 5", len(got))
		}
	})
}

func TestApplyStopsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(1)
		a.plugin.hangs = "create"
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		wanted := desire([]member{node("a", "10.120.0.0/24"), node("b", "10.120.1.0/24")}, clusterCIDRs)
		planned := makePlan(wanted, nil, abilities{})
		begun := time.Now()
		a.apply(ctx, a.state.admit(wanted, planned, nil, time.Now()))
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("stopped after %s, want 3s", took)
		}
		close(a.plugin.released)
		a.running.Wait()
		if got := a.plugin.seen(); len(got) != 1 {
			t.Errorf("calls %q, want only the one that was under way", got)
		}
	})
}

func TestNoticesAreToldOnce(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	events := &events{recorder: recorder}
	notices := makePlan(desire([]member{node("a", "10.99.0.0/24")}, clusterCIDRs), nil, abilities{}).notices
	events.record(notices)
	events.record(notices)
	if got := len(recorder.Events); got != 1 {
		t.Errorf("%d events, want one", got)
	}
}

// An event says so when the cloud accepts a route for the second time in a row and does not list it.
func TestARouteThatIsAcceptedAndNotListedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplying(8)
		nodes := []member{node("a", "10.120.0.0/24")}
		for times := range 2 {
			if len(a.events.Events) != 0 {
				t.Errorf("after %d times: event %q", times, <-a.events.Events)
			}
			if got := failed(a.run(t, nodes, nil, abilities{})); got != nil {
				t.Errorf("failures: %q", got)
			}
			time.Sleep(DefaultPeriod)
			a.run(t, nodes, nil, abilities{}) // a list lacks it
			time.Sleep(maxLag)
		}
		if len(a.events.Events) != 1 {
			t.Fatalf("%d events, want one", len(a.events.Events))
		}
		if got := <-a.events.Events; !strings.Contains(got, "accepted it 2 times, but does not list it") {
			t.Errorf("event %q", got)
		}
	})
}
