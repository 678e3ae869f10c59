package node

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// askWriters asks the API server who wrote labels of a node, which the cache leaves out, and says of each whether all its writers decide for the
// cloud, beside what is known of that already. It returns the known values that others wrote, too, with the ones found.
//
// See ADR 12.
func (r *reconciler) askWriters(
	ctx context.Context, node *corev1.Node, labels []string, ours map[string]bool, others map[string]string,
) (map[string]bool, map[string]string, error) {
	live := &corev1.Node{}
	if r.live != nil {
		ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
		defer cancel()
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(node), live); err != nil {
			return ours, others, &writeError{err: fmt.Errorf("asking the API server who wrote the labels %q of the node: %w", labels, err)}
		}
		if live.UID != node.UID {
			return ours, others, nil // the watch brings another node
		}
	}
	for _, label := range labels {
		if r.live != nil && live.Labels[label] != node.Labels[label] {
			continue // the watch brings another value
		}
		isOurs := writtenBy(live.ManagedFields, label, r.managers)
		ours = with(ours, label, isOurs)
		if !isOurs {
			others = with(others, label, node.Labels[label])
		}
	}
	return ours, others, nil
}

// writtenBy reports whether a label has a writer, and all its writers are among the managers.
func writtenBy(entries []metav1.ManagedFieldsEntry, label string, managers map[string]bool) bool {
	field, written := fieldpath.MakePathOrDie("metadata", "labels", label), false
	for _, entry := range entries {
		switch {
		case !hasField(entry, field):
		case !managers[entry.Manager]:
			return false
		default:
			written = true
		}
	}
	return written
}

// hasField reports whether an entry of the managed fields has a field.
func hasField(entry metav1.ManagedFieldsEntry, field fieldpath.Path) bool {
	var fields fieldpath.Set
	return entry.FieldsV1 != nil && fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) == nil && fields.Has(field)
}
