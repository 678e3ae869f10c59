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

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
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
	denials   denials
	// missed are nodes with neither a provider ID nor the taint, of which the cloud has instances.
	missed denials
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
		r.forget(request.Name, "the node was deleted")
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", request.Name, err)
	}
	if delay, stale := r.state.stale(node, time.Now()); stale {
		return reconcile.Result{RequeueAfter: delay}, nil
	}
	decision := r.decide(node)
	if !node.DeletionTimestamp.IsZero() || decision.Owner == ownership.Foreign {
		r.forget(node.Name, "the node is being deleted, or turned out to be foreign")
		return reconcile.Result{}, nil
	}
	r.sayFaults(node)
	if r.initializes(node) {
		r.metrics.missed.Set(float64(r.missed.forget(node.Name))) // no refresh asks for it now
		ctx = r.traces.pass(ctx, node, time.Now())
		return r.finish(ctx, node, r.initialize(ctx, node, decision)), nil
	}
	r.traces.overtaken(node)
	return r.finish(ctx, node, r.refresh(ctx, node, decision)), nil
}

// forget drops a node that no longer concerns us.
func (r *reconciler) forget(name, why string) {
	r.state.forget(name)
	r.metrics.denied.Set(float64(r.denials.forget(name)))
	r.metrics.missed.Set(float64(r.missed.forget(name)))
	r.traces.forget(name, why)
}

// initializes reports whether a node waits for its initialization. One that lost its taint to another writer does so while the answer that
// the cloud gave for it is not written.
func (r *reconciler) initializes(node *corev1.Node) bool {
	_, answered := r.state.answer(node)
	return answered || ownership.Uninitialized(node)
}

func (r *reconciler) decide(node *corev1.Node) ownership.Decision {
	return r.owners.Decide(node)
}

// initialize asks the cloud for the instance of a node that waits for its initialization, and initializes it. As with the reference, the
// plugin's word counts: it may spell the node's provider ID in another way, or answer without one.
func (r *reconciler) initialize(ctx context.Context, node *corev1.Node, decision ownership.Decision) result {
	waiting := cloud.WithNotice(ctx, func(reason string) { r.waiting(node, reason) })
	observation, err := r.lookUp(cloud.WithPriority(waiting, cloud.PriorityNewNode), node)
	if err == nil && observation.Status == instances.NotFound {
		err = &instanceNotFoundError{name: node.Name, providerID: node.Spec.ProviderID, listed: observation.Listed}
	}
	switch {
	case err != nil && decision.NamesUnknownProvider():
		note := fmt.Sprintf("%s, and the cloud provider did not answer for the node: %v", decision.Reason(), err)
		return result{kind: waits, err: err, note: note, worthKnowing: true}
	case err != nil:
		return result{kind: failed, err: err}
	case observation.Status == instances.NoStatement:
		return result{kind: waits, note: "the cloud provider says nothing about this node"}
	}
	if node = r.latest(ctx, node); node == nil {
		return result{kind: overtaken}
	}
	want, err := desireFor(node, observation, true, r.owners)
	if err != nil {
		return result{kind: failed, err: err}
	}
	planned := planFor(node, want, nil)
	ctx = dryrun.Because(ctx, "the node waits for its initialization, and the cloud has an instance for it")
	return r.writer.apply(ctx, result{kind: initialized, plan: planned, want: want, said: &observation})
}

// latest returns a node as the cache has it by now: the cloud may have taken its time, and kubelets report. A write by the version of before
// would only meet a conflict. It returns nil if the answer is not about the node that the cache has. Another writer may have taken the taint.
func (r *reconciler) latest(ctx context.Context, node *corev1.Node) *corev1.Node {
	now := &corev1.Node{} // shares what it holds with the cache: it is only read
	err := r.reader.Get(ctx, client.ObjectKeyFromObject(node), now, client.UnsafeDisableDeepCopy)
	if err != nil || now.UID != node.UID || now.Spec.ProviderID != node.Spec.ProviderID || !now.DeletionTimestamp.IsZero() ||
		r.decide(now).Owner == ownership.Foreign {
		return nil
	}
	return now
}

// lookUp asks for the instance of a node that waits for its initialization. An answer that an instance is not up has to be
// from after the node appeared: a kubelet runs there now. An answer by which a write was planned that came too late still holds.
func (r *reconciler) lookUp(ctx context.Context, node *corev1.Node) (observation instances.Observation, err error) {
	if said, holds := r.state.answer(node); holds {
		return said, nil
	}
	ctx, end := r.traces.step(ctx, spanLookUp)
	defer func() { end(err) }()
	observation, err = r.inventory.Lookup(ctx, node, r.state.answerAge(node, r.inventory.ListingTime(), time.Now()))
	if err == nil {
		r.wakeUnlisted()
	}
	if err == nil && observation.Status == instances.Found && !up(observation) {
		observation, err = r.inventory.Lookup(ctx, node, r.state.sinceReason(node, time.Now()))
	}
	if err == nil {
		answered(ctx, observation)
	}
	return observation, err
}

// wakeUnlisted has a pass made over nodes that wait after a listing failed, if there has been one since: it answers for them, too.
func (r *reconciler) wakeUnlisted() {
	for _, name := range r.state.listed(r.inventory.LastListed()) {
		r.queue.Add(types.NamespacedName{Name: name}, priorityRetry)
	}
}

// up reports whether an instance looks like one whose kubelet may run.
func up(seen instances.Observation) bool {
	return seen.State != provider.InstanceStopped && len(seen.Metadata.NodeAddresses) > 0
}

// refresh holds an initialized node to what the cloud has said of it. To ask is the refresher's part, except for a node whose
// addresses are still to be written: a cloud that is asked node by node was asked for that one before it had its provider ID.
//
// An answer is written once. Who changes the node after that meets the next answer, as with the reference, so no two writers can follow each
// other at once.
func (r *reconciler) refresh(ctx context.Context, node *corev1.Node, decision ownership.Decision) result {
	age := min(r.known, time.Since(r.led))
	observation, known := r.inventory.Peek(node, age)
	if !known && r.state.get(node).addressless {
		var err error
		if observation, err = r.inventory.Lookup(cloud.WithPriority(ctx, cloud.PriorityRefresh), node, age); err != nil {
			return result{kind: failed, err: err}
		}
	}
	if r.state.isWrittenFrom(node, observation.At) {
		observation = instances.Observation{}
	}
	planned, want, err := r.planRefresh(node, decision, observation, r.state.ours(node))
	if len(planned.unknown) > 0 {
		ours, unanswered := r.askWriters(ctx, node, planned.unknown)
		planned, want, err = r.planRefresh(node, decision, observation, ours)
		err = errors.Join(err, unanswered)
	}
	ctx = dryrun.Because(ctx, "the cloud shows the node's instance otherwise")
	ended := r.writer.apply(ctx, result{kind: refreshed, plan: planned, want: want})
	if ended.kind == refreshed && ended.wrote != "" && ended.withoutAddresses == nil {
		r.state.wroteFrom(node, observation.At)
	}
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
		want, err := desireFor(node, observation, false, r.owners)
		return planFor(node, want, ours), want, err
	case decision.Owner == ownership.Ours:
		return planFor(node, desired{}, ours), desired{}, nil
	default:
		return plan{}, desired{}, nil
	}
}

// differs reports whether a pass over an initialized node would have anything to do. Where neither the node nor the cloud has
// changed since they agreed, that is known without a plan.
func (r *reconciler) differs(node *corev1.Node, observation instances.Observation) bool {
	current := fingerprintOf(node, observation)
	if r.state.get(node).agreed == current {
		return false
	}
	left := r.left(node, observation)
	if left == 0 && (observation.Status == instances.Found || r.decide(node).Owner == ownership.Ours) { // one in doubt may yet turn out to be ours
		r.state.recordAgreement(node, current)
	}
	return left > 0
}

// left returns how much a pass over an initialized node would have to do, what it would ask or complain about included.
func (r *reconciler) left(node *corev1.Node, observation instances.Observation) (left int) {
	planned, _, err := r.planRefresh(node, r.decide(node), observation, r.state.ours(node))
	left = len(planned.writes) + len(planned.unknown)
	if err != nil {
		left++
	}
	return left
}

// refreshes reports whether a node is one that a refresh may ask for. Nodes that wait for their initialization are in the queue on their
// own account.
func (r *reconciler) refreshes(node *corev1.Node) bool {
	return node.DeletionTimestamp.IsZero() && !ownership.Uninitialized(node) && r.decide(node).Owner != ownership.Foreign
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
}

// finish draws the consequences of a pass: what is logged and counted, which event the node gets, what is remembered, and when the node
// is tried again.
func (r *reconciler) finish(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	log := logf.FromContext(ctx)
	if ended.wrote != "" {
		r.state.wrote(node, ended.wrote, time.Now())
	}
	switch ended.kind {
	case initialized:
		r.state.succeeded(node)
		r.metrics.initialized(time.Since(node.CreationTimestamp.Time))
		r.traces.initialized(ctx, node, ended.providerID(node))
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonSynced, "Node synced successfully")
		log.Info("Initialized the node", ended.keysAndValues(node)...)
		return r.resume(ctx, node, ended)
	case refreshed:
		if ended.withoutAddresses == nil {
			r.state.succeeded(node)
		}
		if ended.wrote != "" {
			log.Info("Refreshed the node", "changes", ended.plan.changes())
		}
		return r.resume(ctx, node, ended)
	case waits:
		delay, first := r.state.waited(node, ended.err, time.Now())
		if !first || !ended.worthKnowing {
			log = log.V(1)
		}
		log.Info("Left the node alone", "reason", ended.note, "retryAfter", delay)
		return retry(delay)
	case failed:
		return retry(r.warn(ctx, node, ended.err))
	case mismatched:
		r.warn(ctx, node, ended.err)
		return r.resume(ctx, node, ended)
	case overtaken:
		return r.repeat(ctx, node, ended)
	}
	return reconcile.Result{}
}

// resume has a pass made over a node of which something is left: addresses that the API server did not take.
func (r *reconciler) resume(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	if ended.withoutAddresses == nil {
		return reconcile.Result{}
	}
	r.state.lacksAddresses(node)
	return retry(r.warn(ctx, node, ended.withoutAddresses))
}

// repeat makes another pass over a node that changed concurrently, soon and silently. If that goes on, the API server refuses the writes for
// another reason, and the node fails.
func (r *reconciler) repeat(ctx context.Context, node *corev1.Node, ended result) reconcile.Result {
	if delay, worthIt := r.state.conflicted(node, ended.said); worthIt || ended.err == nil {
		logf.FromContext(ctx).V(1).Info("The node changed while it was being written; looking at it again")
		return reconcile.Result{RequeueAfter: delay}
	}
	return retry(r.warn(ctx, node, ended.err))
}

// warn counts and remembers a failure. It returns the pause before the next try.
func (r *reconciler) warn(ctx context.Context, node *corev1.Node, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // the process is stopping, which is not a failure
	}
	reason, _ := reasonOf(err)
	now := time.Now()
	delay := r.state.failed(node, err, now)
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.traces.failed(node, reason, err)
	logf.FromContext(ctx).V(1).Info("Could not bring the node in line with the cloud", "reason", reason, "retryAfter", delay, "error", err.Error())
	since, begins := r.state.fails(node, reason, now)
	say := func() { r.say(ctx, node, reason, err) }
	switch {
	case begins:
		time.AfterFunc(warningDelay, func() {
			if ctx.Err() == nil && r.state.stillFails(node, reason, since) {
				say()
			}
		})
	case now.Sub(since) >= warningDelay:
		say()
	}
	return delay
}

// say gives a node the event of a failure, unless it got one for the same reason a short while ago: a cloud that is down fails for all nodes,
// again and again.
func (r *reconciler) say(ctx context.Context, node *corev1.Node, reason string, err error) {
	if r.events.Record(r.recorder, node, corev1.EventTypeWarning, reason, messageOf(node, err)) {
		logf.FromContext(ctx).Error(err, "Could not bring the node in line with the cloud", "reason", reason)
	}
}

// sayFaults says by an event which annotations of ours have no effect: a mistyped one would be ignored silently.
func (r *reconciler) sayFaults(node *corev1.Node) {
	if faults := names.AnnotationFaults("Node", node.Annotations); len(faults) > 0 {
		r.events.Record(r.recorder, node, corev1.EventTypeWarning, ReasonInvalidAnnotation, strings.Join(faults, "; "))
	}
}

// waiting says by an event what the call for a node's instance waits for.
func (r *reconciler) waiting(node *corev1.Node, reason string) {
	r.events.Record(r.recorder, node, corev1.EventTypeNormal, ReasonWaitingForCloud, "Waiting to ask the cloud for the node's instance: "+reason)
}

// retry puts a node that had its turn behind nodes that still wait for theirs.
func retry(delay time.Duration) reconcile.Result {
	priority := priorityRetry
	return reconcile.Result{RequeueAfter: delay, Priority: &priority}
}

// providerID returns what the node has, or has been given.
func (r result) providerID(node *corev1.Node) string {
	return cmp.Or(node.Spec.ProviderID, r.want.providerID)
}

// maxDiscardedShown is how many of the labels that no node gets a log line names.
const maxDiscardedShown = 20

// keysAndValues describe an initialization for the log.
func (r result) keysAndValues(node *corev1.Node) []any {
	providerID := r.providerID(node)
	said := []any{"changes", r.plan.changes(), "providerID", providerID}
	if r.want.providerID != "" && r.want.providerID != providerID {
		said = append(said, "cloudProviderID", r.want.providerID)
	}
	if len(r.plan.kept) > 0 {
		said = append(said, "labelsOfOthers", r.plan.kept)
	}
	if len(r.want.discarded) > 0 {
		discarded := make([]string, min(len(r.want.discarded), maxDiscardedShown))
		for i := range discarded {
			label := r.want.discarded[i]
			discarded[i] = message.Line(label.key, maxShown) + ": " + label.reason
		}
		said = append(said, "discardedLabels", discarded)
	}
	return said
}
