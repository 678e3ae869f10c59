package conformance_test

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// changeTargets changes targets as the right provider does.
type changeTargets func(add, remove []*v1.Node) error

// changesTargets returns a mutation of ChangeTargets.
func changesTargets(change func(right changeTargets, add, remove []*v1.Node) error) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			right := c.ChangeTargets
			c.ChangeTargets = func(ctx context.Context, cluster string, service *v1.Service, add, remove []*v1.Node) error {
				return change(func(add, remove []*v1.Node) error { return right(ctx, cluster, service, add, remove) }, add, remove)
			}
		}
	}
}

func balancerChangeMutations() []mutation {
	return []mutation{
		{"balancer-change-targets", "nothing is removed",
			changesTargets(func(right changeTargets, add, _ []*v1.Node) error { return right(add, nil) })},
		{"balancer-change-targets", "the nodes to add are the targets", func(m *mutant) {
			m.capabilities = func(c *provider.Capabilities) {
				c.ChangeTargets = func(ctx context.Context, cluster string, service *v1.Service, add, _ []*v1.Node) error {
					balancers, _ := m.Cloud.LoadBalancer()
					return balancers.UpdateLoadBalancer(ctx, cluster, service, add)
				}
			}
		}},
		{"balancer-change-targets-again", "what is there already is an error", func(m *mutant) {
			changesTargets(func(right changeTargets, add, remove []*v1.Node) error {
				if m.count() > 1 {
					return errors.New("it is a target already")
				}
				return right(add, remove)
			})(m)
		}},
		{"balancer-change-targets-absent", "there is nothing to do",
			changesTargets(func(changeTargets, []*v1.Node, []*v1.Node) error { return nil })},
		{"balancer-failure-is-no-success", "a change of targets that failed is reported as done",
			changesTargets(func(right changeTargets, add, remove []*v1.Node) error {
				_ = right(add, remove)
				return nil
			})},
	}
}
