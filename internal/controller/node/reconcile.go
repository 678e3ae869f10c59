package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// reconciler makes one pass over a node: it observes, lets desired.go and plan.go decide, and has the plan carried out.
type reconciler struct {
	reader client.Reader
	live   client.Reader // reads from the API server; nil: the writer of a label cannot be found out
	// managers are the field managers that decide for the cloud: this one, and the ones that it takes over from.
	managers  map[string]bool
	writer    writer
	recorder  record.EventRecorder
	inventory *instances.Inventory
	owners    ownership.Rules
	state     *state
	// events bounds how often a node gets an event for the same reason.
	events  kit.EventLimiter
	metrics *metrics
	traces  *traces
	queue   kit.Enqueuer
	// known is how old an answer may be by which an initialized node is held to what the cloud said.
	known time.Duration
	// led is when this process began to lead. What a standby knew before may be older than what the last leader wrote.
	led time.Time
	// leads says that it does, to the handlers of the watch.
	leads atomic.Bool
}

// Reconcile makes one pass over the node of a name. It only returns an error that has to do with neither the node nor the
// cloud; finish turns all others into an event of the node and a retry.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{} // shares what it holds with the cache: it is only read
	if err := r.reader.Get(ctx, request.NamespacedName, node, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // the watch says so, too, and with its UID
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", request.Name, err)
	}
	known, over, pause := r.state.begin(node, time.Now())
	if over {
		return reconcile.Result{RequeueAfter: pause}, nil
	}
	decision := r.owners.Decide(node)
	waits := known.said != nil || ownership.Uninitialized(node) // another writer may have taken the taint
	if !node.DeletionTimestamp.IsZero() || decision.Owner == ownership.Foreign {
		r.forget(node.UID, "the node is being deleted, or turned out to be foreign")
		return reconcile.Result{}, nil
	}
	if faults := names.AnnotationFaults("Node", node.Annotations); len(faults) > 0 {
		r.sayFaults(node, faults)
	}
	if waits {
		ctx = r.traces.pass(ctx, node, time.Now())
		return r.finish(ctx, node, r.initialize(ctx, node, known, decision)), nil
	}
	r.traces.overtaken(node)
	return r.finish(ctx, node, r.refresh(ctx, node, known, decision)), nil
}

// forget drops a node that no longer concerns us.
func (r *reconciler) forget(uid types.UID, why string) {
	r.state.forget(uid)
	r.traces.forget(uid, why)
}

// initialize asks the cloud for the instance of a node that waits for its initialization, and initializes it. As with the reference, the
// plugin's word counts: it may spell the node's provider ID in another way, or answer without one.
func (r *reconciler) initialize(ctx context.Context, node *corev1.Node, known row, decision ownership.Decision) result {
	observation, err := r.lookUp(ctx, node, known)
	if err == nil && observation.Status == instances.NotFound {
		err = &instanceNotFoundError{name: node.Name, providerID: node.Spec.ProviderID, listed: observation.Listed}
	}
	switch {
	case err != nil && decision.NamesUnknownProvider():
		note := fmt.Sprintf("%s, and the cloud provider did not answer for the node: %v", decision.Reason(), err)
		return result{kind: waits, err: err, note: note, worthKnowing: true, sought: observation.At}
	case err != nil:
		return result{kind: failed, err: err, sought: observation.At}
	case observation.Status == instances.NoStatement:
		return result{kind: waits, note: "the cloud provider says nothing about this node", sought: observation.At}
	}
	if node = r.latest(ctx, node); node == nil {
		return result{kind: overtaken}
	}
	want, err := desireFor(node, &observation.Metadata, observation.Answered, true, r.owners)
	if err != nil {
		return result{kind: failed, err: err}
	}
	planned := planFor(node, want, nil)
	ctx = dryrun.Because(ctx, "the node waits for its initialization, and the cloud has an instance for it")
	return r.writer.apply(ctx, result{kind: initialized, plan: planned, want: want, said: &observation, sought: observation.At})
}

// latest returns a node as the cache has it by now: the cloud may have taken its time, and kubelets report. A write by the version of before
// would only meet a conflict. It returns nil if the answer is not about the node that the cache has. Another writer may have taken the taint.
func (r *reconciler) latest(ctx context.Context, node *corev1.Node) *corev1.Node {
	now := &corev1.Node{} // shares what it holds with the cache: it is only read
	err := r.reader.Get(ctx, client.ObjectKeyFromObject(node), now, client.UnsafeDisableDeepCopy)
	switch {
	case err == nil && now.UID == node.UID && now.ResourceVersion == node.ResourceVersion:
		return node
	case err != nil || now.UID != node.UID || now.Spec.ProviderID != node.Spec.ProviderID || !now.DeletionTimestamp.IsZero() ||
		r.owners.Decide(now).Owner == ownership.Foreign:
		return nil
	}
	return now
}

// lookUp asks for the instance of a node that waits for its initialization. An answer that an instance is not up has to be
// from after the node appeared: a kubelet runs there now. An answer by which a write was planned that came too late still holds.
func (r *reconciler) lookUp(ctx context.Context, node *corev1.Node, known row) (observation instances.Observation, err error) {
	if known.said != nil {
		return *known.said, nil
	}
	ctx, end := r.traces.step(ctx, spanLookUp)
	defer func() { end(&observation, err) }()
	ctx = admission.WithPriority(ctx, admission.PriorityNewNode, func(reason string) { r.waiting(node, reason) })
	observation, err = r.inventory.Lookup(ctx, node, known.answerAge(node, r.inventory.ListingTime, time.Now()))
	if err == nil && observation.Status == instances.Found && (observation.State == provider.InstanceStopped || len(observation.Metadata.NodeAddresses) == 0) {
		return r.inventory.Lookup(ctx, node, known.sinceReason(time.Now()))
	}
	return observation, err
}

// refresh holds an initialized node to what the cloud has said of it. To ask is the refresher's part, except for a node whose
// addresses are still to be written: a cloud that is asked node by node was asked for that one before it had its provider ID.
//
// An answer is written once. Who changes the node after that meets the next answer, as with the reference, so no two writers can follow each
// other at once.
func (r *reconciler) refresh(ctx context.Context, node *corev1.Node, known row, decision ownership.Decision) result {
	age := min(r.known, time.Since(r.led))
	observation, peeked := r.inventory.Peek(node, age)
	if !peeked && known.addressless {
		var err error
		if observation, err = r.inventory.Lookup(admission.WithPriority(ctx, admission.PriorityRefresh), node, age); err != nil {
			return result{kind: failed, err: err}
		}
	}
	if !known.writtenFrom.IsZero() && !known.writtenFrom.Before(observation.At) {
		observation = instances.Observation{} // what differs from it since, others have written
	}
	ends, ours := result{kind: refreshed, sought: observation.At}, known.ours(node)
	planned, want, err := r.planRefresh(node, decision, observation, ours)
	if len(planned.unknown) > 0 {
		var unanswered error
		ours, ends.others, unanswered = r.askWriters(ctx, node, planned.unknown, ours, known.others)
		planned, want, err = r.planRefresh(node, decision, observation, ours)
		err = errors.Join(err, unanswered)
	}
	ends.plan, ends.want = planned, want
	ctx = dryrun.Because(ctx, "the cloud shows the node's instance otherwise")
	ended := r.writer.apply(ctx, ends)
	if ended.kind == refreshed && err != nil {
		ended.kind, ended.err = mismatched, err
	}
	return ended
}

// planRefresh decides about an initialized node. With an error the plan still holds. A node that may be another manager's is left alone until the
// plugin answers for it.
func (r *reconciler) planRefresh(
	node *corev1.Node, decision ownership.Decision, observation instances.Observation, ours map[string]bool,
) (plan, desired, error) {
	switch {
	case observation.Status == instances.Found && decision.ProvenBy(observation.Answered):
		want, err := desireFor(node, &observation.Metadata, observation.Answered, false, r.owners)
		return planFor(node, want, ours), want, err
	case decision.Owner == ownership.Ours:
		return planFor(node, desired{}, ours), desired{}, nil
	default:
		return plan{}, desired{}, nil
	}
}

// differs reports whether a pass over an initialized node would have anything to do, and has the next one look.
func (r *reconciler) differs(node *corev1.Node, decision ownership.Decision, observation instances.Observation) bool {
	differs := r.left(node, decision, observation) > 0
	r.state.edit(node, false, func(known *row) {
		known.settled, known.again = known.settled && !differs, known.again || known.passing && differs
		if !known.passing && !known.own.Hides(node.ResourceVersion, time.Now()) {
			known.own, known.settled = kit.OwnWrite{}, false // the cache has caught up
		}
	})
	return differs
}

// left returns how much a pass over an initialized node would have to do, what it would ask or complain about included.
func (r *reconciler) left(node *corev1.Node, decision ownership.Decision, observation instances.Observation) (left int) {
	planned, _, err := r.planRefresh(node, decision, observation, r.state.get(node.UID).ours(node))
	left = len(planned.writes) + len(planned.unknown)
	if err != nil {
		left++
	}
	return left
}

// noteAnswer takes in what the cloud said of an initialized node. It tells the node what nothing mends, once it lasts: that the cloud denies its
// instance although its kubelet reports, because a machine was made again under the name of the node or the cloud is wrong; or has one although the
// node was never initialized.
func (r *reconciler) noteAnswer(ctx context.Context, node *corev1.Node, decision ownership.Decision, observation instances.Observation) {
	denied := observation.Status == instances.NotFound && ownership.Ready(node) && decision.Owner == ownership.Ours
	missed := observation.Status == instances.Found && decision.Owner == ownership.Unproven && !decision.ProvenBy(observation.Answered)
	denied, missed = r.state.noteAnswer(node, denied, missed, time.Now())
	if denied {
		r.say(ctx, node, ReasonInstanceNotFound,
			&instanceNotFoundError{name: node.Name, providerID: node.Spec.ProviderID, listed: observation.Listed, reports: true})
	}
	if missed {
		r.say(ctx, node, ReasonNeverInitialized, errNeverInitialized)
	}
}

// refreshes reports whether a node is one that a refresh may ask for. Nodes that wait for their initialization are in the queue on their
// own account.
func (r *reconciler) refreshes(node *corev1.Node, decision ownership.Decision) bool {
	return node.DeletionTimestamp.IsZero() && !ownership.Uninitialized(node) && decision.Owner != ownership.Foreign
}

// resultKind is how a pass over a node ended.
type resultKind int

const (
	// The zero value is none of them.
	_ resultKind = iota
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
	// overtaken passes met a node that another writer had changed or deleted. They are repeated.
	overtaken
)

// result is how a pass over a node ended, and with what.
type result struct {
	kind resultKind
	// err is why the pass failed, or what the node mismatches by.
	err error
	// note is why the node waits; worthKnowing if an operator should see that once. Then err is why, and else there was no failure.
	note         string
	worthKnowing bool
	// withoutAddresses says why the API server did not take the addresses of a node that is otherwise as decided.
	withoutAddresses error
	// plan and want are what was decided, and said is the answer of the cloud by which.
	plan plan
	want desired
	said *instances.Observation
	// wrote is the resource version of our last write, empty if there was none.
	wrote string
	// othersWrote says that the node is not as planned after it: others have changed it since it was read.
	othersWrote bool
	// sought is when the answer was sought by which the pass was made, zero without one.
	sought time.Time
	// others are the values of labels that others wrote, if they were asked for.
	others map[string]string
}

// finish draws the consequences of a pass: what is remembered, what is logged and counted, which event the node gets, and when the node
// is tried again.
func (r *reconciler) finish(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	if ended.err != nil && ctx.Err() != nil {
		return reconcile.Result{} // the process is stopping, which is not a failure
	}
	log, follows := logf.FromContext(ctx), r.state.ended(node, ended, time.Now())
	switch ended.kind {
	case initialized:
		delay := time.Since(node.CreationTimestamp.Time).Seconds()
		r.metrics.taintRemovalDelay.Observe(delay)
		r.metrics.initialSyncDelay.Observe(delay)
		r.traces.initialized(ctx, node, cmp.Or(node.Spec.ProviderID, ended.want.providerID))
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonSynced, "Node synced successfully")
		log.Info("Initialized the node", ended.plan.keysAndValues(ended.want)...)
	case refreshed:
		if ended.wrote != "" {
			log.Info("Refreshed the node", "changes", ended.plan.changes())
		}
	case waits:
		if !follows.first || !ended.worthKnowing {
			log = log.V(1)
		}
		log.Info("Left the node alone", "reason", ended.note, "retryAfter", follows.pause)
	case overtaken:
		if follows.failure == nil {
			log.V(1).Info("The node changed while it was being written; looking at it again")
			return reconcile.Result{RequeueAfter: follows.pause}
		}
	case failed, mismatched:
	}
	if follows.failure != nil {
		r.warn(ctx, node, follows)
	}
	if follows.pause == 0 {
		return reconcile.Result{}
	}
	priority := priorityRetry // behind nodes that still wait for their turn
	return reconcile.Result{RequeueAfter: follows.pause, Priority: &priority}
}

// warn counts a failure, and says it once it lasts.
func (r *reconciler) warn(ctx context.Context, node *corev1.Node, follows next) {
	reason, _ := reasonOf(follows.failure)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.traces.failed(node, reason, follows.failure)
	logf.FromContext(ctx).V(1).Info("Could not bring the node in line with the cloud",
		"reason", reason, "retryAfter", follows.pause, "error", follows.failure.Error())
	switch {
	case follows.lasts >= minAnswerAge:
		r.say(ctx, node, reason, follows.failure)
	case follows.lasts == 0:
		time.AfterFunc(minAnswerAge, func() {
			if ctx.Err() == nil && r.state.stillFails(node, follows.since, reason) {
				r.say(ctx, node, reason, follows.failure)
			}
		})
	}
}

// say gives a node the event of a failure, unless it got one for the same reason a short while ago: a cloud that is down fails for all nodes,
// again and again.
func (r *reconciler) say(ctx context.Context, node *corev1.Node, reason string, err error) {
	if r.events.Record(r.recorder, node, corev1.EventTypeWarning, reason, messageOf(node, err)) {
		logf.FromContext(ctx).Error(err, "Could not bring the node in line with the cloud", "reason", reason)
	}
}

// sayFaults says by an event which annotations of ours have no effect: a mistyped one would be ignored silently.
func (r *reconciler) sayFaults(node *corev1.Node, faults []string) {
	r.events.Record(r.recorder, node, corev1.EventTypeWarning, ReasonInvalidAnnotation, strings.Join(faults, "; "))
}

// waiting says by an event what the call for a node's instance waits for.
func (r *reconciler) waiting(node *corev1.Node, reason string) {
	r.events.Record(r.recorder, node, corev1.EventTypeNormal, ReasonWaitingForCloud, "Waiting to ask the cloud for the node's instance: "+reason)
}
