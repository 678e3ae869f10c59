package nodelifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/kit/jsonpatch"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/nodeview"
)

// fieldManager names us in the managed fields of nodes.
const fieldManager = Name

// result is what became of one action.
type result struct {
	action action
	// planned is when that was decided.
	planned time.Time
	outcome kit.WriteOutcome
	// resourceVersion is the resource version of the node after a write, empty after a deletion.
	resourceVersion string
	// err says why an action was refused or is uncertain.
	err error
}

// writer carries out single actions.
type writer struct {
	client   client.Client
	recorder record.EventRecorder
	// limiter holds back events that a node has had a short while ago.
	limiter     *kit.EventLimiter
	settings    Settings
	deletionLog string
	// limit is how many nodes are written to at once.
	limit int
}

// writes carries plans out. A write outlives the pass that planned it, so no other node waits for one that hangs.
type writes struct {
	writer
	running sync.WaitGroup

	mu sync.Mutex
	// busy are the nodes that are written to, or will be, or whose results are in done.
	busy map[types.UID]bool
	done []result
}

func newWrites(writer writer) *writes { return &writes{writer: writer, busy: map[types.UID]bool{}} }

// apply carries out a plan, as many nodes at a time as the limit allows, in the order of their first actions. It returns the results that there
// are, of earlier plans too, when all is done or AnswerWait is over.
func (w *writes) apply(ctx context.Context, actions []action, planned time.Time) []result {
	var nodes [][]action
	at := map[types.UID]int{}
	for _, action := range actions {
		i, known := at[action.node.uid]
		if !known {
			i, at[action.node.uid] = len(nodes), len(nodes)
			nodes = append(nodes, nil)
		}
		nodes[i] = append(nodes[i], action)
	}
	w.mu.Lock()
	for node := range at {
		w.busy[node] = true
	}
	w.mu.Unlock()
	over := make(chan struct{})
	w.running.Go(func() {
		defer close(over)
		workqueue.ParallelizeUntil(context.WithoutCancel(ctx), w.limit, len(nodes), func(i int) { w.work(ctx, nodes[i], planned) })
	})
	select {
	case <-over:
	case <-time.After(instances.AnswerWait):
	}
	return w.collect()
}

// work carries out the actions about a node, in order.
func (w *writes) work(ctx context.Context, actions []action, planned time.Time) {
	var results []result
	own := "" // the version that the last write of these made: it was judged before
	for _, action := range actions {
		action.node.resourceVersion = cmp.Or(own, action.node.resourceVersion)
		done := w.carryOut(ctx, action, planned)
		own = cmp.Or(done.resourceVersion, own)
		results = append(results, done)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, results...)
}

// collect returns the results since the last call.
func (w *writes) collect() []result {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.done
	w.done = nil
	for _, result := range done {
		delete(w.busy, result.action.node.uid)
	}
	return done
}

// underWay reports whether a node is being written to, or its results have not been collected.
func (w *writes) underWay(node types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy[node]
}

// carryOut carries out one action. Deletions that have not begun by their time are not begun.
func (w writer) carryOut(ctx context.Context, action action, planned time.Time) result {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	ctx = dryrun.Because(ctx, why(action))
	var err error
	done := result{action: action, planned: planned}
	if action.kind == deleteNode {
		ctx, cancel := context.WithDeadline(ctx, planned.Add(w.settings.applyTime()))
		defer cancel()
		if ctx.Err() != nil {
			done.outcome = kit.NotTried
			return done
		}
		err = w.delete(ctx, action)
	} else {
		done.resourceVersion, err = w.patch(ctx, action)
	}
	done.outcome = kit.OutcomeOf(err)
	if done.outcome.Failed() {
		done.err = fmt.Errorf("%s of node %q: %w", action.kind, action.node.name, err)
	}
	w.recordOutcome(done)
	return done
}

// delete deletes the very node that was decided about: not another one of its name, and not one that has changed since, which may
// have become ready.
//
// See ADR 23.
func (w writer) delete(ctx context.Context, action action) error {
	node := action.node
	w.limiter.Record(w.recorder, object(node), corev1.EventTypeNormal, ReasonDeleting, deletingMessage(node, action.cause))
	return w.client.Delete(ctx, object(node), client.Preconditions{UID: &node.uid, ResourceVersion: &node.resourceVersion})
}

// patch writes a taint or a condition, and returns the node's new version. That a node is held which is not known
// to be ours, only an event says.
func (w writer) patch(ctx context.Context, action action) (string, error) {
	node := object(action.node)
	var patch client.Patch
	switch action.kind {
	case markHeld:
		if action.node.owner != ours {
			return "", nil
		}
		patch = withCondition(action.node, action.reason, heldMessage(action.node, action.reason, w.settings, w.deletionLog), action.since, time.Now())
	case clearHeld:
		patch = conditionPatch(action.node, map[string]any{"$patch": "delete"})
	default:
		err := w.client.Patch(ctx, node, taintPatch(action.node, action.kind == addTaint), client.FieldOwner(fieldManager))
		return node.ResourceVersion, err
	}
	err := w.client.Status().Patch(ctx, node, patch, client.FieldOwner(fieldManager))
	return node.ResourceVersion, err
}

// recordOutcome says on the node what was done, or could not be.
func (w writer) recordOutcome(done result) {
	node := done.action.node
	switch {
	case errors.Is(done.err, context.Canceled): // we are being stopped, which is no failure
	case done.action.kind == deleteNode && done.err != nil:
		w.limiter.Record(w.recorder, object(node), corev1.EventTypeWarning, ReasonDeletingFailed,
			fmt.Sprintf("Could not delete node %s: %v", node.name, done.err))
	case done.action.kind == markHeld && done.outcome == kit.Written && w.limiter.Allow(node.uid, ReasonHeld+" "+string(done.action.reason), time.Now()):
		w.recorder.Event(object(node), corev1.EventTypeWarning, ReasonHeld,
			kit.EventMessage(string(done.action.reason)+": "+heldMessage(node, done.action.reason, w.settings, w.deletionLog)))
	}
}

// recordUnanswered says on nodes that the cloud returned errors for them.
func (w writer) recordUnanswered(unanswered []nodeview.Row) {
	for _, answer := range unanswered {
		w.limiter.Record(w.recorder, answer.Node, corev1.EventTypeWarning, ReasonCloudError, unansweredMessage(answer.Node.Name, answer.Err))
	}
}

// recordWaiting says on nodes that the question whether their instances exist waits to be asked, and for what. Of nodes that wait for their
// initialization the node controller says so.
func (w writer) recordWaiting(nodes []*corev1.Node, reason string) {
	for _, node := range nodes {
		if !ownership.Uninitialized(node) {
			w.limiter.Record(w.recorder, node, corev1.EventTypeNormal, ReasonWaitingForCloud,
				"Waiting to ask the cloud whether the node's instance exists: "+reason)
		}
	}
}

// object returns as much of a node as a client and a recorder need.
func object(node facts) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.name, UID: node.uid}}
}

// taintPatch returns a JSON patch that puts the shutdown taint on a node, or takes it off. It tests the node's identity and
// all of its taints, so another writer's taint is never lost. A node that has changed since it was judged may be ready, and gets no taint.
func taintPatch(node facts, wanted bool) jsonpatch.Patch {
	taints := slices.DeleteFunc(slices.Clone(node.taints), isShutdownTaint)
	if !wanted {
		return jsonpatch.Replace(node.uid, "/spec/taints", node.taints, taints)
	}
	judged := jsonpatch.Operation{Op: "test", Path: "/metadata/resourceVersion", Value: node.resourceVersion}
	return append(jsonpatch.Patch{judged}, jsonpatch.Replace(node.uid, "/spec/taints", node.taints, append(taints, shutdownTaint()))...)
}

// withCondition returns the patch that makes a node show why it is held. The condition's transition is when the cloud first
// denied the instance; a new reason leaves it as it was.
func withCondition(node facts, reason HoldReason, message string, since, now time.Time) client.Patch {
	condition := map[string]any{
		"status": corev1.ConditionTrue, "reason": reason, "message": message, "lastHeartbeatTime": metav1.NewTime(now),
	}
	if node.heldFor == "" {
		condition["lastTransitionTime"] = metav1.NewTime(since)
	}
	return conditionPatch(node, condition)
}

// conditionPatch takes effect only on the very node that was planned for.
func conditionPatch(node facts, condition map[string]any) client.Patch {
	condition["type"] = ConditionInstanceGone
	return kit.ConditionPatch{Metadata: map[string]any{"resourceVersion": node.resourceVersion}, Condition: condition}
}

// The reasons of the events on a Node.
const (
	// ReasonDeleting says that the node is being deleted. It is the reference's event, of type Normal.
	ReasonDeleting = "DeletingNode"
	// ReasonDeletingFailed says that the node could not be deleted. It is the reference's event, a warning.
	ReasonDeletingFailed = "DeletingNodeFailed"
	// ReasonHeld says that the node is kept although the cloud denies its instance. It is a warning.
	ReasonHeld = "NodeDeletionHeld"
	// ReasonWaitingForCloud says that the question whether the node's instance exists waits to be asked, and for what.
	ReasonWaitingForCloud = "WaitingForCloud"
	// ReasonCloudError says that the cloud does not answer for a node that is not ready. It is a warning.
	ReasonCloudError = "CloudError"
)

// unansweredMessage says that nothing is done about a node, and why.
func unansweredMessage(node string, err error) string {
	return fmt.Sprintf("Could not learn from the cloud whether the instance of node %s exists and runs. Mooring neither deletes nor "+
		"taints the node until it answers: %v", node, err)
}

// deletingMessage says why a node is deleted.
func deletingMessage(node facts, cause cause) string {
	message := fmt.Sprintf("Deleting node %s: the cloud has no instance for it%s", node.name, lookedFor(node))
	switch cause {
	case causeAnnounced:
		return message + "; its removal was announced"
	case causeAcknowledged:
		return message + ", as confirmed by the annotation " + AnnotationConfirmDeletion
	default:
		return message
	}
}

// why says in words what makes an action necessary.
func why(action action) string {
	switch action.kind {
	case deleteNode:
		return deletingMessage(action.node, action.cause)
	case markHeld:
		return kinds[markHeld].why + ": " + string(action.reason)
	default:
		return kinds[action.kind].why
	}
}

func lookedFor(node facts) string {
	if node.providerID == "" {
		return " under its name"
	}
	return fmt.Sprintf(" under its provider ID %q", node.providerID)
}

// heldMessage says why a node is kept, what will change that, and what an operator can do. It says nothing that changes from
// pass to pass, or else the condition would have to be written each time.
func heldMessage(node facts, reason HoldReason, settings Settings, deletionLog string) string {
	why := map[HoldReason]string{
		HoldEveryInstanceGone: "But it knows the instance of no other node that it was asked for either: check the credentials, the " +
			"account and the region. The node stays until the cloud knows an instance again",
		HoldRunningNodesDenied: "But it also denies instances of nodes that are ready: check the credentials, the account and the region. " +
			"The node stays until the cloud knows them again",
		HoldLimitReached: fmt.Sprintf("But as many nodes as --node-deletion-limit=%s allows were deleted within %s. "+
			"The node stays until deletions are allowed again", settings.Limit, settings.Window),
		HoldHistoryUnknown: fmt.Sprintf("But the record of deletions, the Lease %s, could not be read or written, so it is unknown "+
			"whether --node-deletion-limit allows this one. The log says what is wrong: check the rights on that Lease. The node stays until then", deletionLog),
		HoldKubeletReports: "But its kubelet still reports, though not as ready: the machine runs. Find it in the cloud's console. " +
			"The node stays until its kubelet falls silent or the cloud knows the instance again",
	}[reason]
	return fmt.Sprintf("The cloud says that it has no instance for this node%s. %s. If the instance is gone for good, confirm it: "+
		"kubectl annotate node %s %s=%s", lookedFor(node), why, node.name, AnnotationConfirmDeletion, node.uid)
}
