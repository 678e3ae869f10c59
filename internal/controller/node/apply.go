package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// fieldManager names us in the managed fields of nodes.
const fieldManager = "cloud-node-controller"

// writer carries plans out.
type writer struct {
	client client.Client
	traces *traces
	// whole reports whether a node is known with all that the API server has of it, so it may be written back whole. Nil: none is.
	whole func(*corev1.Node) bool
	// denied is set once the API server has said that we may not update nodes.
	denied *atomic.Bool
}

func newWriter(options Options, traces *traces) writer {
	return writer{client: options.Client, traces: traces, whole: options.Whole, denied: &atomic.Bool{}}
}

// apply carries out the plan of a pass, one action after the other, and stops at the first that does not take effect. Only that the API
// server refuses the addresses stops nothing: a node without them can run pods, one that keeps its taint cannot. It gets how the pass ends if all
// takes effect, and returns how it has ended.
//
// See ADR 13.
func (w writer) apply(ctx context.Context, node *corev1.Node, ends result) result {
	known := w.versionOf(node)
	for _, action := range ends.plan.actions {
		stepping, span := w.traces.start(ctx, spanOf(action.target))
		var version string
		var err error
		version, known, err = w.write(stepping, action, known)
		endStep(span, err)
		if err == nil {
			ends.wrote = version
			continue
		}
		refused := kit.WriteError(fmt.Errorf("writing the %s of the node: %w", action.target, err))
		switch {
		case action.target == targetAddresses && kit.RefusedForGood(err):
			ends.withoutAddresses = &writeError{err: refused, addressesOnly: true}
		case kit.OutcomeOf(err) == kit.Outdated:
			return result{kind: overtaken, wrote: ends.wrote, said: ends.said, err: &writeError{err: fmt.Errorf("%w: %w", errAlwaysTooLate, refused)}}
		default:
			return result{kind: failed, wrote: ends.wrote, err: &writeError{err: refused}}
		}
	}
	return ends
}

// versionOf returns the resource version in which the whole of a node is known, empty if it is not.
func (w writer) versionOf(node *corev1.Node) string {
	if w.whole == nil || w.denied.Load() || !w.whole(node) {
		return ""
	}
	return node.ResourceVersion
}

// write carries out one action: by an update if the node is known in the version that it has, else by the guarded patch. It returns the version
// of the node after it, and the same if the node is still known in that one.
func (w writer) write(ctx context.Context, action action, known string) (version, stillKnown string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	if known != "" {
		after := action.after.DeepCopy()
		after.ResourceVersion = known
		err := w.update(ctx, after, action.target)
		if err == nil {
			return after.ResourceVersion, after.ResourceVersion, nil
		}
		if kit.OutcomeOf(err) != kit.Outdated && !kit.RefusedForGood(err) {
			return "", "", err
		}
		// Another writer's change may not concern us, such as a heartbeat. A manager that may not update may still patch.
		w.note(ctx, err)
	}
	patched, err := w.patch(ctx, action)
	return patched.ResourceVersion, "", err
}

// note remembers that we may not update nodes. Admission has the same code for a denial, which says nothing of other nodes.
func (w writer) note(ctx context.Context, err error) {
	var answer apierrors.APIStatus
	prohibited := apierrors.IsForbidden(err) && errors.As(err, &answer) && lacksPermission(answer)
	if prohibited && !w.denied.Swap(true) {
		log.FromContext(ctx).Info("Not allowed to update nodes; patching them instead, which costs the API server more", "reason", err.Error())
	}
}

// update writes a node back whole. What the API server takes from the node that it has, whatever an update says, is left out of it.
func (w writer) update(ctx context.Context, node *corev1.Node, of target) error {
	if of == targetAddresses {
		return w.client.Status().Update(ctx, node, client.FieldOwner(fieldManager))
	}
	node.Status = corev1.NodeStatus{}
	return w.client.Update(ctx, node, client.FieldOwner(fieldManager))
}

// spanOf names the span of a write.
func spanOf(written target) string {
	if written == targetAddresses {
		return spanWriteAddresses
	}
	return spanWriteNode
}

func (w writer) patch(ctx context.Context, action action) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: action.after.Name}}
	if action.target == targetAddresses {
		return node, w.client.Status().Patch(ctx, node, action.patch, client.FieldOwner(fieldManager))
	}
	return node, w.client.Patch(ctx, node, action.patch, client.FieldOwner(fieldManager))
}
