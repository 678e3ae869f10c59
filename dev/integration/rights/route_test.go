package rights_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// routeFlags make the manager keep routes, and look often whether they are there.
var routeFlags = []string{"--cluster-cidr=10.244.0.0/16", "--route-reconciliation-period=500ms"}

// routeSteps are the work of the route controller.
func routeSteps() []step {
	const routed = "node-002"
	return []step{
		{"a node gets a pod CIDR, and the cloud a route to it", func(t *testing.T, s *scenario) {
			s.allocate(t, routed, "10.244.2.0/24")
			s.awaitRoutes(t, 1)
			s.awaitNode(t, routed, "says that its network is available", func(node *corev1.Node) error {
				for _, condition := range node.Status.Conditions {
					if condition.Type == corev1.NodeNetworkUnavailable && condition.Status == corev1.ConditionFalse {
						return nil
					}
				}
				return fmt.Errorf("its conditions are %v", node.Status.Conditions)
			})
		}},
		{"a route is deleted in the cloud and made again", func(t *testing.T, s *scenario) {
			made := s.awaitRoutes(t, 1)[0]
			s.awaitLists(t) // one that no list has shown is made again after two minutes: lists may lag
			must.NoError(t, s.cloud.Client.DeleteRoute(t.Context(), made.ID))
			s.awaitRoutes(t, 1)
		}},
		{"a node is deleted, and its route with it", func(t *testing.T, s *scenario) {
			name := s.create(t)
			s.join(t, name)
			s.allocate(t, name, "10.244.7.0/24")
			s.awaitRoutes(t, 2)
			must.NoError(t, s.admin.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
			s.awaitRoutes(t, 1)
		}},
	}
}

// allocate gives a node a pod CIDR, as kube-controller-manager does.
func (s *scenario) allocate(t *testing.T, node, podCIDR string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec": {"podCIDR": %q, "podCIDRs": [%q]}}`, podCIDR, podCIDR)
	_, err := s.admin.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must.NoError(t, err)
}

// awaitLists waits until the manager has listed the routes once more from beginning to end.
func (s *scenario) awaitLists(t *testing.T) {
	t.Helper()
	lists := func() int64 { return s.cloud.Service.Counts().Received(api.OpListRoutes) }
	before := lists()
	poll.Until(t, "the routes are listed once more", func(context.Context) error {
		if now := lists() - before; now < 3 { // the first may have begun before, and the last may not have ended
			return fmt.Errorf("%d lists have begun", now)
		}
		return nil
	})
}

// awaitRoutes waits until the cloud has so many routes for the cluster, and returns them.
func (s *scenario) awaitRoutes(t *testing.T, count int) []api.Route {
	t.Helper()
	var routes []api.Route
	poll.Until(t, fmt.Sprintf("the cloud has %d routes", count), func(ctx context.Context) error {
		routes = nil
		err := s.cloud.Client.ListRoutes(ctx, simtest.ClusterName, func(page []api.Route) error {
			routes = append(routes, page...)
			return nil
		})
		if err == nil && len(routes) != count {
			err = errors.New(fmt.Sprint("it has ", routes))
		}
		return err
	})
	return routes
}
