// Package nodepatch writes to nodes what was decided about them, unless they have changed since.
package nodepatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// timeout is the deadline of one write.
const timeout = 10 * time.Second

// ErrOutdated says that a node is no longer as it was decided on, or is gone. Nothing was written.
var ErrOutdated = errors.New("the node has changed since")

// Apply sends the API server a merge patch of a node, in the name of a field manager. The patch holds the resource version that was decided on,
// so a node which has changed is refused: then the error is ErrOutdated. After another error it may have been written.
func Apply(ctx context.Context, nodes corev1client.NodesGetter, name string, patch []byte, manager string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := nodes.Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ErrOutdated
	case err != nil:
		return fmt.Errorf("patching node %s: %w", name, err)
	default:
		return nil
	}
}
