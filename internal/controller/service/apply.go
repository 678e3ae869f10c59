package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/writelimit"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/provider"
)

// errNoStatus says that a plugin broke its contract.
var errNoStatus = errors.New("the cloud provider's EnsureLoadBalancer returned neither a status nor an error")

// applier carries actions out. It is built on the leader, once the plugin is initialized.
type applier struct {
	balancer cloudprovider.LoadBalancer
	// change changes targets by a difference; nil: the provider cannot.
	change      provider.ChangeTargetsFunc
	client      client.Client
	clusterName string
	// clusterUID returns the cluster's UID, empty while it is not known.
	clusterUID func(context.Context) types.UID
}

// result is what a call that took effect brought about.
type result struct {
	// status is what the plugin returned; nil if it leaves the Service to another controller.
	status *corev1.LoadBalancerStatus
	// echo says that status is the one that the plugin was given with the Service.
	echo bool
}

// call carries out an action that calls the plugin. Its errors have the types by which reasonOf names them.
func (a *applier) call(ctx context.Context, act action, nodes []*corev1.Node) (result, error) {
	ctx = provider.WithClusterUID(ctx, a.clusterUID(ctx))
	ctx = dryrun.Because(ctx, strings.Join(act.why, ", "))
	if act.refresh {
		ctx = dryrun.Refreshing(ctx)
	}
	switch act.verb {
	case verbEnsure:
		return a.ensure(ctx, act.service, nodes)
	case verbRetarget:
		return a.retarget(ctx, act, nodes)
	case verbRemove:
		return result{}, a.remove(ctx, act.service)
	default:
		return result{}, fmt.Errorf("no plugin is called to %s a Service", act.verb)
	}
}

func (a *applier) ensure(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (result, error) {
	given := service.DeepCopy() // plugins exist that write to it
	status, err := a.balancer.EnsureLoadBalancer(ctx, a.clusterName, given, nodes)
	switch {
	case errors.Is(err, cloudprovider.ImplementedElsewhere):
		return result{}, nil
	case err != nil:
		return result{}, fmt.Errorf("failed to ensure load balancer: %w", err)
	case status == nil:
		return result{}, errNoStatus
	default:
		return result{status: status.DeepCopy(), echo: sameIngress(status.Ingress, service.Status.LoadBalancer.Ingress)}, nil
	}
}

func (a *applier) retarget(ctx context.Context, act action, nodes []*corev1.Node) (result, error) {
	err := a.setTargets(ctx, act, nodes)
	if err == nil || errors.Is(err, cloudprovider.ImplementedElsewhere) {
		return result{}, nil
	}
	if exists, asked := a.exists(ctx, act.pluginSees()); asked == nil && !exists {
		err = fmt.Errorf("%w: %w", errNotFound, err)
	}
	return result{}, &retargetError{nodes: namesOf(nodes), err: err}
}

func (a *applier) setTargets(ctx context.Context, act action, nodes []*corev1.Node) error {
	if act.change == nil {
		return a.balancer.UpdateLoadBalancer(ctx, a.clusterName, act.pluginSees(), nodes)
	}
	add, remove := act.change.of(nodes)
	return a.change(ctx, a.clusterName, act.pluginSees(), add, remove)
}

// remove deletes a load balancer. The plugin is called whether or not there is one to be seen: most consist of parts, of
// which some may be left when the load balancer itself is gone already. An error while there is none to be seen is errAbsent,
// unless it is of the kind that says nothing. It is to be repeated a few times, because of the parts, and not forever, because some
// plugins fail where there is nothing to delete: a load balancer that is gone must not hold a Service.
func (a *applier) remove(ctx context.Context, service *corev1.Service) error {
	err := a.balancer.EnsureLoadBalancerDeleted(provider.WithClusterUID(ctx, a.clusterUID(ctx)), a.clusterName, service)
	if err == nil || errors.Is(err, cloudprovider.ImplementedElsewhere) {
		return nil
	}
	if !saysNothing(err) {
		if exists, asked := a.exists(ctx, service); asked == nil && !exists {
			return fmt.Errorf("%w: %w", errAbsent, err)
		}
	}
	return fmt.Errorf("failed to delete load balancer: %w", err)
}

// get asks for the load balancer of a Service. It changes nothing, and so waits for no other call. An error says that there is none only if it is
// an error that names the load balancer; a 404 of the Kubernetes API may be about the Secret with the plugin's credentials.
func (a *applier) get(ctx context.Context, service *corev1.Service) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	status, exists, err = a.balancer.GetLoadBalancer(ctx, a.clusterName, service.DeepCopy()) // plugins exist that write to it
	if errors.Is(err, cloudprovider.ImplementedElsewhere) || errors.Is(err, provider.ErrInstanceNotFound) {
		return nil, false, nil // how some plugins say that there is none
	}
	return status, exists, err
}

// exists asks whether a Service has a load balancer, see get.
func (a *applier) exists(ctx context.Context, service *corev1.Service) (bool, error) {
	_, exists, err := a.get(ctx, service)
	return exists, err
}

// write writes to the Service. The subresource status covers all that we own of it, the finalizer included. One write therefore needs one right and
// changes everything at once. The patch names the UID: it does not touch a Service that was deleted and created again with the same name.
func (a *applier) write(ctx context.Context, act action) (*corev1.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, kit.WriteTimeout)
	defer cancel()
	patch, err := patchFor(act)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: act.service.Namespace, Name: act.service.Name}}
	err = a.client.Status().Patch(ctx, service, patch, client.FieldOwner(Name))
	switch {
	case err == nil:
		return service, nil
	case cameTooLate(err):
		return nil, fmt.Errorf("%w: %w", errOutdated, err)
	default:
		return nil, &writeError{kit.WriteError(fmt.Errorf("failed to %s the Service: %w", act.verb, err))}
	}
}

// cameTooLate reports whether a patch failed because the Service may no longer be what it was planned for. By 409 the API server says so
// itself. A 404 does not prove that the Service was deleted: a proxy answers it too, and the cache shows deletions. By 422 the API server says
// that another Service has the UID, or that a Service which is being deleted takes no finalizers. Refusals by admission have this code too,
// and name no field.
func cameTooLate(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || kit.Blames(err, "metadata.uid", "metadata.finalizers")
}

// patchFor returns the strategic merge patch of an action, which leaves finalizers and conditions of others alone.
func patchFor(act action) (client.Patch, error) {
	before := &corev1.Service{Status: corev1.ServiceStatus{
		LoadBalancer: act.service.Status.LoadBalancer, Conditions: act.service.Status.Conditions,
	}}
	if act.verb != verbPublish {
		before.Finalizers = act.service.Finalizers
	}
	after := before.DeepCopy()
	after.UID = act.service.UID
	after.Status.LoadBalancer.Ingress = act.publish.ingress
	after.Status.Conditions = withCondition(after.Status.Conditions, act.publish.ready)
	switch act.verb {
	case verbProtect:
		controllerutil.AddFinalizer(after, Finalizer)
	case verbRelease:
		controllerutil.RemoveFinalizer(after, Finalizer)
	}
	data, err := client.StrategicMergeFrom(before).Data(after)
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.StrategicMergePatchType, data), nil
}

// withCondition replaces our condition among those of a Service; nil removes it.
func withCondition(conditions []metav1.Condition, ready *metav1.Condition) []metav1.Condition {
	result := slices.Clone(conditions)
	if meta.RemoveStatusCondition(&result, ConditionReady); ready != nil {
		result = append(result, *ready)
	}
	return result
}

// clusterUID is the UID of the Service kubernetes in the namespace default, which every API server makes for itself. The usual rights of a cloud
// controller manager suffice to read it, which is not true of the UID of a namespace.
func clusterUID(reader client.Reader) func(context.Context) types.UID {
	return func(ctx context.Context) types.UID {
		var service corev1.Service
		if err := reader.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceDefault, Name: "kubernetes"}, &service); err != nil {
			return ""
		}
		return service.UID
	}
}

// orphanDeleter deletes load balancers of Services that do not exist. They wait in the write limiter as Services do that failed.
type orphanDeleter struct {
	limiter  *writelimit.Limiter
	recorder record.EventRecorder
	// admitted is sent to when the write limiter has admitted one.
	admitted chan struct{}
}

func newOrphanDeleter(limiter *writelimit.Limiter, recorder record.EventRecorder) *orphanDeleter {
	return &orphanDeleter{limiter: limiter, recorder: recorder, admitted: make(chan struct{}, 1)}
}

// admit says that the write limiter has admitted an orphan.
func (d *orphanDeleter) admit() {
	select {
	case d.admitted <- struct{}{}:
	default:
	}
}

// delete deletes the load balancer of a Service once the write limiter lets it, and reports whether parts of it may be left, see
// orphancheck.LoadBalancers. If that goes on, there are none.
func (d *orphanDeleter) delete(
	ctx context.Context, applier *applier, service *corev1.Service, before int,
) (parts bool, err error) {
	for !d.limiter.Acquire(writelimit.Orphans, writelimit.Services, rankFailed, nil) {
		d.limiter.End(writelimit.Orphans) // it keeps its turn
		select {
		case <-d.admitted:
		case <-ctx.Done():
			d.limiter.End(writelimit.Orphans)
			return false, ctx.Err()
		}
	}
	defer d.limiter.Release(writelimit.Orphans)
	err = applier.remove(ctx, service)
	if errors.Is(err, errAbsent) && before+1 >= absenceTries {
		deletionIncomplete(ctx, d.recorder, service, err)
		return false, nil
	}
	return errors.Is(err, errAbsent), err
}
