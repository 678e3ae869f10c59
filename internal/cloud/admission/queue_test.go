package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

func newTestQueue(most int, limit rate.Limit, burst int) *Queue {
	gauge := func(name string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name}, []string{"group"})
	}
	counter := func(name string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{"group"})
	}
	return New(Methods(nil).Groups(), Bounds{}, most, limit, burst, Metrics{gauge("a"), gauge("b"), gauge("c"), gauge("d"), counter("e"), counter("f")})
}

// letIn waits until a call of a queue is let in.
func letIn(ctx context.Context, q *Queue, about Subject) (*Waiter, error) {
	return q.Enter(ctx, RequestOf(ctx), about, 0)
}

// onInstance is a read about an instance.
func onInstance(name string) Subject {
	return Methods(nil).About("InstanceMetadata", name)
}

func onService(name string) Subject {
	return Methods(nil).About("EnsureLoadBalancer", name)
}

// reading is a read about a Service.
func reading(name string) Subject {
	return Methods(nil).About("GetLoadBalancer", name)
}

var accepted = Result{Outcome: classify.OutcomeOK}

func refusedFor(retryAfter time.Duration) Result {
	return Result{Err: &provider.ThrottledError{RetryAfter: retryAfter, Err: errors.New("over quota")}, Outcome: classify.OutcomeThrottled}
}

// single is a queue with one place, which is taken, and the calls that come through in their order.
type single struct {
	t     *testing.T
	queue *Queue
	first *Waiter
	order []string
}

func newSingle(t *testing.T) *single {
	t.Helper()
	q := newTestQueue(1, 0, 0)
	first, err := letIn(t.Context(), q, reading("first"))
	if err != nil {
		t.Fatal(err)
	}
	return &single{t: t, queue: q, first: first}
}

// wait lets a call wait, which notes its name when it comes through and leaves at once.
func (s *single) wait(ctx context.Context, about Subject) {
	s.t.Helper()
	go func() {
		w, err := letIn(ctx, s.queue, about)
		if err != nil {
			return
		}
		s.order = append(s.order, about.Object) // one place: never two at once
		s.queue.Leave(w, accepted)
	}()
	synctest.Wait()
}

// open frees the place and returns the order in which calls came through.
func (s *single) open() []string {
	s.queue.Leave(s.first, accepted)
	time.Sleep(time.Minute)
	synctest.Wait()
	return s.order
}

func TestCallsEnterByPriorityThenArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingle(t)
		s.wait(WithPriority(t.Context(), PriorityRefresh), reading("refresh"))
		s.wait(t.Context(), reading("without one"))
		s.wait(WithPriority(t.Context(), PriorityUpdate), onService("update"))
		s.wait(WithPriority(t.Context(), PriorityNewObject), onService("new Service"))
		s.wait(WithPriority(t.Context(), PriorityDeletion), reading("deletion"))
		s.wait(WithPriority(t.Context(), PriorityNewNode), reading("new node"))
		want := []string{"new node", "deletion", "new Service", "without one", "update", "refresh"}
		if diff := cmp.Diff(want, s.open()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestCallsInOneTurnKeepTheirPlace also when the first of them is over before the second is made.
func TestCallsInOneTurnKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingle(t)
		turn := InOneTurn(t.Context())
		s.queue.Leave(s.first, accepted)
		w, err := letIn(turn, s.queue, reading("first of two"))
		if err != nil {
			t.Fatal(err)
		}
		s.first = w
		s.wait(t.Context(), reading("other"))
		s.wait(turn, reading("second of two"))
		if diff := cmp.Diff([]string{"second of two", "other"}, s.open()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestRefusedObjectsGoBeforeRefreshes holds what a round of refreshes must not do to a node that joins: let it wait until the round is
// over since its first lookup was refused.
func TestRefusedObjectsGoBeforeRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingle(t)
		s.queue.Leave(s.first, accepted)
		for _, name := range []string{"refused", "refused refresh"} {
			s.queue.Leave(enter(t, s.queue, reading(name)), refusedFor(0))
		}
		time.Sleep(time.Minute) // the pause
		s.first = enter(t, s.queue, reading("first"))

		s.wait(WithPriority(t.Context(), PriorityRefresh), reading("refused refresh"))
		s.wait(WithPriority(t.Context(), PriorityRefresh), reading("refresh"))
		s.wait(WithPriority(t.Context(), PriorityNewNode), reading("refused"))
		s.wait(WithPriority(t.Context(), PriorityUpdate), reading("update"))
		want := []string{"update", "refused", "refresh", "refused refresh"}
		if diff := cmp.Diff(want, s.open()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// TestAnAnsweredObjectWaitsBehindNoMore also with the calls that wait since before the answer: later ones about it must not pass them for ever.
func TestAnAnsweredObjectWaitsBehindNoMore(t *testing.T) {
	for name, worse := range map[string]Result{"hung": {Outcome: classify.OutcomeTimeout}, "refused": refusedFor(0)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSingle(t)
				s.queue.Leave(s.first, accepted)
				s.queue.Leave(enter(t, s.queue, onInstance("slow")), worse)
				s.first = enter(t, s.queue, onInstance("slow"))
				exists := Methods(nil).About("InstanceExists", "slow")
				s.wait(t.Context(), exists)
				s.wait(t.Context(), onInstance("other"))
				if diff := cmp.Diff([]string{"slow", "other"}, s.open()); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestACallThatWaitsCanBeRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingle(t)
		shared := WithPriority(t.Context(), PriorityRefresh)
		child, cancel := context.WithCancel(shared)
		defer cancel()
		s.wait(t.Context(), reading("update"))
		s.wait(child, reading("shared"))
		Join(child, WithPriority(t.Context(), PriorityNewNode))
		Raise(shared, PriorityUpdate) // which does not lower it
		if diff := cmp.Diff([]string{"shared", "update"}, s.open()); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if got := PriorityOf(shared); got != PriorityNewNode {
			t.Errorf("priority = %s, want %s", got, PriorityNewNode)
		}
		if ctx := t.Context(); PriorityOf(ctx) != PriorityUpdate {
			t.Errorf("a context without a priority has %s, want %s", PriorityOf(ctx), PriorityUpdate)
		}
	})
}

func TestTheLowestPriorityIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingle(t)
		s.wait(WithPriority(t.Context(), PriorityRefresh), reading("refresh"))
		for range 100 {
			s.wait(WithPriority(t.Context(), PriorityNewNode), reading("new node"))
		}
		if at := slices.Index(s.open(), "refresh"); at < 0 || at >= fairShare {
			t.Errorf("the refresh came through after %d calls, want fewer than %d", at, fairShare)
		}
	})
}

// TestARefreshLeavesPlacesOfAQuota to lookups of new nodes, of which one at a time may be under way: one that is over a little after the next place of
// the quota would else have every other place. A lookup that takes long keeps one place from refreshes, and no more.
func TestARefreshLeavesPlacesOfAQuota(t *testing.T) {
	const gap, lookups = 50 * time.Millisecond, 40
	for takes, want := range map[time.Duration]struct{ least, most int }{
		gap + 2*time.Millisecond: {0, lookups / 10},
		20 * gap:                 {18 * lookups, 20 * lookups},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newTestQueue(0, 0, 0)
			q.bounds[poolNewNodes] = 1
			q.byName[GroupInstances].quota = quota{rate: 1 / gap.Seconds(), doubling: time.Hour, wanted: time.Now()}
			ctx, cancel := context.WithCancel(WithPriority(t.Context(), PriorityRefresh))
			var refreshes atomic.Int64
			for i := range 30 {
				go func() {
					for {
						w, err := letIn(ctx, q, onInstance(fmt.Sprint("known ", i)))
						if err != nil {
							return
						}
						refreshes.Add(1)
						q.Leave(w, accepted)
					}
				}()
			}
			synctest.Wait()
			before := refreshes.Load()
			var all sync.WaitGroup
			for i := range lookups {
				all.Go(func() {
					w := enter(t, q, Methods(nil).About("InstanceID", fmt.Sprint("new ", i)))
					time.Sleep(takes)
					q.Leave(w, accepted)
				})
			}
			all.Wait()
			beside := int(refreshes.Load() - before)
			cancel()
			if beside < want.least || beside > want.most {
				t.Errorf("%d refreshes came through beside %d lookups of %s, want %d to %d", beside, lookups, takes, want.least, want.most)
			}
		})
	}
}

func TestACallerThatGivesUpLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSingle(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		own := errors.New("own")
		gone := make(chan error, 1)
		go func() {
			_, err := letIn(ctx, s.queue, reading("impatient"))
			gone <- err
		}()
		synctest.Wait()
		s.wait(t.Context(), reading("other"))
		cancel(own)
		synctest.Wait()
		select {
		case err := <-gone:
			if !errors.Is(err, own) {
				t.Errorf("error = %v, want the cause", err)
			}
		default:
			t.Error("still waiting after its context has ended")
		}
		if diff := cmp.Diff([]string{"other"}, s.open()); diff != "" {
			t.Errorf("came through (-want +got):\n%s", diff)
		}
	})
}

// enter lets calls in, one after the other, and fails the test if one is not.
func enter(t *testing.T, q *Queue, about Subject) *Waiter {
	t.Helper()
	w, err := letIn(t.Context(), q, about)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestRetryAfterHoldsItsGroupThenOneTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(64, 0, 0)
		q.Leave(enter(t, q, onInstance("a")), refusedFor(3*time.Second))
		q.Leave(enter(t, q, onInstance("z")), refusedFor(3*time.Second))
		start := time.Now()
		if other := enter(t, q, onService("a")); other.Began != start {
			waited := other.Began.Sub(start)
			t.Errorf("a call of another group entered after %s", waited)
		}
		probe := enter(t, q, onInstance("b"))
		if waited := time.Since(start); waited != firstPause {
			t.Errorf("another entered %s after the first refusal, want %s", waited, firstPause)
		}
		let := make(chan *Waiter, 3)
		for i := range cap(let) {
			go func() { let <- enter(t, q, onInstance(fmt.Sprint("c", i))) }()
		}
		time.Sleep(firstPause / 2)
		if len(let) != 0 {
			t.Errorf("%d more were let in before the first has come back", len(let))
		}
		q.Leave(probe, accepted)
		time.Sleep(time.Second)
		if len(let) != cap(let) {
			t.Errorf("%d were let in after the first was accepted, want all %d", len(let), cap(let))
		}
	})
}

// TestALongRetryAfterNeedsSeveralObjects: one may have reasons of its own for it.
func TestALongRetryAfterNeedsSeveralObjects(t *testing.T) {
	for name, test := range map[string]struct {
		about func(string) Subject
		want  string
	}{
		"reads":  {onInstance, "[0s 0s 1s 2s 4s 8s 16s 30s]"},
		"writes": {onService, "[0s 0s 1s 2s 4s 8s 16s 30s]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newTestQueue(64, 0, 0)
				var waits []time.Duration
				for i := range 8 {
					start := time.Now()
					w := enter(t, q, test.about(strconv.Itoa(i)))
					waits = append(waits, time.Since(start).Round(100*time.Millisecond))
					q.Leave(w, refusedFor(10*time.Minute))
				}
				if got := fmt.Sprint(waits); got != test.want {
					t.Errorf("after the refusals of others, objects waited %s, want %s", got, test.want)
				}
			})
		})
	}
}

// TestAProbeThatHangsDelaysOthersBriefly: a write may take minutes.
func TestAProbeThatHangsDelaysOthersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(64, 0, 0)
		q.Leave(enter(t, q, onInstance("a")), refusedFor(time.Second))
		q.Leave(enter(t, q, onInstance("z")), refusedFor(time.Second))
		start := time.Now()
		for _, name := range []string{"b", "c", "d"} { // none of them leaves
			enter(t, q, onInstance(name))
		}
		if took := time.Since(start); took != time.Second+2*firstPause {
			t.Errorf("three entered in %s, want one a %s after the pause", took, firstPause)
		}
	})
}

func TestTheOperatorsLimitHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(64, 10, 5)
		start := time.Now()
		for i := range 25 {
			about := onInstance("a")
			if i%2 == 0 {
				about = onService("a") // it is one limit for all groups
			}
			q.Leave(enter(t, q, about), accepted)
		}
		if took := time.Since(start); took < 2*time.Second || took > 2100*time.Millisecond {
			t.Errorf("25 calls at 10 a second with a burst of 5 took %s, want 2 s", took)
		}
	})
}

// under lets in as many calls of a group as come through in a moment, and returns how many those are.
func under(t *testing.T, q *Queue, about Subject, tries int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex
	in := 0
	for i := range tries {
		all.Go(func() {
			about := about
			about = Methods(nil).About(about.Method, fmt.Sprint(about.Object, i))
			if _, err := letIn(ctx, q, about); err == nil {
				mu.Lock()
				in++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return in
}

// TestEachGroupHasItsShare of a bound that is declared, whatever hangs in the others.
func TestEachGroupHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(20, 0, 0)
		if got := under(t, q, onInstance("a"), 100); got != 16 {
			t.Errorf("one group had %d calls under way of 20, want 16: a tenth is kept for each of two others", got)
		}
		if got := under(t, q, onService("a"), 100); got != 2 {
			t.Errorf("another had %d, want its 2", got)
		}
	})
}

// TestAWaitingCallIsReported once, after a minute, with what it waits for.
func TestAWaitingCallIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		before func(t *testing.T) *Queue
		want   string
	}{
		"a pause": {func(t *testing.T) *Queue {
			q := newTestQueue(8, 0, 0)
			q.Leave(enter(t, q, onInstance("a")), refusedFor(time.Minute))
			q.Leave(enter(t, q, onInstance("b")), refusedFor(time.Minute))
			q.Leave(enter(t, q, onInstance("c")), refusedFor(time.Minute))
			q.Leave(enter(t, q, onInstance("d")), refusedFor(time.Minute))
			q.Leave(enter(t, q, onInstance("e")), refusedFor(time.Minute))
			q.Leave(enter(t, q, onInstance("f")), refusedFor(time.Minute))
			for _, object := range []string{"g", "h"} {
				go func() {
					if w, err := letIn(WithPriority(t.Context(), PriorityNewNode), q, onInstance(object)); err == nil {
						q.Leave(w, refusedFor(time.Minute))
					}
				}()
				synctest.Wait()
			}
			return q
		}, "the cloud asked for no calls for instances until 2000-01-01T00:01:31Z; 1 calls for instances are waiting"},
		"a place": {func(t *testing.T) *Queue {
			q := newTestQueue(1, 0, 0)
			w := enter(t, q, onService("a"))
			time.AfterFunc(64*time.Second, func() { q.Leave(w, accepted) })
			return q
		}, "0 calls for instances and 1 others are under way; 1 calls for instances are waiting"},
		"the operator's limit": {func(t *testing.T) *Queue {
			q := newTestQueue(8, 0.01, 1)
			enter(t, q, onInstance("a"))
			return q
		}, "--cloud-api-qps, or what the provider declares, allows 0.01 calls a second; 1 calls for instances are waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := test.before(t)
				got, joined := make(chan string, 10), make(chan string, 10)
				all := func(got chan string) (reasons []string) {
					for len(got) > 0 {
						reasons = append(reasons, <-got)
					}
					return reasons
				}
				ctx := WithPriority(t.Context(), PriorityNewNode, func(reason string) { got <- reason })
				time.AfterFunc(guard.Long-1, func() {
					if len(got) > 0 {
						t.Errorf("called too early: %q", <-got)
					}
				})
				time.AfterFunc(guard.Long+500*time.Millisecond, func() {
					Join(ctx, WithPriority(t.Context(), PriorityUpdate, func(reason string) { joined <- reason }))
				})
				w, err := letIn(ctx, q, onInstance("n"))
				if err != nil {
					t.Fatal(err)
				}
				q.Leave(w, accepted)
				synctest.Wait()
				if diff := cmp.Diff([]string{test.want}, all(got)); diff != "" {
					t.Errorf("reasons (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{test.want}, all(joined)); diff != "" {
					t.Errorf("who joined later got (-want +got):\n%s", diff)
				}
				q.cap = nil
				if _, err = letIn(ctx, q, onService("n")); err != nil || len(got) > 0 {
					t.Errorf("a call that did not wait: got %q, error %v", all(got), err)
				}
			})
		})
	}
}

// TestGroupsThatAProviderDeclares have a quota of their own.
func TestGroupsThatAProviderDeclares(t *testing.T) {
	names := Methods{
		"GetLoadBalancer": "load_balancer_reads", "ListLoadBalancers": "load_balancer_reads", "InstanceExists": "", "ListRoutes": "instances",
	}.Groups()
	if got := strings.Join(names, " "); got != "instances load_balancers routes load_balancer_reads" {
		t.Errorf("groups: %s", got)
	}
}

// TestLookupsOfLoadBalancers: without a bound of their own they are made where the reference makes them. One after a failed change of targets waits for
// no change of a Service: of these, one may hang.
func TestLookupsOfLoadBalancers(t *testing.T) {
	lookup := Methods(nil).About("GetLoadBalancer", "a")
	for declared, want := range map[int]map[Priority]string{
		0: {PriorityUpdate: poolTargets, PriorityDeletion: poolServices, PriorityRefresh: poolServices},
		3: {PriorityUpdate: poolBalancerReads, PriorityDeletion: poolBalancerReads, PriorityRefresh: poolBalancerReads},
	} {
		for priority, want := range want {
			if got := BoundsOf(Concurrency{}, declared, provider.Capabilities{}).of(lookup, priority); got != want {
				t.Errorf("with %d calls declared and the priority %s it is one of the %s, want %s", declared, priority, got, want)
			}
		}
	}
}

// TestSilentNodesOfTheOldInterfaces: the reference asks for the ID of a silent node beside its questions about new nodes, and so do we.
func TestSilentNodesOfTheOldInterfaces(t *testing.T) {
	bounds := BoundsOf(Concurrency{}, 0, provider.Capabilities{})
	question := Methods(nil).About("InstanceID", "a")
	for priority, want := range map[Priority]string{PriorityNewNode: poolNewNodes, PriorityDeletion: poolNodeLifecycle} {
		if got := bounds.of(question, priority); got != want {
			t.Errorf("with the priority %s it is one of the %s, want %s", priority, got, want)
		}
	}
}
