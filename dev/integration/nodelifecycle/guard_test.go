package nodelifecycle_test

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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

const forever = 1 << 30

// Every instance exists, and runs. Whatever the cloud says of that, no node goes.
func TestFaultsOfTheCloudDeleteNothing(t *testing.T) {
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(6), Knobs: api.Knobs{PageSize: 2}})
	notReady := join(t, corev1.ConditionUnknown, 1, 4)
	all := append(join(t, corev1.ConditionTrue, 5, 6), notReady...)
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) { // each with a manager of its own: what it has learned of the cloud is not the next one's
			m := start(t, options{Cloud: provider, Calls: cloud.Options{CallTimeout: 300 * time.Millisecond}})
			before := running.Service.Counts().Operations[api.OpListInstances].Faulted
			must.NoError(t, running.Service.AddFault(fault))
			poll.Until(t, "the fault, twice", func(context.Context) error {
				if happened := running.Service.Counts().Operations[api.OpListInstances].Faulted - before; happened < 2 {
					return fmt.Errorf("it has happened %d times", happened)
				}
				return nil
			})
			if fault.Status == http.StatusTooManyRequests {
				running.Service.ClearFaults() // no pass is over before the cloud has let it ask
			}
			m.waitPasses(t, 2)
			running.Service.ClearFaults()
			if got := m.writes(t); len(got) != 0 {
				t.Errorf("writes %v, want none", got)
			}
		})
	}
	t.Run("empty", func(t *testing.T) {
		m := start(t, options{Cloud: provider, Calls: cloud.Options{CallTimeout: 300 * time.Millisecond}})
		must.NoError(t, running.Service.AddFault(api.Fault{Operation: api.OpListInstances, Mode: api.FaultEmpty, Count: forever}))
		for _, name := range notReady {
			waitHeld(t, name, nodelifecycle.HoldEveryInstanceGone)
		}
		m.waitPasses(t, 2)
		m.waitMetric(t, 4, "mooring_node_lifecycle_held_nodes", "reason", "EveryInstanceGone")
		running.Service.ClearFaults()
		for _, name := range notReady {
			waitHeld(t, name, "")
		}
		m.waitMetric(t, 0, "mooring_node_lifecycle_held_nodes")
		for name, done := range m.writes(t) {
			if !slices.Equal(done, []string{"patch status 200", "patch status 200"}) {
				t.Errorf("writes %v to %s, want the condition and its removal", done, name)
			}
		}
	})
	if got := present(t, all...); len(got) != len(all) {
		t.Errorf("only %v are left", got)
	}
}

// faults are those by which the cloud says nothing at all.
func faults() map[string]api.Fault {
	list := func(mode api.FaultMode) api.Fault {
		return api.Fault{Operation: api.OpListInstances, Mode: mode, Count: forever}
	}
	status := func(code int) api.Fault {
		fault := list(api.FaultStatus)
		fault.Status = code
		return fault
	}
	later := func(fault api.Fault) api.Fault { fault.Skip = 1; return fault }
	return map[string]api.Fault{
		"unauthenticated":                     status(http.StatusUnauthorized),
		"forbidden":                           status(http.StatusForbidden),
		"not found, by something in between":  status(http.StatusNotFound),
		"throttled":                           status(http.StatusTooManyRequests),
		"unavailable":                         status(http.StatusServiceUnavailable),
		"unavailable from the second page on": later(status(http.StatusServiceUnavailable)),
		"hangs":                               list(api.FaultHang),
		"cut off":                             list(api.FaultTruncate),
		"not JSON":                            list(api.FaultMalformed),
		"ends after the first page":           list(api.FaultShortList),
	}
}

// A list of another account is complete and well-formed, and knows none of our nodes.
func TestTheListOfAnotherAccountDeletesNothing(t *testing.T) {
	_, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	lost := join(t, corev1.ConditionUnknown, 101, 103)
	ready := join(t, corev1.ConditionTrue, 104, 109)
	m := start(t, options{Cloud: provider, Settings: func(s *nodelifecycle.Settings) { s.Limit = nodelifecycle.Limit{Percent: 100} }})
	for _, name := range lost {
		waitHeld(t, name, nodelifecycle.HoldEveryInstanceGone)
	}
	m.waitPasses(t, 5)
	if got := present(t, append(lost, ready...)...); len(got) != 9 {
		t.Errorf("only %v are left", got)
	}
	if got := m.writes(t); len(got) != len(lost) || len(got[lost[0]]) != 1 {
		t.Errorf("writes %v, want one to each node that is held", got)
	}
}

// deletions returns when the API server deleted nodes for a manager, in the order of its answers.
func (m manager) deletions(t *testing.T) (at []time.Time) {
	t.Helper()
	for _, event := range m.Requests(t) {
		if event.Verb == "delete" && event.ObjectRef != nil && event.ObjectRef.Resource == "nodes" &&
			event.ResponseStatus.Code == http.StatusOK {
			at = append(at, event.StageTimestamp.Time)
		}
	}
	return at
}

// checkLimit fails if more deletions than allowed are within any window.
func checkLimit(t *testing.T, at []time.Time, limit int, window time.Duration) {
	t.Helper()
	for i := limit; i < len(at); i++ {
		if apart := at[i].Sub(at[i-limit]); apart < window {
			t.Errorf("deletion %d came %s after deletion %d, with a limit of %d in %s", i, apart, i-limit, limit, window)
		}
	}
}

func limited(limit int, window time.Duration) func(*nodelifecycle.Settings) {
	return func(s *nodelifecycle.Settings) { s.Limit, s.Window = nodelifecycle.Limit{Count: limit}, window }
}

func TestTheLimitHoldsNodesAndLetsThemGo(t *testing.T) {
	const window = 30 * time.Second // in which a busy machine has to get through all that comes before the last deletions
	plugin := newPlugin("plain", map[string]string{"witness": runs})
	create(t, corev1.ConditionTrue, []string{"witness"}, withID("plain"))
	lost := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	create(t, corev1.ConditionUnknown, lost, withID("plain"))
	removed := []string{"x", "y", "z"}
	create(t, corev1.ConditionUnknown, removed, withID("plain"), tainted("ToBeDeletedByClusterAutoscaler", "1700000000"))
	m := start(t, options{Cloud: plugin, Settings: limited(3, window)})

	waitGone(t, removed...)
	poll.Until(t, "five nodes are held", func(context.Context) error {
		if kept := held(t, lost...); len(kept) != 5 {
			return fmt.Errorf("these are: %v", kept)
		}
		return nil
	})
	kept := present(t, lost...)
	if len(kept) != 5 {
		t.Fatalf("%v are left, want five", kept)
	}
	condition := heldFor(waitHeld(t, kept[0], nodelifecycle.HoldLimitReached))
	for _, part := range []string{`"plain://` + kept[0] + `"`, "--node-deletion-limit=3", "kubectl annotate node " + kept[0]} {
		if !strings.Contains(condition.Message, part) {
			t.Errorf("the condition does not say %q:\n%s", part, condition.Message)
		}
	}
	if condition.Status != corev1.ConditionTrue || condition.LastTransitionTime.IsZero() {
		t.Errorf("the condition is %+v, want true and since when", condition)
	}
	waitForEvent(t, kept[0], "Warning NodeDeletionHeld: DeletionLimitReached: ")
	m.waitMetric(t, 5, "mooring_node_lifecycle_held_nodes", "reason", "DeletionLimitReached")

	change(t, kept[0], annotated(nodelifecycle.AnnotationConfirmDeletion, "of another node"))
	plugin.set(kept[1], runs)
	waitHeld(t, kept[1], "")
	change(t, kept[2], func(n *corev1.Node) { annotated(nodelifecycle.AnnotationConfirmDeletion, string(n.UID))(n) })
	waitGone(t, kept[2])
	waitGone(t, kept[0], kept[3], kept[4]) // when the window has passed
	m.waitPasses(t, 2)
	if got := present(t, append(lost, "witness")...); len(got) != 2 {
		t.Errorf("%v are left, want one that was found again, and the witness", got)
	}
	for cause, want := range map[string]float64{"gone": 6, "announced": 3, "acknowledged": 1} {
		if got := m.Metric(t, "mooring_node_lifecycle_deletions_total", "cause", cause); got != want {
			t.Errorf("%v deletions for the cause %s, want %v", got, cause, want)
		}
	}
	if writes := m.writes(t); !cmp.Equal(writes[kept[1]], []string{"patch status 200", "patch status 200"}) ||
		!cmp.Equal(writes[kept[3]], []string{"patch status 200", "delete 200"}) {
		t.Errorf("writes %v: want the condition written once, and once removed from a node that stays", writes)
	}
}

// crash cuts a manager off the API server right before a certain deletion of a node, as kill -9 would. The deletions before it have
// been answered by then.
type crash struct {
	http.RoundTripper
	after   int32 // deletions that get through
	through sync.WaitGroup
	deleted atomic.Int32
	crashed atomic.Bool
}

var errCrashed = errors.New("the process is gone")

func crashAfter(deletions int32) *crash {
	c := &crash{after: deletions}
	c.through.Add(int(deletions))
	return c
}

func (c *crash) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodDelete {
		if c.deleted.Add(1) <= c.after {
			defer c.through.Done()
			return c.RoundTripper.RoundTrip(request)
		}
		c.through.Wait()
		c.crashed.Store(true)
	}
	if c.crashed.Load() {
		return nil, errCrashed
	}
	return c.RoundTripper.RoundTrip(request)
}

func TestTheLimitHoldsOverCrashes(t *testing.T) {
	const limit = 2
	lost := []string{"a", "b", "c"}
	for _, test := range []struct {
		after  int32 // deletions before the crash
		window time.Duration
		goesOn bool
	}{{0, time.Minute, false}, {1, 20 * time.Second, true}, {2, time.Minute, false}} {
		t.Run(fmt.Sprintf("after %d deletions", test.after), func(t *testing.T) {
			plugin := newPlugin("plain", map[string]string{"witness": runs})
			create(t, corev1.ConditionTrue, []string{"witness"}, withID("plain"))
			create(t, corev1.ConditionUnknown, lost, withID("plain"))
			crashing := crashAfter(test.after)
			first := start(t, options{
				Cloud: plugin, Settings: limited(limit, test.window), Crashes: true,
				Transport: func(next http.RoundTripper) http.RoundTripper { crashing.RoundTripper = next; return crashing },
			})
			poll.Until(t, "the deletions before the crash", func(context.Context) error {
				if left := present(t, lost...); !crashing.crashed.Load() && len(left) != len(lost)-limit {
					return fmt.Errorf("%d deletions, %v are left", crashing.deleted.Load(), left)
				}
				return nil
			})
			crashing.crashed.Store(true)
			first.Stop()

			second := resume(t, options{Cloud: plugin, Settings: limited(limit, test.window)})
			survivors := present(t, lost...)
			if len(survivors) != len(lost)-int(test.after) {
				t.Fatalf("%v are left after the crash, want %d deletions", survivors, test.after)
			}
			for _, name := range survivors {
				waitHeld(t, name, nodelifecycle.HoldLimitReached) // what was noted counts, whether it came to be or not
			}
			if !test.goesOn {
				second.waitPasses(t, 3)
				if got := second.deletions(t); len(got) != 0 {
					t.Errorf("%d deletions after the crash, want none within the window", len(got))
				}
				return
			}
			waitGone(t, lost...)
			checkLimit(t, first.deletions(t), limit, test.window)
			if got := second.deletions(t); len(got) != len(survivors) {
				t.Errorf("%d deletions after the crash, want %d", len(got), len(survivors))
			}
		})
	}
}

// TestNothingIsDeletedThatCannotBeNoted: without a record of deletions, the controller cannot know what the limit allows.
func TestNothingIsDeletedThatCannotBeNoted(t *testing.T) {
	plugin := newPlugin("plain", map[string]string{"witness": runs})
	create(t, corev1.ConditionTrue, []string{"witness"}, withID("plain"))
	create(t, corev1.ConditionUnknown, []string{"lost"}, withID("plain"))
	create(t, corev1.ConditionUnknown, []string{"removed"}, withID("plain"), tainted("karpenter.sh/disrupted", ""))
	m := start(t, options{Cloud: plugin, Lease: "not-granted"})
	waitGone(t, "removed")
	n := waitHeld(t, "lost", nodelifecycle.HoldHistoryUnknown)
	if message := heldFor(n).Message; !strings.Contains(message, "Lease kube-system/not-granted") {
		t.Errorf("the condition does not name the Lease: %s", message)
	}
	m.waitPasses(t, 5)
	if got := m.writes(t)["lost"]; !cmp.Equal(got, []string{"patch status 200"}) {
		t.Errorf("writes %v, want the condition once", got)
	}
}

// Half of a thousand nodes is gone and half is off. The cloud is asked for pages, not for nodes.
func TestAThousandNodes(t *testing.T) {
	const pages = 5
	seed := cloudsim.DefaultSeed(500)
	for i := range seed.Instances {
		seed.Instances[i].Power = api.PowerOff
	}
	running, provider := harness.Simulate(t, cloudsim.Options{Seed: seed, Knobs: api.Knobs{PageSize: 500 / pages}})
	off := join(t, corev1.ConditionUnknown, 1, 500)
	lost := join(t, corev1.ConditionUnknown, 501, 1000)
	m := start(t, options{Cloud: provider, Settings: func(s *nodelifecycle.Settings) { s.Limit = nodelifecycle.Limit{Percent: 100} }})
	waitGone(t, lost...)
	poll.Until(t, "all nodes whose instances are off are tainted", func(context.Context) error {
		if got := m.Metric(t, "mooring_node_lifecycle_taints_total"); got != 500 {
			return fmt.Errorf("%v are", got)
		}
		return nil
	})
	m.Stop()
	counts := running.Service.Counts()
	if got, most := counts.Received(), int64(pages*(m.passes(t)+1)); got > most || got != counts.Received(api.OpListInstances) {
		t.Errorf("%d calls to the cloud (%v) in %d passes, want the %d pages of one listing in each", got, counts.Operations, m.passes(t), pages)
	}
	writes := m.writes(t)
	for _, name := range lost {
		if !cmp.Equal(writes[name], []string{"delete 200"}) {
			t.Fatalf("writes %v to a node that is gone, want one deletion", writes[name])
		}
	}
	for _, name := range off {
		if !cmp.Equal(writes[name], []string{"patch 200"}) {
			t.Fatalf("writes %v to a node that is off, want one taint", writes[name])
		}
	}
}

func note(t *testing.T, deletions string) {
	t.Helper()
	_, err := admin.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: lease, Annotations: map[string]string{"mooring.dev/node-deletions": deletions},
	}}, metav1.CreateOptions{})
	must.NoError(t, err)
}

func TestWhatAnotherLeaderNotedCounts(t *testing.T) {
	const window = 15 * time.Second // in which the new leader has to show that the node is held
	at := func(when time.Time) string {
		return fmt.Sprintf(`[{"at":%q,"count":1}]`, when.UTC().Format(time.RFC3339Nano))
	}
	for name, test := range map[string]struct {
		noted string
		held  nodelifecycle.HoldReason
	}{
		"by a clock that is an hour ahead": {at(time.Now().Add(time.Hour)), nodelifecycle.HoldLimitReached},
		"long ago":                         {at(time.Now().Add(-time.Hour)), ""},
		"unreadable":                       {"yesterday", nodelifecycle.HoldHistoryUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin("plain", map[string]string{"witness": runs})
			create(t, corev1.ConditionTrue, []string{"witness"}, withID("plain"))
			create(t, corev1.ConditionUnknown, []string{"lost"}, withID("plain"))
			forgetDeletions(t)
			note(t, test.noted)
			m := resume(t, options{Cloud: plugin, Settings: limited(1, window)})
			want := []string{"delete 200"}
			if test.held != "" {
				waitHeld(t, "lost", test.held)
				want = []string{"patch status 200", "delete 200"}
			}
			if test.held == nodelifecycle.HoldHistoryUnknown {
				forgetDeletions(t) // as the log says
			}
			waitGone(t, "lost")
			if got := m.writes(t)["lost"]; !cmp.Equal(got, want) {
				t.Errorf("writes %v, want %v", got, want)
			}
		})
	}
}
