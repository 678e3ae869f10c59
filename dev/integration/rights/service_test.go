package rights_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// serviceFlags make the manager look often whether load balancers are as they should be.
var serviceFlags = []string{
	"--load-balancer-drift-check-period=500ms", "--load-balancer-drift-check-calls=240", "--load-balancer-target-delay=500ms",
}

// serviceSteps are the work of the service controller.
func serviceSteps() []step {
	deleted := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "quay"}
	demoted := types.NamespacedName{Namespace: "harbor", Name: "pier"}
	return []step{
		{"services get load balancers", func(t *testing.T, s *scenario) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: demoted.Namespace}}
			_, err := s.admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
			must.NoError(t, err)
			s.expose(t, deleted)
			s.expose(t, demoted)
			s.awaitBalancers(t, "one for each service", func(found []api.LoadBalancer) bool { return len(found) == 2 })
			s.awaitRecord(t)
		}},
		// Without a change of the service, another one would be made after ten minutes.
		{"a load balancer is deleted in the cloud, its service says so, and gets another one when it is changed", func(t *testing.T, s *scenario) {
			service, err := s.admin.CoreV1().Services(deleted.Namespace).Get(t.Context(), deleted.Name, metav1.GetOptions{})
			must.NoError(t, err)
			all := s.awaitBalancers(t, "one for each service", func(found []api.LoadBalancer) bool { return len(found) == 2 })
			lost := all[slices.IndexFunc(all, func(one api.LoadBalancer) bool {
				return slices.Contains(one.Addresses, service.Status.LoadBalancer.Ingress[0].IP)
			})]
			must.NoError(t, s.cloud.Client.DeleteLoadBalancer(t.Context(), lost.Name, lost.Generation))
			s.awaitNotFound(t, deleted)
			patch := []byte(`{"metadata": {"annotations": {"quay": "dredged"}}}`)
			_, err = s.admin.CoreV1().Services(deleted.Namespace).Patch(t.Context(), deleted.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			must.NoError(t, err)
			s.awaitBalancers(t, "another one of that name", func(found []api.LoadBalancer) bool {
				return slices.ContainsFunc(found, func(one api.LoadBalancer) bool { return one.Name == lost.Name && one.ID != lost.ID })
			})
		}},
		{"a service gets another port and its event is repeated, and load balancers another node", func(t *testing.T, s *scenario) {
			patch := []byte(`[{"op": "replace", "path": "/spec/ports/0/port", "value": 8080}]`)
			_, err := s.admin.CoreV1().Services(demoted.Namespace).Patch(t.Context(), demoted.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
			must.NoError(t, err)
			name := s.create(t)
			s.join(t, name)
			instance, err := s.cloud.Client.GetInstanceByName(t.Context(), name)
			must.NoError(t, err)
			s.awaitBalancers(t, "both with the node, one with the port", func(found []api.LoadBalancer) bool {
				with, without := 0, 0
				for _, balancer := range found {
					if !slices.Contains(balancer.Targets, instance.ID) {
						without++
					}
					if balancer.Listeners[0].Port == 8080 {
						with++
					}
				}
				return with == 1 && without == 0
			})
			s.awaitEvent(t, demoted.Name, "EnsuringLoadBalancer", 2)
			s.awaitRecord(t)
		}},
		{"a Service is deleted, and another no longer needs a load balancer", func(t *testing.T, s *scenario) {
			must.NoError(t, s.admin.CoreV1().Services(deleted.Namespace).Delete(t.Context(), deleted.Name, metav1.DeleteOptions{}))
			patch := []byte(`{"spec": {"type": "ClusterIP"}}`)
			_, err := s.admin.CoreV1().Services(demoted.Namespace).Patch(t.Context(), demoted.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			must.NoError(t, err)
			s.awaitBalancers(t, "none", func(found []api.LoadBalancer) bool { return len(found) == 0 })
			s.awaitReleased(t, deleted, demoted)
		}},
	}
}

// expose creates a Service and waits until it has an address.
func (s *scenario) expose(t *testing.T, name types.NamespacedName) {
	t.Helper()
	services := s.admin.CoreV1().Services(name.Namespace)
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	poll.Until(t, "service "+name.String()+" has an address", func(ctx context.Context) error {
		service, err := services.Get(ctx, name.Name, metav1.GetOptions{})
		if err == nil && len(service.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("its status is %v", service.Status)
		}
		return err
	})
}

// awaitRecord waits until load balancers are recorded, and later until their record has changed, which takes another right.
func (s *scenario) awaitRecord(t *testing.T) {
	t.Helper()
	poll.Until(t, "load balancers are recorded", func(ctx context.Context) error {
		lease, err := s.admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "cloud-controller-manager-load-balancers", metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case lease.ResourceVersion == s.recorded:
			return errors.New("the record is as it was")
		}
		s.recorded = lease.ResourceVersion
		return nil
	})
}

// awaitNotFound waits until a Service says that the cloud does not find its load balancer.
func (s *scenario) awaitNotFound(t *testing.T, name types.NamespacedName) {
	t.Helper()
	poll.Until(t, "service "+name.String()+" says that its load balancer is not found", func(ctx context.Context) error {
		service, err := s.admin.CoreV1().Services(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(service.Status.Conditions, names.ConditionLoadBalancerReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "NotFound" {
			err = fmt.Errorf("its condition is %v", ready)
		}
		return err
	})
}

// awaitBalancers waits until the cloud's load balancers are as wanted, and returns them.
func (s *scenario) awaitBalancers(t *testing.T, what string, wanted func([]api.LoadBalancer) bool) []api.LoadBalancer {
	t.Helper()
	var found []api.LoadBalancer
	poll.Until(t, "the cloud has these load balancers: "+what, func(ctx context.Context) error {
		found = nil
		err := s.cloud.Client.ListLoadBalancers(ctx, nil, func(page []api.LoadBalancer) error {
			found = append(found, page...)
			return nil
		})
		if err == nil && !wanted(found) {
			err = fmt.Errorf("it has %+v", found)
		}
		return err
	})
	return found
}

// awaitReleased waits until nothing holds Services: deleted ones no longer exist, others have no finalizer.
func (s *scenario) awaitReleased(t *testing.T, names ...types.NamespacedName) {
	t.Helper()
	for _, name := range names {
		poll.Until(t, "service "+name.String()+" is released", func(ctx context.Context) error {
			service, err := s.admin.CoreV1().Services(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil && len(service.Finalizers) > 0:
				return errors.New(fmt.Sprint("its finalizers are ", service.Finalizers))
			default:
				return err
			}
		})
	}
}
