package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/provider"
)

// follow changes the targets of a load balancer whose Service has failed and is not due to be tried again, see planTargets. What comes
// of it is kept apart from the failure of the Service: neither ends or prolongs the pause of the other. It returns when the next change
// is due, zero if none is, and whether the pass waits for other writes to the cloud.
func (r *reconciler) follow(ctx context.Context, p *pass) (next time.Duration, waits bool) {
	known, _ := r.memory.recall(p.key)
	if known.failure == nil || known.made == nil || !known.failure.isOf(p.want.intent, p.want.inputs) {
		return 0, false
	}
	if err := r.look(ctx, p); err != nil {
		return 0, false // the pass itself tells that the targets are not known
	}
	plan := planTargets(p.want, p.seen, time.Now())
	if len(plan) == 0 {
		return 0, false
	}
	if hold := time.Until(known.alone.retryAt); hold > 0 {
		return hold, false
	}
	priority := p.priority
	defer func() { p.priority = priority }()
	err := r.act(ctx, p, plan[0])
	switch {
	case errors.Is(err, errWaiting):
		return 0, true
	case ctx.Err() != nil:
		return 0, false
	case err != nil:
		return r.failedAlone(ctx, p, err), false
	}
	r.metrics.heard(p.key, time.Now())
	r.memory.change(p.key, func(known *remembered) { known.alone = targetsFailure{} })
	return 0, false
}

// failedAlone counts, logs and remembers that the targets could not be changed, and tells it in an event as sparingly as other
// failures. The condition stays that of the Service's own failure. It returns the pause before the next try.
func (r *reconciler) failedAlone(ctx context.Context, p *pass, err error) (delay time.Duration) {
	reason, now, tell := reasonOf(err), time.Now(), false
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.metrics.heard(p.key, now)
	r.memory.change(p.key, func(known *remembered) {
		last := &known.alone
		delay = r.backoff.after(last.count, err)
		last.count++
		last.retryAt, last.first = now.Add(delay), false
		if last.reason != reason || now.Sub(last.told) >= repeatEvent {
			last.reason, last.told, tell = reason, now, true
		}
	})
	logf.FromContext(ctx).Error(err, "Could not change the targets of a load balancer whose Service cannot be ensured",
		"reason", reason, "retryAfter", delay)
	if tell {
		r.updateFailed(p.service, err)
	}
	return delay
}

// updateFailed tells a Service that its targets could not be changed.
func (r *reconciler) updateFailed(service *corev1.Service, err error) {
	nodes := "the present nodes"
	var update *retargetError
	if errors.As(err, &update) {
		nodes = shortList(update.nodes)
	}
	r.recorder.Event(service, corev1.EventTypeWarning, EventUpdateFailed,
		shortened(fmt.Sprintf("Error updating the targets of the load balancer to %s: %v", nodes, err)))
}

// holdTargets has the targets wait, too, for as long as the cloud asked when it refused an Ensure.
func holdTargets(known *remembered, err error, now time.Time) {
	if wait, asked := provider.RetryAfter(err); asked {
		known.alone.retryAt = latest(known.alone.retryAt, now.Add(min(wait, maxRetryAfter)))
	}
}
