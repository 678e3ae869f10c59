package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// DefaultFirstRetry is the pause after the first failure for a Service, as in the reference; it doubles with each further one.
	DefaultFirstRetry = 5 * time.Second
	// DefaultLongestRetry is the longest pause. The reference's is 5 minutes: a cloud that has recovered is noticed late there.
	DefaultLongestRetry = 2 * time.Minute

	// longestCleanup is the longest pause between tries to delete a load balancer: the reference looks every 30 seconds, too, at each Service
	// that is to be cleaned up.
	longestCleanup = 30 * time.Second
	// spreadPart is the largest part of a pause by which it is lengthened, so that what has failed together is not tried together.
	spreadPart = 10
	// absenceTries is how often in a row a deletion has to fail until it is believed that there is nothing to delete.
	absenceTries = 3
	// lastingFailure is how long a failure has to go on to be shown on a Service that showed another within kit.EventInterval. A call that fails every
	// other time would cost two writes each time, and the reference makes none.
	lastingFailure = 2 * time.Minute
	// shortestRetry is the shortest pause that a plugin gets by an api.RetryError.
	shortestRetry = time.Second
	// conflictDelay is the pause after a write to the API server that came too late; it doubles with each further one.
	conflictDelay = 20 * time.Millisecond
	// maxConflicts is how many writes in a row may come too late before that counts as a failure.
	maxConflicts = 6
)

var (
	// errNotFound is of a change of the targets of a load balancer that the cloud does not find.
	errNotFound = errors.New("the cloud does not find the load balancer")
	// errAbsent is of a deletion that failed while there is no load balancer to be seen. Parts of it may be left.
	errAbsent = errors.New("failed to delete all of the load balancer, which is gone")
	// errOutdated is of a write to the API server that came too late: the Service has changed since it was planned for.
	errOutdated = errors.New("the Service changed while it was being written")
	// errPredecessor is of a Service that waits for the load balancer of a predecessor to be deleted.
	errPredecessor = errors.New("the Service that had this name before still has its load balancer")
)

// writeError says that the API server refused a write.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// retargetError says that the targets of a load balancer could not be changed.
type retargetError struct {
	nodes []string
	err   error
}

func (e *retargetError) Error() string {
	return fmt.Sprintf("failed to change the targets of the load balancer to %d nodes: %v", len(e.nodes), e.err)
}
func (e *retargetError) Unwrap() error { return e.err }

// failure is a row of passes that failed for one state of a Service.
type failure struct {
	// intent and inputs are what the passes were for. Once they are different, it is worth trying again at once.
	intent intent
	inputs inputs
	// since is when the first of them failed. Count is how many did, without those for which the plugin itself said when to try again, and all is
	// how many with them.
	since      time.Time
	count, all int
	// conflicts is how many writes in a row came too late.
	conflicts int
	// absent is how many deletions in a row failed though there was no load balancer to be seen.
	absent int
	// reason is that of the last one, eventAt is when an event last said so.
	reason  string
	eventAt time.Time
	// retryAt is when the next pass is due.
	retryAt time.Time
	// err is the last error. Awaits says that it only waited for the load balancer of a predecessor to be deleted.
	err    error
	awaits bool
}

// next returns the row with one more failure, the pause before the next try, and whether an event is due: the first time, when the
// reason changes, and every kit.EventInterval.
func (f failure) next(err error, pauses backoff, now time.Time) (next failure, delay time.Duration, news bool) {
	reason := reasonOf(err)
	f.conflicts = 0
	if (reason == ReasonWriteFailed) != (f.reason == ReasonWriteFailed) {
		f.count = 0 // the cloud and the API server each have a row: what the other did not bear is over
	}
	if f.all++; f.all == 1 {
		f.since = now
	}
	if f.absent++; !errors.Is(err, errAbsent) {
		f.absent = 0
	}
	delay = pauses.after(f.count, err, string(f.inputs.uid))
	var retry *cloudproviderapi.RetryError
	if !errors.As(err, &retry) { // a fixed delay does not count toward one that grows
		f.count++
	}
	if f.reason != reason || now.Sub(f.eventAt) >= kit.EventInterval {
		f.reason, f.eventAt, news = reason, now, true
	}
	f.retryAt, f.err, f.awaits = now.Add(delay), err, errors.Is(err, errPredecessor)
	return f, delay, news
}

// retargetFailures is a row of changes of the targets that failed while their Service could not be ensured. Zero: the last one did not.
type retargetFailures struct {
	// count is how many failed.
	count int
	// reason is that of the last one, eventAt is when an event last said so.
	reason  string
	eventAt time.Time
	// retryAt is when these targets, as made.targets, are due again. Others are due at once, as in the reference. Nil: all wait.
	retryAt time.Time
	targets map[string]string
	// first says that the Service was the last to be tried, so that the targets come before it where both are due.
	first bool
}

// holds reports whether the targets that are wanted wait for their next try.
func (f retargetFailures) holds(want desired) bool {
	return f.targets == nil || want.settled.servedBy(f.targets) || want.latest.servedBy(f.targets)
}

// isOf reports whether passes for an intent and inputs do the same as those that failed.
func (f *failure) isOf(intent intent, in inputs) bool {
	return f.intent == intent && len(in.changes(f.inputs)) == 0
}

// predecessor is a Service that is gone and whose name another one has now, while its load balancer is still to be deleted.
//
// See ADR 93.
type predecessor struct {
	service *corev1.Service
	// failure is nil unless its deletion has failed.
	failure *failure
}

// waitsForRetry returns how long its deletion has yet to wait.
func (b predecessor) waitsForRetry(now time.Time) time.Duration {
	if b.failure == nil {
		return 0
	}
	return b.failure.retryAt.Sub(now)
}

// predecessor returns the one with a UID; nil if there is none.
func (s state) predecessor(uid types.UID) *predecessor {
	if at := slices.IndexFunc(s.predecessors, func(p predecessor) bool { return p.service.UID == uid }); at >= 0 {
		return &s.predecessors[at]
	}
	return nil
}

// predecessorsDue returns in how long the first of the predecessors is due, zero if there is none.
func (s state) predecessorsDue(now time.Time) (due time.Duration) {
	for _, before := range s.predecessors {
		due = soonest(due, max(before.waitsForRetry(now), time.Millisecond))
	}
	return due
}

// soonest returns the shorter of two waits; zero is none.
func soonest(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// waitsForRetry returns how long a pass has yet to wait that continues the row that failed.
func (s state) waitsForRetry(intent intent, in inputs, now time.Time) time.Duration {
	if !s.continues(intent, in) {
		return 0
	}
	return s.failure.retryAt.Sub(now)
}

// continues reports whether passes for an intent and inputs continue the row that failed: they do the same.
func (s state) continues(intent intent, in inputs) bool {
	return s.failure != nil && s.failure.isOf(intent, in)
}

// reasonOf names a failure.
func reasonOf(err error) string {
	var (
		write     *writeError
		retry     *cloudproviderapi.RetryError
		throttled *provider.ThrottledError
	)
	switch {
	case errors.As(err, &write):
		return ReasonWriteFailed
	case errors.Is(err, errNotFound):
		return ReasonNotFound
	case errors.As(err, &retry):
		return ReasonPending
	case errors.As(err, &throttled):
		return ReasonThrottled
	case errors.Is(err, cloud.ErrDeadline), errors.Is(err, context.DeadlineExceeded), errors.Is(err, cloud.ErrStillRunning):
		return ReasonTimeout
	case provider.IsTerminal(err):
		return ReasonRefused
	default:
		return ReasonCloudError
	}
}

// isWriteFailure reports whether a reason says that a write to the cloud failed, and not that it is in progress, or was never made.
func isWriteFailure(reason string) bool {
	switch reason {
	case ReasonThrottled, ReasonTimeout, ReasonRefused, ReasonCloudError:
		return true
	default:
		return false
	}
}

// saysNothing reports whether an error of a deletion leaves it open what became of it, so that the call has to be repeated
// even if the load balancer is not to be seen any more.
func saysNothing(err error) bool {
	switch reasonOf(err) {
	case ReasonPending, ReasonThrottled, ReasonTimeout:
		return true
	default:
		var panicked *cloud.PanicError // halfway, perhaps
		return errors.Is(err, context.Canceled) || errors.As(err, &panicked)
	}
}

// finish draws the consequences of a pass.
func (r *reconciler) finish(ctx context.Context, p *pass, err error) reconcile.Result {
	switch {
	case err == nil:
		r.metrics.updated(p.key, time.Now())
		r.states.succeeded(p.key, p.service)
		return reconcile.Result{}
	case ctx.Err() != nil, errors.Is(err, errWaiting):
		return reconcile.Result{} // we are being stopped, which is nobody's failure, or will be admitted
	case errors.Is(err, errOutdated):
		return r.repeat(ctx, p, err)
	default:
		return p.again(r.failed(ctx, p, err))
	}
}

// repeat makes another pass over a Service that changed under our hands, soon and silently. If that repeats, the writes do not
// come too late but are refused, and that is a failure of the Service.
func (r *reconciler) repeat(ctx context.Context, p *pass, err error) reconcile.Result {
	conflicts := r.states.outdated(p.key, p.want)
	if conflicts > maxConflicts {
		return p.again(r.failed(ctx, p, &writeError{err}))
	}
	logf.FromContext(ctx).V(1).Info("The Service changed while it was being written; looking at it again")
	return p.again(conflictDelay << (conflicts - 1))
}

// failed counts, logs and remembers a failure, and sends an event. It returns the pause before the next try.
func (r *reconciler) failed(ctx context.Context, p *pass, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.updated(p.key, time.Now())
	delay, news := r.states.failed(p.key, p.want, err, r.backoff)
	log := logf.FromContext(ctx)
	switch {
	case reason == ReasonPending && !news:
	case reason == ReasonNotFound:
		log.Info("The cloud does not find the load balancer whose targets are to be changed", "reason", err.Error(), "retryAfter", delay)
		if known, _ := r.states.get(p.key); known.made == nil || !known.made.denial.told() {
			return delay
		}
		news = false // the row of such answers has an event of its own
	case reason == ReasonPending:
		log.Info("The load balancer is not ready yet", "reason", err.Error(), "retryAfter", delay)
	default:
		log.Error(err, "Could not bring the load balancer in line with the Service", "reason", reason, "retryAfter", delay)
	}
	if news {
		r.events.failed(p, reason, err)
	}
	r.showFailure(ctx, p, reason, err)
	return delay
}

// onlyTargetsFailed counts, logs and remembers that the targets could not be changed, and sends events as sparingly as for other
// failures. The condition stays that of the Service's own failure. It returns the pause before the next try.
func (r *reconciler) onlyTargetsFailed(ctx context.Context, p *pass, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.updated(p.key, time.Now())
	delay, news := r.states.targetsFailed(p.key, p.want.latest, err, r.backoff)
	logf.FromContext(ctx).Error(err, "Could not change the targets of a load balancer whose Service cannot be ensured",
		"reason", reason, "retryAfter", delay)
	if news {
		r.events.targetsFailed(p.service, err)
	}
	return delay
}

// predecessorFailed counts, logs and remembers that the load balancer of a predecessor could not be deleted, and sends an event. It
// returns the pause before the next try. The Service that has the name now is none the worse.
func (r *reconciler) predecessorFailed(ctx context.Context, p *pass, before *corev1.Service, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	delay, news := r.states.predecessorFailed(p.key, before.UID, err, r.backoff)
	logf.FromContext(ctx).Error(err, "Could not delete the load balancer of a Service whose name another one has now",
		"serviceUID", before.UID, "reason", reason, "retryAfter", delay)
	if news {
		r.events.failure(before, EventDeleteFailed, reason, err)
	}
	return delay
}

// showFailure has the Service's condition say that the pass has failed, where it stays for whoever looks later. It is planned and
// carried out like everything else that is written. If this fails, it is tried again with the next failure.
func (r *reconciler) showFailure(ctx context.Context, p *pass, reason string, failure error) {
	r.observe(p)
	known, _ := r.states.get(p.key)
	p.seen.failed = &failedPass{
		reason: reason, message: kit.EventMessage(failure.Error()), shownAt: known.conditionAt, lasts: known.failureLasts(time.Now()),
	}
	if err := r.carryOut(ctx, p, planFor(p.want, p.seen, time.Now())); err != nil {
		logf.FromContext(ctx).Error(err, "Could not write the failure to the Service's condition", "reason", reason)
	}
}

// failureLasts reports whether a Service has failed for long enough to say so in its condition, and not only by an event: with the second pass
// in a row, or, where a failure was shown and mended a moment ago, when it has gone on for longer.
func (s state) failureLasts(now time.Time) bool {
	switch {
	case s.failure == nil || s.failure.all < 2:
		return false
	case now.Sub(s.conditionAt) >= kit.EventInterval:
		return true
	default:
		return now.Sub(s.failure.since) >= lastingFailure
	}
}

// backoff is how long to wait after failures.
type backoff struct {
	first, longest time.Duration
	// asked bounds the pause that an api.RetryError asks for; zero: nothing does.
	asked time.Duration
	// spread returns by what part of itself a pause is lengthened; nil: by none.
	spread func(of string, before int) float64
}

// of returns the pauses between passes for an intent.
func (b backoff) of(intent intent) backoff {
	if intent == withdraw {
		b.longest, b.asked = min(b.longest, longestCleanup), longestCleanup
	}
	return b
}

// after returns the pause after a failure of an object that was preceded by others. An api.RetryError says itself how long, as in the reference.
// Only a plugin that asks for no pause gets one: it would call the cloud without end.
func (b backoff) after(before int, err error, of string) time.Duration {
	var retry *cloudproviderapi.RetryError
	if errors.As(err, &retry) {
		pause := max(retry.RetryAfter(), shortestRetry)
		return min(pause, cmp.Or(b.asked, pause))
	}
	pause := b.growing().After(before, err)
	if b.spread == nil {
		return pause
	}
	return max(pause, min(pause+time.Duration(float64(pause)*b.spread(of, before)), b.longest))
}

// spread is the part of a pause that depends on the object and on how often it has failed, and on nothing else.
func spread(of string, before int) float64 {
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, of, before) // a hash takes everything
	return float64(sum.Sum32()%1000) / 1000 / spreadPart
}

// growing is the pauses between what is repeated because others give cause for it again and again.
func (b backoff) growing() kit.Backoff { return kit.Backoff{First: b.first, Longest: b.longest} }
