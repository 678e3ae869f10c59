package nodegroups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// The reasons of events on nodes.
const (
	// ReasonDeleting is when the cloud has accepted the deletion of the instance.
	ReasonDeleting = "AutoscalerDeletionAccepted"
	// ReasonCanceled is when the deletion was taken back.
	ReasonCanceled = "AutoscalerDeletionCanceled"
	// ReasonStillTarget is when the instance is deleted although load balancers may have it.
	ReasonStillTarget = "AutoscalerDeletionBeforeLoadBalancers"
	// ReasonDeletionFailed is when the instance could not be deleted.
	ReasonDeletionFailed = "AutoscalerDeletionFailed"
	// ReasonDeletionRefused is when it may not be.
	ReasonDeletionRefused = "AutoscalerDeletionRefused"
)

var (
	// errChanged is a node that has changed since it was decided about. It is looked at again.
	errChanged = errors.New("the node has changed, or its deletion was taken back")
	// errUnproven is an intent that the manager did not write, or wrote under another key.
	errUnproven = &refusedError{"the annotation " + deletion.Annotation + " is not sealed by this manager: the Cluster Autoscaler has to ask for it (again)"}
	// errForeign is a node that is not ours.
	errForeign = &refusedError{"it is not a node of this cloud controller manager"}
)

// refusedError is a deletion that is not made because of what the cloud or the cluster says.
type refusedError struct{ problem string }

func (e *refusedError) Error() string { return e.problem }

// report says what became of a try to delete an instance.
func (r *reconciler) report(logger logr.Logger, node *corev1.Node, intent deletion.Intent, err error) {
	var refused *refusedError
	switch {
	case err == nil:
		r.metrics.deleted.Inc()
		r.metrics.waited.Observe(time.Since(intent.At).Seconds())
		logger.Info("The cloud has accepted the deletion of an instance for the autoscaler")
		r.limiter.Record(r.recorder, node, corev1.EventTypeNormal, ReasonDeleting,
			fmt.Sprintf("the Cluster Autoscaler wants it deleted from the node group %q", intent.Group))
	case errors.Is(err, errChanged), errors.Is(err, context.Canceled), apierrors.IsNotFound(err):
	case errors.As(err, &refused), errors.Is(err, provider.ErrNotInNodeGroup):
		r.metrics.failures.Inc()
		r.warn(node, ReasonDeletionRefused, err.Error())
		logger.Info("An instance is not deleted for the autoscaler", "reason", kit.EventMessage(err.Error()))
	default:
		r.metrics.failures.Inc()
		r.warn(node, ReasonDeletionFailed, err.Error())
		logger.Error(err, "Could not delete an instance for the autoscaler; trying again")
	}
}

// delete deletes the instance of a node, after it was looked at once more whether that is right. One that is gone, or being deleted, is no error.
func (r *reconciler) delete(ctx context.Context, seen *corev1.Node, intent deletion.Intent, late string) error {
	node, err := r.confirm(ctx, seen)
	if err != nil {
		return err
	}
	instance, err := r.instanceOf(ctx, node, intent)
	if err != nil {
		return err
	}
	if instance == nil || instance.State == provider.NodeGroupInstanceDeleting {
		return nil
	}
	if node, err = r.confirm(ctx, seen); err != nil { // the cloud may have taken its time
		return err
	}
	if late != "" {
		r.metrics.late.Inc()
		r.warn(node, ReasonStillTarget, late)
		log.FromContext(ctx).Info("Deleting an instance although load balancers may still have it as a target", "reason", late)
	}
	if err := r.groups.DeleteNodeGroupInstances(ctx, intent.Group, []string{intent.ProviderID}); err != nil {
		return fmt.Errorf("deleting the instance %q of the node group %q: %w", intent.ProviderID, intent.Group, err)
	}
	return nil
}

// cancel takes an intent back, and the label that was set with it.
func (r *reconciler) cancel(ctx context.Context, node *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	target := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
	err := r.client.Patch(ctx, target, deletion.Cancel(node), client.FieldOwner(Name))
	outcome := kit.OutcomeOf(err)
	switch {
	case outcome == kit.Written:
		r.metrics.canceled.Inc()
		r.recorder.Event(node, corev1.EventTypeNormal, ReasonCanceled, "the Cluster Autoscaler has taken its taint off the node, and its instance stays")
		log.FromContext(ctx).Info("The deletion of an instance was taken back")
	case outcome.Failed():
		return kit.WriteError(fmt.Errorf("taking back the deletion of node %q: %w", node.Name, err))
	}
	return nil // a node that has changed is looked at again
}

func (r *reconciler) warn(node *corev1.Node, reason, message string) {
	r.limiter.Record(r.recorder, node, corev1.EventTypeWarning, reason, message)
}
