package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
}

// apply carries out the plan of a pass, one write after the other, and stops at the first that does not take effect. Only that the API
// server refuses the addresses stops nothing: a node without them can run pods, one that keeps its taint cannot. It gets how the pass ends if all
// takes effect, and returns how it has ended.
//
// See ADR 13.
func (w writer) apply(ctx context.Context, ends result) result {
	known := "" // the version in which the whole of the node is known
	if before := ends.plan.before; w.whole != nil && before != nil && w.whole(before) {
		known = before.ResourceVersion
	}
	for _, write := range ends.plan.writes {
		written, stillKnown, err := w.write(ctx, ends.plan, write, known)
		known = stillKnown
		if err == nil {
			ends.wrote, ends.othersWrote = written.ResourceVersion, ends.kind == refreshed && matters(ends.plan.after, written)
			continue
		}
		refused := kit.WriteError(fmt.Errorf("writing the %s of the node: %w", write.target, err))
		switch {
		case write.target == targetAddresses && kit.RefusedForGood(err):
			ends.withoutAddresses = &writeError{err: refused, addressesOnly: true}
		case kit.OutcomeOf(err) == kit.Outdated:
			ends.kind, ends.err = overtaken, &writeError{err: fmt.Errorf("%w: %w", errAlwaysTooLate, refused)}
			return ends
		default:
			ends.kind, ends.err = failed, &writeError{err: refused}
			return ends
		}
	}
	return ends
}

// write makes one write: by an update if the node is known in the version that it has, else by the guarded patch. It returns the node
// after it, and the node's version if the node is still known in that one.
func (w writer) write(ctx context.Context, planned plan, write write, known string) (written *corev1.Node, stillKnown string, err error) {
	ctx, end := w.traces.step(ctx, writeSpans[write.target])
	defer func() { end(nil, err) }()
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	if known != "" {
		node := planned.updated(write.target)
		node.ResourceVersion = known
		if write.target == targetAddresses {
			err = w.client.Status().Update(ctx, node, client.FieldOwner(fieldManager))
		} else {
			err = w.client.Update(ctx, node, client.FieldOwner(fieldManager))
		}
		if err == nil {
			return node, node.ResourceVersion, nil
		}
		if kit.OutcomeOf(err) != kit.Outdated && !kit.RefusedForGood(err) {
			return nil, "", err
		}
		// Another writer's change may not concern us, such as a heartbeat. A manager that may not update may still patch.
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: planned.before.Name}}
	if write.target == targetAddresses {
		err = w.client.Status().Patch(ctx, node, write.patch, client.FieldOwner(fieldManager))
	} else {
		err = w.client.Patch(ctx, node, write.patch, client.FieldOwner(fieldManager))
	}
	return node, "", err
}
