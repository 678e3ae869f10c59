package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cloudproviderapi "k8s.io/cloud-provider/api"
)

// The reasons of events. Those of the reference have its names.
const (
	// EventEnsuring and EventEnsured frame the making or changing of a load balancer.
	EventEnsuring = "EnsuringLoadBalancer"
	EventEnsured  = "EnsuredLoadBalancer"
	// EventPending says that the cloud is still at it.
	EventPending = "PendingLoadBalancer"
	// EventSyncFailed says that a load balancer could not be made, changed or deleted.
	EventSyncFailed = "SyncLoadBalancerFailed"
	// EventUpdated and EventUpdateFailed are about a change of the targets only.
	EventUpdated      = "UpdatedLoadBalancer"
	EventUpdateFailed = "UpdateLoadBalancerFailed"
	// EventWaitingForCloud says that the call for the load balancer waits to be let in, and for what.
	EventWaitingForCloud = "WaitingForCloud"
	// EventUnavailable says that there is no node that may be a target.
	EventUnavailable = "UnAvailableLoadBalancer"
	// EventDeleting and EventDeleted frame the deletion of a load balancer, EventDeleteFailed ends that of a Service that is
	// gone.
	EventDeleting     = "DeletingLoadBalancer"
	EventDeleted      = "DeletedLoadBalancer"
	EventDeleteFailed = "DeleteLoadBalancerFailed"
	// EventDeletionIncomplete says that a load balancer is gone though its deletion failed, and what may be left of it.
	EventDeletionIncomplete = "LoadBalancerDeletionIncomplete"
	// EventDrifted says that a load balancer was found to be gone or changed in the cloud and is being repaired.
	EventDrifted = "LoadBalancerDrifted"
	// EventLeftover says that a load balancer in the cloud belongs to no Service, EventCollected that it was deleted.
	EventLeftover  = "LeftoverLoadBalancer"
	EventCollected = "CollectedLoadBalancer"
	// EventWaiting says for what a Service waits that is to be written to the cloud.
	EventWaiting = "WaitingForWrite"
)

// before announces an action.
func (r *reconciler) before(ctx context.Context, p *pass, act action) {
	switch act.verb {
	case verbEnsure:
		r.beforeEnsure(ctx, p, act)
	case verbRemove:
		r.recorder.Event(act.service, corev1.EventTypeNormal, EventDeleting, "Deleting the load balancer: "+strings.Join(act.why, ", "))
	case verbRetarget, verbProtect, verbPublish, verbRelease:
	}
}

// beforeEnsure says that a load balancer is being ensured, unless that is merely to see that all is as it was, or is the same
// attempt again.
func (r *reconciler) beforeEnsure(ctx context.Context, p *pass, act action) {
	known, _ := r.memory.recall(p.key)
	refreshes := p.seen.made == nil && len(act.service.Status.LoadBalancer.Ingress) > 0
	p.announced = !refreshes && known.failure == nil && !slices.Equal(p.seen.drift, []string{driftStatus})
	if p.announced {
		if len(p.seen.drift) > 0 {
			r.recorder.Event(act.service, corev1.EventTypeWarning, EventDrifted, "Repairing the load balancer: "+strings.Join(act.why, ", "))
		}
		r.recorder.Event(act.service, corev1.EventTypeNormal, EventEnsuring, "Ensuring the load balancer")
		logf.FromContext(ctx).Info("Ensuring the load balancer", "reason", act.why)
	}
	if len(p.want.latest.nodes) == 0 && p.announced {
		r.recorder.Event(act.service, corev1.EventTypeWarning, EventUnavailable, "There is no node that may be a target of the load balancer")
	}
	r.attempted(p, act)
}

// after tells what became of an action.
func (r *reconciler) after(ctx context.Context, p *pass, act action, done result, err error, took time.Duration) {
	log := logf.FromContext(ctx)
	switch {
	case act.verb == verbRetarget:
		r.afterRetarget(ctx, p, act, done, err, took)
	case err != nil:
	case act.verb == verbEnsure && done.status == nil:
		log.V(1).Info("The cloud provider leaves the load balancer to another controller")
	case act.verb == verbEnsure:
		changed := !publicationFor(act.service, &made{status: done.status, targets: p.want.latest.members, unpublished: !done.echo}, time.Now()).
			equal(publication{act.service.Status.LoadBalancer.Ingress, conditionOf(act.service)})
		if p.announced || changed {
			r.recorder.Event(act.service, corev1.EventTypeNormal, EventEnsured, "Ensured the load balancer")
			log.Info("Ensured the load balancer", "targets", len(p.want.latest.nodes), "took", took.Round(time.Millisecond).String())
		}
	case act.verb == verbRemove:
		r.recorder.Event(act.service, corev1.EventTypeNormal, EventDeleted, "Deleted the load balancer")
		log.Info("Deleted the load balancer", "reason", act.why, "took", took.Round(time.Millisecond).String())
	case act.verb == verbPublish && len(act.service.Status.LoadBalancer.Ingress) == 0 && len(act.publish.ingress) > 0:
		r.metrics.ready.Observe(time.Since(act.service.CreationTimestamp.Time).Seconds())
	}
}

// deletionIncomplete tells that a load balancer is taken for deleted though its deletion goes on to fail.
func deletionIncomplete(ctx context.Context, recorder record.EventRecorder, service *corev1.Service, err error) {
	logf.FromContext(ctx).Info("The load balancer is gone, and its deletion goes on to fail; parts of it may be left in the cloud",
		"error", err.Error())
	recorder.Event(service, corev1.EventTypeWarning, EventDeletionIncomplete, shortened(fmt.Sprintf(
		"The load balancer is gone. Its deletion failed %d times, and parts of it may be left in the cloud: %v", absenceTries, err)))
}

func (r *reconciler) afterRetarget(ctx context.Context, p *pass, act action, done result, err error, took time.Duration) {
	r.metrics.syncs.Inc()
	r.metrics.hostLatency.Observe(took.Seconds())
	switch {
	case err != nil && ctx.Err() == nil:
		r.metrics.nodeSyncErrors.Inc()
		r.memory.change(p.key, func(known *remembered) { // what the targets are now is open
			changed := *known.made
			changed.ensured, changed.targets, changed.written = false, nil, nil
			known.made = &changed
		})
	case err != nil:
	case done.missing:
		r.metrics.drifts.WithLabelValues("gone").Inc()
	case len(p.want.latest.nodes) == 0:
		r.recorder.Event(act.service, corev1.EventTypeWarning, EventUnavailable, "There is no node that may be a target of the load balancer")
	default:
		r.recorder.Event(act.service, corev1.EventTypeNormal, EventUpdated, "Updated the targets of the load balancer")
		logf.FromContext(ctx).V(1).Info("Updated the targets of the load balancer", "targets", len(p.want.latest.nodes),
			"byDifference", act.change != nil, "took", took.Round(time.Millisecond).String())
	}
}

// settle draws the consequences of a pass.
func (r *reconciler) settle(ctx context.Context, p *pass, err error) reconcile.Result {
	var outdated *outdatedError
	switch {
	case err == nil:
		r.succeeded(p)
		return reconcile.Result{}
	case ctx.Err() != nil, errors.Is(err, errWaiting):
		return reconcile.Result{} // we are being stopped, which is nobody's failure, or will be admitted
	case errors.As(err, &outdated):
		return r.repeat(ctx, p, err)
	default:
		return p.again(r.failed(ctx, p, err))
	}
}

// succeeded ends a Service's row of failures, and forgets one that has no load balancer any more.
func (r *reconciler) succeeded(p *pass) {
	r.metrics.heard(p.key, time.Now())
	known, found := r.memory.recall(p.key)
	switch {
	case !found:
	case known.made == nil && (p.service == nil || !hasFinalizer(p.service) && known.written == nil):
		r.memory.forget(p.key)
	case known.failure != nil:
		r.memory.change(p.key, func(known *remembered) { known.failure, known.alone = nil, targetsFailure{} })
	}
}

// repeat makes another pass over a Service that changed under our hands, soon and silently. If that goes on, the writes do not
// come too late but are refused, and the Service hears of it.
func (r *reconciler) repeat(ctx context.Context, p *pass, err error) reconcile.Result {
	conflicts := 0
	r.memory.change(p.key, func(known *remembered) {
		if known.failure == nil {
			known.failure = &failure{intent: p.want.intent, inputs: p.want.inputs}
		}
		next := *known.failure
		next.conflicts++
		known.failure, known.written, conflicts = &next, nil, next.conflicts
	})
	if conflicts > maxConflicts {
		return p.again(r.failed(ctx, p, &writeError{err}))
	}
	logf.FromContext(ctx).V(1).Info("The Service changed while it was being written; looking at it again")
	return p.again(conflictDelay << (conflicts - 1))
}

// failed counts, logs and remembers a failure, and tells it to the Service. It returns the pause before the next try.
func (r *reconciler) failed(ctx context.Context, p *pass, err error) time.Duration {
	reason := reasonOf(err)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.heard(p.key, time.Now())
	delay, tell := r.remind(p, reason, err)
	log := logf.FromContext(ctx)
	switch {
	case reason == ReasonPending && !tell:
	case reason == ReasonPending:
		log.Info("The load balancer is not ready yet", "reason", err.Error(), "retryAfter", delay)
	default:
		log.Error(err, "Could not bring the load balancer in line with the Service", "reason", reason, "retryAfter", delay)
	}
	if tell {
		r.event(p, reason, err)
	}
	if reason != ReasonWriteFailed {
		r.confess(ctx, p, reason, err)
	}
	return delay
}

// remind remembers a failure. It returns the pause before the next try, and whether the Service shall say so in an event: the
// first time, when the reason changes, and every repeatEvent.
func (r *reconciler) remind(p *pass, reason string, err error) (delay time.Duration, tell bool) {
	now := time.Now()
	r.memory.change(p.key, func(known *remembered) {
		next := failure{intent: p.want.intent, inputs: p.want.inputs}
		if last := known.failure; last != nil && last.isOf(next.intent, next.inputs) {
			next = *last
		}
		next.conflicts = 0
		if next.absent++; !isAbsent(err) {
			next.absent = 0
		}
		delay = r.backoff.after(next.count, err)
		var retry *cloudproviderapi.RetryError
		if !errors.As(err, &retry) { // a fixed delay does not count toward one that grows
			next.count++
		}
		if next.reason != reason || now.Sub(next.told) >= repeatEvent {
			next.reason, next.told, tell = reason, now, true
		}
		next.retryAt = now.Add(delay)
		known.failure = &next
		holdTargets(known, err, now)
	})
	return delay, tell
}

// event tells a failure to the Service, which may be gone.
func (r *reconciler) event(p *pass, reason string, err error) {
	about, kind := p.service, EventSyncFailed
	if about == nil && p.seen.made != nil {
		about, kind = p.seen.made.service, EventDeleteFailed
	}
	var update *retargetError
	switch {
	case about == nil:
	case reason == ReasonPending:
		r.recorder.Event(about, corev1.EventTypeNormal, EventPending, shortened("The load balancer is not ready yet: "+err.Error()))
	case errors.As(err, &update):
		r.updateFailed(about, err)
	default:
		r.recorder.Event(about, corev1.EventTypeWarning, kind, shortened(fmt.Sprintf("Error syncing the load balancer: %v", err)))
	}
}

// confess writes a failure to the Service's condition, where it stays for whoever looks later. An error here has been told
// already by what it is about, and comes back with it.
func (r *reconciler) confess(ctx context.Context, p *pass, reason string, failure error) {
	if p.service == nil || !hasFinalizer(p.service) {
		return
	}
	now := time.Now()
	current := conditionOf(p.service)
	next := transition(current, metav1.ConditionFalse, reason, shortened(failure.Error()), now)
	known, _ := r.memory.recall(p.key)
	if sameCondition(current, next) || current != nil && current.Reason == reason && current.Status == next.Status &&
		now.Sub(known.conditionAt) < repeatCondition {
		return
	}
	done, err := r.applier.write(ctx, action{verb: verbPublish, service: p.service,
		publish: publication{p.service.Status.LoadBalancer.Ingress, next}})
	if err != nil {
		logf.FromContext(ctx).Error(err, "Could not write the failure to the Service's condition", "reason", reason)
		return
	}
	r.memory.change(p.key, func(known *remembered) { known.written, known.conditionAt = done.service, now })
}
