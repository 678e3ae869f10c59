package nodegroups

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// busyAgain is after how long it is looked again whether another deletion of the group has ended.
const busyAgain = time.Second

// reconciler makes one pass over a node.
type reconciler struct {
	cached    client.Reader
	live      client.Reader
	client    client.Client
	recorder  record.EventRecorder
	groups    provider.NodeGroups
	ours      func(*corev1.Node) bool
	sealer    deletion.Sealer
	balancers *balancers
	wait      time.Duration
	state     *state
	beside    *beside
	again     func(node string)
	metrics   *metrics
	limiter   *kit.EventLimiter
}

// Reconcile looks at one node.
func (r *reconciler) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{} // shares what it holds with the cache: it is only read
	err := r.cached.Get(ctx, of.NamespacedName, node, client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("reading node %q: %w", of.Name, err)
	}
	var intent *deletion.Intent
	if err == nil {
		intent = r.intentOf(ctx, node)
	}
	if intent == nil {
		r.state.forget(of.Name, "")
		r.balancers.forget(of.Name)
		return reconcile.Result{}, nil
	}
	r.state.forget(of.Name, node.UID)
	known, answered, err := r.observe(ctx, node, *intent)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !answered {
		return reconcile.Result{RequeueAfter: listTimeout + lookAgain}, nil // the list brings it back before
	}
	decided := decide(known, r.wait, time.Now())
	switch decided.kind {
	case cancel:
		return reconcile.Result{}, r.cancel(ctx, node)
	case remove:
		if !r.remove(ctx, node, *intent, decided.late) {
			return reconcile.Result{RequeueAfter: busyAgain}, nil
		}
	}
	return reconcile.Result{RequeueAfter: decided.after}, nil
}

// intentOf returns the intent of a node, or nil if the node has no intent that counts.
func (r *reconciler) intentOf(ctx context.Context, node *corev1.Node) *deletion.Intent {
	intent, err := deletion.Of(node)
	if err != nil {
		log.FromContext(ctx).Info("Ignoring an annotation that asks for the deletion of an instance", "reason", kit.EventMessage(err.Error()))
		r.warn(node, ReasonDeletionRefused, err.Error())
	}
	return intent
}

// observe returns what is known of a node. It returns false while the load balancers are being listed. Of a deletion that is taken back, or that
// the cloud has accepted, they do not matter.
func (r *reconciler) observe(ctx context.Context, node *corev1.Node, intent deletion.Intent) (known facts, answered bool, err error) {
	remembered := r.state.get(node.UID, node.Name)
	known = facts{announced: deletion.Announced(node), asked: intent.At, accepted: remembered.accepted, next: remembered.failures.Until}
	if remembered.seen.Before(known.asked) {
		known.asked = remembered.seen
	}
	if !known.announced || !known.accepted.IsZero() || time.Now().Before(known.next) {
		return known, true, nil
	}
	said, answered, err := r.balancers.of(ctx, node.Name)
	known.targets, known.balancers = said.state, said.names
	return known, answered, err
}

// remove has the cloud delete an instance, beside. It returns false if the turn is another node's.
func (r *reconciler) remove(ctx context.Context, node *corev1.Node, intent deletion.Intent, late string) bool {
	if r.state.get(node.UID, node.Name).running {
		return true // its end brings the node back
	}
	if !r.state.begin(node.UID, node.Name, intent.Group) {
		return false
	}
	logger := log.FromContext(ctx).WithValues("providerID", intent.ProviderID, "nodeGroup", intent.Group)
	r.beside.run(func(ctx context.Context) error {
		return r.delete(log.IntoContext(ctx, logger), node, intent, late)
	}, func(err error) {
		r.report(logger, node, intent, err)
		r.state.end(node.UID, intent.Group, err, time.Now())
		r.again(node.Name)
	})
	return true
}

// confirm reads a node once more, from the API server, and returns it if its instance still is to be deleted. The cache may be late, and what is
// deleted is gone.
func (r *reconciler) confirm(ctx context.Context, seen *corev1.Node) (*corev1.Node, error) {
	reading, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	node := &corev1.Node{}
	if err := r.live.Get(reading, client.ObjectKeyFromObject(seen), node); err != nil {
		return nil, fmt.Errorf("reading node %q from the API server: %w", seen.Name, err)
	}
	now, err := deletion.Of(node)
	switch {
	case err != nil:
		return nil, err
	case node.UID != seen.UID, now == nil, node.Annotations[deletion.Annotation] != seen.Annotations[deletion.Annotation], !deletion.Announced(node):
		return nil, errChanged
	case !r.ours(node):
		return nil, errForeign
	case !now.Proven(r.sealer, node):
		return nil, errUnproven
	}
	return node, nil
}

// instanceOf returns the instance of a node as the cloud has it now, or nil if the group has no such instance. It is an error if the instance may be
// another node's.
func (r *reconciler) instanceOf(ctx context.Context, node *corev1.Node, intent deletion.Intent) (*provider.NodeGroupInstance, error) {
	status, err := r.groups.NodeGroupStatus(ctx, intent.Group)
	if err != nil {
		return nil, fmt.Errorf("looking at the node group %q: %w", intent.Group, err)
	}
	i := slices.IndexFunc(status.Instances, func(i provider.NodeGroupInstance) bool { return i.ProviderID == intent.ProviderID })
	if i < 0 {
		return nil, nil
	}
	if err := r.keepsMinimum(ctx, intent.Group, status, status.Instances[i]); err != nil {
		return nil, err
	}
	holders, err := deletion.Holders(ctx, r.cached, intent.ProviderID)
	if err != nil {
		return nil, err
	}
	if problem := deletion.WrongInstance(node, &status.Instances[i], holders); problem != "" {
		return nil, &refusedError{problem}
	}
	return &status.Instances[i], nil
}

// keepsMinimum returns why a group must not lose an instance, nil if it may. The autoscaler asked a while ago, and the group may have changed.
func (r *reconciler) keepsMinimum(ctx context.Context, group string, status provider.NodeGroupStatus, instance provider.NodeGroupInstance) error {
	if instance.Error != nil || instance.State == provider.NodeGroupInstanceDeleting {
		return nil
	}
	groups, err := r.groups.ListNodeGroups(ctx)
	if err != nil {
		return fmt.Errorf("listing node groups: %w", err)
	}
	for _, one := range groups {
		if one.ID == group && status.TargetSize-1 < one.Min {
			return &refusedError{fmt.Sprintf("the node group %q would have %d, and its minimum is %d", group, status.TargetSize-1, one.Min)}
		}
	}
	return nil
}
