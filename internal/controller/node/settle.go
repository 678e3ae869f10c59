package node

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// endingKind is how a pass over a node ended.
type endingKind int

const (
	// unconcerned passes had nothing to decide about.
	unconcerned endingKind = iota
	// initialized nodes have lost their taint.
	initialized
	// refreshed nodes are as the cloud says, whether or not anything had to be written.
	refreshed
	// mismatched nodes are as the cloud says except for what cannot be put on them; the refresh comes back to them.
	mismatched
	// waits are nodes about which the cloud says nothing that can be used. They are left alone, and asked for again.
	waits
	// failed passes are retried.
	failed
	// overtaken passes met a node that somebody else had changed. They are repeated.
	overtaken
	// deleted nodes were gone when they should be written.
	deleted
)

// ending is how a pass over a node ended, and with what.
type ending struct {
	kind endingKind
	// err is why the pass failed, or what the node mismatches by, initialized or not.
	err error
	// note is why the node waits; worthKnowing if an operator should see that once.
	note         string
	worthKnowing bool
	// withoutAddresses says why the API server did not take the addresses of a node that is otherwise as decided.
	withoutAddresses error
	// pause is how long it is until a field may be written that is left alone, zero if there is none.
	pause time.Duration
	// plan and want are what was decided.
	plan plan
	want desired
	// wrote is the resource version of our last write, empty if there was none.
	wrote string
}

// endingOf returns success if the plan was carried out, and how the pass ended otherwise.
func endingOf(done applied, success ending) ending {
	success.wrote = done.resourceVersion
	if done.withoutAddresses != nil {
		success.withoutAddresses = &writeError{err: done.withoutAddresses, addressesOnly: true}
	}
	switch done.outcome {
	case written:
		return success
	case outdated:
		return ending{kind: overtaken, wrote: done.resourceVersion}
	case gone:
		return ending{kind: deleted}
	default:
		return ending{kind: failed, err: &writeError{err: done.err}, wrote: done.resourceVersion}
	}
}

// settle draws the consequences of a pass: what is logged, counted, told to the node, remembered and tried again.
func (r *reconciler) settle(ctx context.Context, node *corev1.Node, ended ending) reconcile.Result {
	log := logf.FromContext(ctx)
	if ended.wrote != "" {
		r.memory.wrote(node, ended.wrote)
	}
	switch ended.kind {
	case initialized:
		r.memory.succeeded(node)
		r.metrics.initialized(time.Since(node.CreationTimestamp.Time))
		r.traces.initialized(ctx, node, ended.providerID(node))
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonSynced, "Node synced successfully")
		log.Info("Initialized the node", ended.keysAndValues(node)...)
		if ended.err != nil {
			r.tell(ctx, node, ended.err)
		}
		return r.resume(ctx, node, ended)
	case refreshed:
		if ended.withoutAddresses == nil {
			r.memory.succeeded(node)
		}
		if ended.wrote != "" {
			log.Info("Refreshed the node", "changes", ended.plan.changes())
		}
		return r.resume(ctx, node, ended)
	case waits:
		delay, first := r.memory.waited(node, time.Now())
		if !first || !ended.worthKnowing {
			log = log.V(1)
		}
		log.Info("Left the node alone", "reason", ended.note, "retryAfter", delay)
		return retry(delay)
	case failed:
		return retry(r.tell(ctx, node, ended.err))
	case mismatched:
		r.tell(ctx, node, ended.err)
		return r.resume(ctx, node, ended)
	case overtaken:
		return r.repeat(ctx, node)
	case deleted:
		r.forget(node.Name, "the node was deleted")
	case unconcerned:
	}
	return reconcile.Result{}
}

// resume has a pass made over a node of which something is left: addresses that the API server did not take, or fields that
// are left alone for a while.
func (r *reconciler) resume(ctx context.Context, node *corev1.Node, ended ending) reconcile.Result {
	switch {
	case ended.withoutAddresses != nil:
		r.memory.lacksAddresses(node)
		return retry(r.tell(ctx, node, ended.withoutAddresses))
	case ended.pause > 0:
		return retry(ended.pause)
	default:
		return reconcile.Result{}
	}
}

// repeat makes another pass over a node that changed under our hands, soon and silently. If that goes on, the writes do not
// come too late but are refused, and the node hears of it.
func (r *reconciler) repeat(ctx context.Context, node *corev1.Node) reconcile.Result {
	if delay, worthIt := r.memory.conflicted(node); worthIt {
		logf.FromContext(ctx).V(1).Info("The node changed while it was being written; looking at it again")
		return reconcile.Result{RequeueAfter: delay}
	}
	return retry(r.tell(ctx, node, &writeError{err: errAlwaysTooLate}))
}

// tell counts and remembers a failure. It is logged and told to the node unless that was told the same a short while ago: a
// cloud that is down fails for all nodes, again and again. It returns the pause before the next try.
func (r *reconciler) tell(ctx context.Context, node *corev1.Node, err error) time.Duration {
	if ctx.Err() != nil {
		return failureBackoff.First // we are being stopped, which is nobody's failure
	}
	reason, _ := reasonOf(err)
	now := time.Now()
	delay := r.memory.failed(node, err, now)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.traces.failed(node, reason, err)
	log := logf.FromContext(ctx).WithValues("reason", reason, "retryAfter", delay)
	if r.told.Allow(node.UID, reason, now) {
		r.recorder.Event(node, corev1.EventTypeWarning, reason, messageOf(node, err))
		log.Error(err, "Could not bring the node in line with the cloud")
	} else {
		log.V(1).Info("Could not bring the node in line with the cloud again", "error", err.Error())
	}
	return delay
}

// waiting tells a node what the call for its instance waits for.
func (r *reconciler) waiting(node *corev1.Node, reason string) {
	if r.told.Allow(node.UID, ReasonWaitingForCloud, time.Now()) {
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonWaitingForCloud, shortened("Waiting to ask the cloud for the node's instance: "+reason))
	}
}

// retry puts a node that has had its chance behind those that have not.
func retry(delay time.Duration) reconcile.Result {
	priority := priorityRetry
	return reconcile.Result{RequeueAfter: delay, Priority: &priority}
}

// providerID returns what the node has, or has been given.
func (e ending) providerID(node *corev1.Node) string {
	return cmp.Or(node.Spec.ProviderID, e.want.providerID)
}

// keysAndValues describe an initialization for the log.
func (e ending) keysAndValues(node *corev1.Node) []any {
	providerID := e.providerID(node)
	said := []any{"changes", e.plan.changes(), "providerID", providerID}
	if e.want.providerID != "" && e.want.providerID != providerID {
		said = append(said, "cloudProviderID", e.want.providerID)
	}
	if len(e.plan.kept) > 0 {
		said = append(said, "labelsOfOthers", e.plan.kept)
	}
	if len(e.want.discarded) > 0 {
		discarded := make([]string, len(e.want.discarded))
		for i, label := range e.want.discarded {
			discarded[i] = label.key + ": " + label.reason
		}
		said = append(said, "discardedLabels", discarded)
	}
	return said
}
