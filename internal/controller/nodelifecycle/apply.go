package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/instances"
)

const (
	// fieldManager names us in the managed fields of nodes.
	fieldManager = Name
	// writeTimeout is the deadline of one write to the API server.
	writeTimeout = 30 * time.Second
)

// result is what became of one action.
type result struct {
	action  action
	outcome kit.WriteOutcome
	// resourceVersion is that of the node after a write, empty after a deletion.
	resourceVersion string
	// err says why an action was refused or is uncertain.
	err error
}

// writer carries plans out.
type writer struct {
	client   client.Client
	recorder record.EventRecorder
	// told holds back what a node was told a short while ago.
	told     *kit.EventLimiter
	settings Settings
	journal  string
	workers  int
}

// apply carries out a plan, several actions at a time, but none before all of an earlier kind are done. Deletions that have
// not begun by the deadline are not begun. The results are in the order of the actions.
func (w writer) apply(ctx context.Context, actions []action, deadline time.Time) []result {
	results := make([]result, 0, len(actions))
	for phase := range phases(actions) {
		done := make([]result, len(phase))
		var group errgroup.Group
		group.SetLimit(w.workers)
		for i, action := range phase {
			group.Go(func() error {
				done[i] = w.carryOut(ctx, action, deadline)
				return nil
			})
		}
		_ = group.Wait() // each result holds its error
		results = append(results, done...)
	}
	return results
}

// phases parts actions into runs of one kind.
func phases(actions []action) iter.Seq[[]action] {
	return func(yield func([]action) bool) {
		for len(actions) > 0 {
			end := slices.IndexFunc(actions, func(a action) bool { return a.kind != actions[0].kind })
			if end < 0 {
				end = len(actions)
			}
			if !yield(actions[:end]) {
				return
			}
			actions = actions[end:]
		}
	}
}

func (w writer) carryOut(ctx context.Context, action action, deadline time.Time) result {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ctx = dryrun.Because(ctx, why(action))
	var err error
	done := result{action: action}
	switch action.kind {
	case deleteNode:
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		if ctx.Err() != nil {
			done.outcome = kit.NotTried
			return done
		}
		err = w.delete(ctx, action)
	default:
		done.resourceVersion, err = w.patch(ctx, action)
	}
	done.outcome = kit.OutcomeOf(err)
	if done.outcome.Failed() {
		done.err = fmt.Errorf("%s of node %q: %w", action.kind, action.node.name, err)
	}
	w.tell(done)
	return done
}

// delete deletes the very node that was judged: not another one of its name, and not one that has changed since, which may
// have become ready.
func (w writer) delete(ctx context.Context, action action) error {
	node := action.node
	if w.told.Allow(node.uid, ReasonDeleting, time.Now()) {
		w.recorder.Event(object(node), corev1.EventTypeNormal, ReasonDeleting, deletingMessage(node, action.cause))
	}
	return w.client.Delete(ctx, object(node), client.Preconditions{UID: &node.uid, ResourceVersion: &node.resourceVersion})
}

// patch writes a taint or a condition, and returns the node's new version. A node that is not known to be ours is only told
// by an event that it is held.
func (w writer) patch(ctx context.Context, action action) (string, error) {
	node := object(action.node)
	var encoded []byte
	var err error
	kind, status := types.StrategicMergePatchType, true
	switch action.kind {
	case markHeld:
		if action.node.standing != ours {
			return "", nil
		}
		message := heldMessage(action.node, action.reason, w.settings, w.journal)
		encoded, err = withCondition(action.node, action.reason, message, action.since, time.Now())
	case clearHeld:
		encoded, err = withoutCondition(action.node)
	default:
		kind, status = types.JSONPatchType, false
		encoded, err = taintPatch(action.node, action.kind == addTaint)
	}
	if err != nil {
		return "", fmt.Errorf("encoding the patch: %w", err)
	}
	if patch := client.RawPatch(kind, encoded); status {
		err = w.client.Status().Patch(ctx, node, patch, client.FieldOwner(fieldManager))
	} else {
		err = w.client.Patch(ctx, node, patch, client.FieldOwner(fieldManager))
	}
	return node.ResourceVersion, err
}

// tell says on the node what was done, or could not be.
func (w writer) tell(done result) {
	node := done.action.node
	switch {
	case errors.Is(done.err, context.Canceled): // we are being stopped, which is nobody's failure
	case done.action.kind == deleteNode && done.err != nil:
		if w.told.Allow(node.uid, ReasonDeletingFailed, time.Now()) {
			w.recorder.Event(object(node), corev1.EventTypeWarning, ReasonDeletingFailed,
				kit.EventMessage(fmt.Sprintf("Could not delete node %s: %v", node.name, done.err)))
		}
	case done.action.kind == markHeld && done.outcome == kit.Written:
		if w.told.Allow(node.uid, ReasonHeld+" "+string(done.action.reason), time.Now()) {
			w.recorder.Event(object(node), corev1.EventTypeWarning, ReasonHeld,
				kit.EventMessage(string(done.action.reason)+": "+heldMessage(node, done.action.reason, w.settings, w.journal)))
		}
	}
}

// tellUnanswered says on nodes that the cloud returned errors for them.
func (w writer) tellUnanswered(unanswered []instances.Answer) {
	for _, answer := range unanswered {
		node := answer.Node
		if w.told.Allow(node.UID, ReasonCloudError, time.Now()) {
			w.recorder.Event(node, corev1.EventTypeWarning, ReasonCloudError, kit.EventMessage(unansweredMessage(node.Name, answer.Err)))
		}
	}
}

// tellWaiting says on nodes that the question whether their instances exist waits to be asked, and for what.
func (w writer) tellWaiting(nodes []*corev1.Node, reason string) {
	for _, node := range nodes {
		if w.told.Allow(node.UID, ReasonWaitingForCloud, time.Now()) {
			w.recorder.Event(node, corev1.EventTypeNormal, ReasonWaitingForCloud,
				kit.EventMessage("Waiting to ask the cloud whether the node's instance exists: "+reason))
		}
	}
}

// object returns as much of a node as a client and a recorder need.
func object(node facts) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.name, UID: node.uid}}
}
