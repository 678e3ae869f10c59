package route

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// idlePeriods is how many periods pass after a comparison that found nothing to do. The saved lists make up for the lists that changes of nodes
	// cost.
	idlePeriods = 3
	// burst is how many passes may follow each other without regard to the period.
	burst = 6
)

// scheduler says when the next pass is due. It knows the time only from its callers.
//
// It is the rate limiter of the controller's queue as well: a pass that failed is followed by another when the scheduler says.
type scheduler struct {
	// period is the pause after a pass that changed something, and idle that after one that did not.
	period, idle time.Duration

	mu sync.Mutex
	// passes gives each pass a place, one per period, as the reference lists routes.
	passes *rate.Limiter
	// changes are those of nodes that no pass has seen.
	changes  kit.Burst
	debounce kit.Debounce
	// closedUntil is when the cloud wants to be asked again.
	closedUntil time.Time
	// failures is how many passes in a row could not make their comparison, and partials how many comparisons in a row left something
	// unclear. Apart: what is unclear of one node, pass after pass, delays no comparison of all.
	failures, partials int
	pause              time.Duration
}

var _ workqueue.TypedRateLimiter[reconcile.Request] = &scheduler{}

// newScheduler returns a scheduler. watching is the pause after any pass, where only changes of nodes are a reason for one; zero: they are
// not the only one.
func newScheduler(period, watching time.Duration) *scheduler {
	s := &scheduler{period: period, idle: idlePeriods * period, passes: rate.NewLimiter(rate.Every(period), burst)}
	if watching > 0 {
		s.period, s.idle = watching, watching
		s.passes.SetBurst(1) // as the reference
	}
	s.debounce = kit.Debounce{Quiet: kit.NodesQuiet, Most: period}
	return s
}

// noted takes notice of a change that concerns routes, and returns when to look again.
func (s *scheduler) noted(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes.Add(now)
	return kit.NodesQuiet
}

// early returns how long a pass has to be put off: until nodes are quiet, there is a place for it, and the cloud wants to be
// asked. Zero: it may begin.
func (s *scheduler) early(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.debounce.Left(s.changes, now)
	if places := s.passes.TokensAt(now); places < 1 {
		// Rounded up: a place must not be missed by the nanoseconds that a float64 does not hold.
		wait = max(wait, time.Duration((1-places)/float64(s.passes.Limit())*float64(time.Second))+time.Millisecond)
	}
	return max(wait, s.closedUntil.Sub(now), 0)
}

// begin takes a place for a pass, which sees all changes up to now, and returns what it is made for, in the words of the reference's
// metric.
func (s *scheduler) begin(now time.Time) (trigger string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes.AllowN(now, 1)
	trigger = triggerPeriodic
	if s.changes != (kit.Burst{}) {
		trigger = triggerNodeChange
	}
	s.changes = kit.Burst{}
	return trigger
}

// result is what the next pass depends on.
type result struct {
	// changed says that something was done to routes, and doubtful that the list lacks routes that were there.
	changed, doubtful bool
	// blocked is why there was no comparison, or none that could be acted upon.
	blocked error
	// partial is what could not be found out about single nodes.
	partial error
	// retry is when an operation, or the write of a condition, that failed may be tried again; zero: none failed.
	retry time.Time
}

// end returns how long after a pass the next one is due, if nothing happens before.
func (s *scheduler) end(now time.Time, r result) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = s.idle
	if r.changed || r.doubtful {
		s.pause = s.period
	}
	switch {
	case r.blocked != nil:
		s.pause = s.outage().After(s.failures, r.blocked)
		s.failures++
	case r.partial != nil:
		s.pause = min(s.pause, s.outage().After(s.partials, r.partial))
		s.failures, s.partials = 0, s.partials+1
	default:
		s.failures, s.partials = 0, 0
	}
	if wait, asked := classify.RetryAfter(r.blocked); asked {
		s.closedUntil = now.Add(wait)
	}
	if r.blocked == nil && !r.retry.IsZero() {
		s.pause = min(s.pause, max(r.retry.Sub(now), time.Millisecond))
	}
	return s.pause
}

// outage returns the pauses after comparisons that could not be made: all nodes wait for the end of that. The reference lists once in a period.
func (s *scheduler) outage() kit.Backoff {
	pauses := backoff()
	pauses.First = min(s.debounce.Most, DefaultPeriod)
	pauses.Longest = idlePeriods * pauses.First
	pauses.Terminal = pauses.Longest
	return pauses
}

// When returns what the last call of end did.
func (s *scheduler) When(reconcile.Request) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}

// Forget does nothing: end knows how passes ended.
func (s *scheduler) Forget(reconcile.Request) {}

// NumRequeues is not asked for: end counts failures.
func (s *scheduler) NumRequeues(reconcile.Request) int { return 0 }

// everything is the only item of the queue: a pass is over all nodes and all routes.
var everything = reconcile.Request{}

// watcher turns the watch of nodes into passes.
type watcher struct {
	scheduler *scheduler
	rules     ownership.Rules
	queue     kit.Enqueuer
}

// capture is a source that keeps the queue for trigger, and asks for the first pass, which comes whether there are nodes or not.
func (w *watcher) capture(ctx context.Context, q kit.Queue) error {
	q.Add(everything)
	return w.queue.Capture(ctx, q)
}

// trigger asks for a pass soon.
func (w *watcher) trigger() {
	if q := w.queue.Queue(); q != nil {
		w.enqueue(q)
	}
}

func (w *watcher) enqueue(q kit.Queue) {
	q.AddAfter(everything, w.scheduler.noted(time.Now()))
}

func (w *watcher) handler() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) {
			if w.routable(e.Object) {
				w.enqueue(q)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			if w.matters(e.ObjectOld, e.ObjectNew) {
				w.enqueue(q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q kit.Queue) {
			if len(e.Object.Spec.PodCIDRs) > 0 {
				w.enqueue(q)
			}
		},
	}
}

// routable reports whether there may be routes to make for a node.
func (w *watcher) routable(node *corev1.Node) bool {
	return len(node.Spec.PodCIDRs) > 0 && !awaitsProviderID(node) && w.rules.Decide(node).Owner != ownership.Foreign
}

// matters reports whether a change of a node can change what there is to do. Heartbeats do not, and they are nearly all of the
// changes; neither do our own writes of the condition.
func (w *watcher) matters(before, after *corev1.Node) bool {
	was, is := w.routable(before), w.routable(after)
	return was != is || is && !sameRoutes(before, after)
}

// sameRoutes reports whether two versions of a node have the same routes, if it is ours.
func sameRoutes(before, after *corev1.Node) bool {
	return before.UID == after.UID && before.Spec.ProviderID == after.Spec.ProviderID &&
		slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) && slices.Equal(before.Status.Addresses, after.Status.Addresses)
}
