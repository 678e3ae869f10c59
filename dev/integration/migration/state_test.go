package migration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// state is what users of a cluster have of its cloud controller manager. Two states of a cluster whose managers agree are equal.
type state struct {
	Balancers map[string]balancer
	Routes    map[string]api.Route
	Nodes     map[string]node
	Services  map[string]serviceFacts
}

// balancer is a load balancer, without its generation.
type balancer struct {
	ID   string
	Spec api.LoadBalancerSpec
	// Addresses are what clients connect to.
	Addresses []string
}

type node struct {
	Labels, Annotations map[string]string
	Spec                corev1.NodeSpec
	Addresses           []corev1.NodeAddress
	// Conditions are such as "Ready=True KubeletReady".
	Conditions []string
}

type serviceFacts struct {
	Labels, Annotations map[string]string
	Finalizers          []string
	Spec                corev1.ServiceSpec
	Ingress             []corev1.LoadBalancerIngress
	Conditions          []string
}

// look reads the state.
func (s *scene) look(ctx context.Context) (state, error) {
	now := state{map[string]balancer{}, map[string]api.Route{}, map[string]node{}, map[string]serviceFacts{}}
	for _, one := range s.cloud.Service.LoadBalancers() {
		now.Balancers[one.Name] = balancer{one.ID, one.LoadBalancerSpec, one.Addresses}
	}
	if err := s.cloud.Client.ListRoutes(ctx, "", func(page []api.Route) error {
		for _, route := range page {
			now.Routes[route.DestinationCIDR] = route
		}
		return nil
	}); err != nil {
		return state{}, err
	}
	nodes, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return state{}, err
	}
	for _, n := range nodes.Items {
		var conditions []string
		for _, c := range n.Status.Conditions {
			conditions = append(conditions, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		}
		slices.Sort(conditions)
		now.Nodes[n.Name] = node{n.Labels, n.Annotations, n.Spec, n.Status.Addresses, conditions}
	}
	services, err := s.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return state{}, err
	}
	for _, one := range services.Items {
		if one.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		var conditions []string
		for _, c := range one.Status.Conditions {
			conditions = append(conditions, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		}
		now.Services[one.Name] = serviceFacts{
			one.Labels, one.Annotations, one.Finalizers, one.Spec, one.Status.LoadBalancer.Ingress, conditions,
		}
	}
	return now, nil
}

// migrated is the state that Mooring makes of one that the reference has left: a tag on each load balancer, and a condition on each
// Service.
func (s state) migrated(cluster types.UID) state {
	after := state{map[string]balancer{}, s.Routes, s.Nodes, map[string]serviceFacts{}}
	for name, one := range s.Balancers {
		one.Spec.Tags = maps.Clone(one.Spec.Tags)
		one.Spec.Tags[sim.TagClusterUID] = string(cluster)
		after.Balancers[name] = one
	}
	for name, one := range s.Services {
		one.Conditions = append(slices.Clone(one.Conditions), "LoadBalancerReady=True Provided")
		after.Services[name] = one
	}
	return after
}

// clusterUID identifies the cluster to the plugin. The reference does not pass it on.
func (s *scene) clusterUID(t *testing.T) types.UID {
	t.Helper()
	itself, err := s.client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	must.NoError(t, err)
	return itself.UID
}

// unfinished says what is missing until so many nodes and Services have all that the cloud gives them. The nodes and the Service that
// are not the manager's come on top: of those, only the node with an instance is a target.
func (s state) unfinished(nodes, services int) error {
	var errs []error
	for name, n := range s.Nodes {
		if name == inTree || name == foreign {
			continue
		}
		_, routed := s.Routes[n.Spec.PodCIDR]
		if n.Spec.ProviderID == "" || len(n.Spec.Taints) > 0 || !routed || !slices.ContainsFunc(n.Conditions, isRouted) {
			errs = append(errs, fmt.Errorf("node %s: provider ID %q, taints %v, routed %t, %q",
				name, n.Spec.ProviderID, n.Spec.Taints, routed, n.Conditions))
		}
	}
	for name, one := range s.Services {
		if len(one.Ingress) == 0 {
			errs = append(errs, fmt.Errorf("service %s has no address", name))
		}
	}
	for name, one := range s.Balancers {
		if len(one.Spec.Targets) != nodes+1 {
			errs = append(errs, fmt.Errorf("load balancer %s has %d targets", name, len(one.Spec.Targets)))
		}
	}
	if ingress := s.Services[byAgent].Ingress; len(ingress) != 1 || ingress[0].IP != agentAddress {
		errs = append(errs, fmt.Errorf("service %s has the addresses %v, not the agent's %s", byAgent, ingress, agentAddress))
	}
	if len(s.Nodes) != nodes+2 || len(s.Services) != services+1 || len(s.Balancers) != services || len(s.Routes) != nodes+1 {
		errs = append(errs, fmt.Errorf("%d nodes, %d Services, %d load balancers, %d routes",
			len(s.Nodes), len(s.Services), len(s.Balancers), len(s.Routes)))
	}
	return errors.Join(errs...)
}

func isRouted(condition string) bool {
	return strings.HasPrefix(condition, string(corev1.NodeNetworkUnavailable)+"=False")
}
