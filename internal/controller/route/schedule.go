package route

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

const (
	// gathering is how long the first change of a burst waits for others, so that there are few passes. It does not begin anew with each of
	// them: a pass takes longer than that, as a rule, and the next one sees what came meanwhile.
	gathering = 500 * time.Millisecond
	// quiet is how long nodes have to be quiet before a pass while they are being initialized, and joining is how long a pass is put off at
	// most while they are not, from the first one on that waits for its route: nobody can use a route before that, and making it costs the
	// API server and the cloud what the nodes that wait could have had. With the reference, which looks at routes once in such a time, the
	// first node waits for as long.
	quiet   = 500 * time.Millisecond
	joining = DefaultPeriod
	// mass is how many nodes have to wait for their initialization so that a pause in it is not taken for its end. Those that have waited
	// for longer than joining do not count: they may wait in vain.
	mass = 16
	// firstIdle is the shortest time from a pass that found nothing to do to the next one: two a minute.
	firstIdle = 30 * time.Second
	// burst is how many passes may follow each other without regard to the period.
	burst = 10
)

// scheduler says when the next pass is due. It knows the time only from its callers.
//
// It is the rate limiter of the controller's queue as well: a pass that failed is followed by another when the scheduler says.
type scheduler struct {
	// period and longest bound the time from one comparison to the next in which nothing happened.
	period, longest time.Duration

	mu sync.Mutex
	// passes gives each pass a place; while nodes keep changing there is one place per period.
	passes *rate.Limiter
	// changes are those of nodes that no pass has seen, and unrouted those of them by which a node came to wait for a route.
	changes, unrouted kit.Burst
	// waiting are the nodes that wait for their initialization, and since when, but for those that have waited for longer than joining. Joined
	// is when one last came or went.
	waiting map[types.UID]time.Time
	joined  time.Time
	// closedUntil is when the cloud wants to be asked again.
	closedUntil time.Time
	interval    time.Duration
	// failures is how many passes in a row could not make their comparison, and partials how many comparisons in a row left something
	// unclear. Apart: what is unclear of one node, pass after pass, delays no comparison of all.
	failures, partials int
	pause              time.Duration
}

var _ workqueue.TypedRateLimiter[reconcile.Request] = &scheduler{}

func newScheduler(period, longest time.Duration) *scheduler {
	return &scheduler{
		period: period, longest: max(period, longest), interval: period,
		passes: rate.NewLimiter(rate.Every(period), burst), waiting: map[types.UID]time.Time{},
	}
}

// noted takes notice of a change that concerns routes, and returns when to look again. Waits says that a node waits for a route.
func (s *scheduler) noted(now time.Time, waits bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes.Add(now)
	if waits {
		s.unrouted.Add(now)
	}
	return gathering
}

// awaits takes notice of a node that waits for its initialization, or does so no more.
func (s *scheduler) awaits(node types.UID, waits bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waits {
		s.waiting[node] = now
	} else {
		delete(s.waiting, node)
	}
	s.joined = now
}

// debounce returns how long a pass waits for the end of a burst of changes. The lock is held.
func (s *scheduler) debounce(now time.Time) kit.Debounce {
	maps.DeleteFunc(s.waiting, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= joining })
	switch {
	case len(s.waiting) >= mass:
		return kit.Debounce{Quiet: joining, Most: joining}
	case now.Sub(s.joined) < quiet:
		return kit.Debounce{Quiet: quiet, Most: joining}
	default:
		return kit.Debounce{Quiet: gathering, Most: gathering}
	}
}

// early returns how long a pass has to be put off: until nodes are quiet, there is a place for it, and the cloud wants to be
// asked. Zero: it may begin.
func (s *scheduler) early(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	debounce := s.debounce(now)
	wait := debounce.Left(s.changes, now)
	if debounce.Most > gathering {
		wait = max(wait, debounce.Left(s.unrouted, now))
	}
	if places := s.passes.TokensAt(now); places < 1 {
		// Rounded up: a place must not be missed by the nanoseconds that a float64 does not hold.
		wait = max(wait, time.Duration((1-places)*float64(s.period))+time.Millisecond)
	}
	return max(wait, s.closedUntil.Sub(now), 0)
}

// begin takes a place for a pass, which sees all changes up to now.
func (s *scheduler) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes.AllowN(now, 1)
	s.changes, s.unrouted = kit.Burst{}, kit.Burst{}
}

// result is what the next pass depends on.
type result struct {
	// changed says that something was done to routes.
	changed bool
	// blocked is why there was no comparison, or none that could be acted upon.
	blocked error
	// partial is what could not be found out about single nodes.
	partial error
	// retry is when an operation, or the write of a condition, that failed may be tried again; zero: none failed.
	retry time.Time
}

// end returns how long after a pass the next one is due, if nothing happens before. After a change the routes are looked at
// again after the period; each pass that finds nothing to do doubles the time.
func (s *scheduler) end(now time.Time, r result) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.changed {
		s.interval = s.period
	} else if r.blocked == nil {
		s.interval = min(max(2*s.interval, firstIdle), s.longest)
	}
	s.pause = s.interval
	switch {
	case r.blocked != nil:
		s.pause = backoff(s.longest).After(s.failures, r.blocked)
		s.failures++
	case r.partial != nil:
		s.pause = min(s.interval, backoff(s.longest).After(s.partials, r.partial))
		s.failures, s.partials = 0, s.partials+1
	default:
		s.failures, s.partials = 0, 0
	}
	if wait, asked := cloud.RetryAfter(r.blocked); asked {
		s.closedUntil = now.Add(wait)
	}
	if r.blocked == nil && !r.retry.IsZero() {
		s.pause = min(s.pause, max(r.retry.Sub(now), time.Millisecond))
	}
	return s.pause
}

// When returns what the last call of end did.
func (s *scheduler) When(reconcile.Request) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}

// Forget does nothing: end knows how passes ended.
func (s *scheduler) Forget(reconcile.Request) {}

// NumRequeues returns how many passes in a row could not make their comparison.
func (s *scheduler) NumRequeues(reconcile.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

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
		w.enqueue(q, false)
	}
}

func (w *watcher) enqueue(q kit.Queue, waits bool) {
	q.AddAfter(everything, w.scheduler.noted(time.Now(), waits))
}

func (w *watcher) handler() handler.TypedEventHandler[*corev1.Node, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q kit.Queue) {
			if w.joins(e.Object) {
				w.scheduler.awaits(e.Object.UID, true, time.Now())
			}
			if w.routable(e.Object) {
				w.enqueue(q, true)
			}
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q kit.Queue) {
			if waits := w.joins(e.ObjectNew); waits != w.joins(e.ObjectOld) {
				w.scheduler.awaits(e.ObjectNew.UID, waits, time.Now())
			}
			if w.matters(e.ObjectOld, e.ObjectNew) {
				w.enqueue(q, w.routable(e.ObjectNew))
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q kit.Queue) {
			if w.joins(e.Object) {
				w.scheduler.awaits(e.Object.UID, false, time.Now())
			}
			if len(e.Object.Spec.PodCIDRs) > 0 {
				w.enqueue(q, false)
			}
		},
	}
}

// joins reports whether a node waits for an initialization that may be ours: others' nodes put off no route.
func (w *watcher) joins(node *corev1.Node) bool {
	return ownership.Uninitialized(node) && w.mayBeOurs(node)
}

func (w *watcher) mayBeOurs(node *corev1.Node) bool {
	return w.rules.Decide(node).Owner != ownership.Foreign
}

// routable reports whether there may be routes to make for a node.
func (w *watcher) routable(node *corev1.Node) bool {
	return len(node.Spec.PodCIDRs) > 0 && !awaitsProviderID(node) && w.mayBeOurs(node)
}

// matters reports whether a change of a node can change what there is to do. Heartbeats do not, and they are nearly all of the
// changes; neither do our own writes of the condition.
func (w *watcher) matters(before, after *corev1.Node) bool {
	if sameForRoutes(before, after) {
		return false
	}
	was, is := w.routable(before), w.routable(after)
	return was != is || is && (before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID ||
		!slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) || !slices.Equal(before.Status.Addresses, after.Status.Addresses))
}

// sameForRoutes reports whether two versions of a node have all in common that could matter. It costs a heartbeat little.
func sameForRoutes(before, after *corev1.Node) bool {
	return before.UID == after.UID && before.Spec.ProviderID == after.Spec.ProviderID &&
		slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) && slices.Equal(before.Status.Addresses, after.Status.Addresses) &&
		ownership.Uninitialized(before) == ownership.Uninitialized(after) &&
		before.Annotations[ownership.AnnotationIgnore] == after.Annotations[ownership.AnnotationIgnore] &&
		before.Annotations[ownership.AnnotationProven] == after.Annotations[ownership.AnnotationProven] &&
		maps.Equal(before.Labels, after.Labels) // a selector may ask for any
}
