package conformance_test

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
)

func balancerServiceMutations() []mutation {
	return []mutation{
		{"balancer-status-own", "a status that is there is returned", func(m *mutant) {
			m.balancer.ensure = func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node,
			) (*v1.LoadBalancerStatus, error) {
				status, err := right.EnsureLoadBalancer(ctx, cluster, service, nodes)
				if err == nil && len(service.Status.LoadBalancer.Ingress) > 0 {
					status = service.Status.LoadBalancer.DeepCopy()
				}
				return status, err
			}
		}},
		{"balancer-status-own", "a status that is there is what exists", func(m *mutant) {
			m.balancer.get = func(ctx context.Context, right rightLB, cluster string, service *v1.Service,
			) (*v1.LoadBalancerStatus, bool, error) {
				if len(service.Status.LoadBalancer.Ingress) > 0 {
					return service.Status.LoadBalancer.DeepCopy(), true, nil
				}
				return right.GetLoadBalancer(ctx, cluster, service)
			}
		}},
		{"balancer-without-nodes", "no nodes are an error",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				if len(nodes) == 0 {
					return errors.New("there are no nodes")
				}
				return right.UpdateLoadBalancer(ctx, cluster, service, nodes)
			})},
		{"balancer-without-nodes", "the last node takes the load balancer with it",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				if len(nodes) == 0 {
					return right.EnsureLoadBalancerDeleted(ctx, cluster, service)
				}
				return right.UpdateLoadBalancer(ctx, cluster, service, nodes)
			})},
		{"balancer-foreign-node", "a foreign node is an error",
			updates(func(ctx context.Context, right rightLB, cluster string, service *v1.Service, nodes []*v1.Node) error {
				for _, node := range nodes {
					if !strings.HasPrefix(node.Spec.ProviderID, "sim://") {
						return errors.New("cannot parse provider ID " + node.Spec.ProviderID)
					}
				}
				return right.UpdateLoadBalancer(ctx, cluster, service, nodes)
			})},
		{"balancer-deleted-after-failure", "a deletion is only tried once", func(m *mutant) {
			m.balancer.remove = func(ctx context.Context, right rightLB, cluster string, service *v1.Service) error {
				if m.count() > 1 {
					return nil
				}
				return right.EnsureLoadBalancerDeleted(ctx, cluster, service)
			}
		}},
	}
}
