package conformance

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// balancerFailureRules are about a cloud that fails.
func balancerFailureRules() []Rule {
	return []Rule{
		{
			ID:   "balancer-failure-is-no-absence",
			Text: "When the cloud fails, a load balancer that exists is never said not to.",
			Source: Source{"cloudprovider.LoadBalancer.GetLoadBalancer",
				"GetLoadBalancer returns whether the specified load balancer exists"},
			Needs: []Need{NeedLoadBalancer, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				return failBalancers(ctx, t, func(calls balancerCalls) []named { return calls.reads })
			},
		},
		{
			ID:   "balancer-failure-is-no-success",
			Text: "When the cloud fails, what ensures and changes load balancers returns an error, and works when the cloud does again.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancer",
				"creates a new load balancer 'name', or updates the existing one"},
			Needs: []Need{NeedLoadBalancer, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				return failBalancers(ctx, t, func(calls balancerCalls) []named { return calls.writes })
			},
		},
		{
			ID:   "balancer-failure-is-no-deletion",
			Text: "When the cloud fails, EnsureLoadBalancerDeleted is an error: nil lets the Service go.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancerDeleted",
				"returning nil if the load balancer specified either didn't exist or was successfully deleted"},
			Needs: []Need{NeedLoadBalancer, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				return failBalancers(ctx, t, func(calls balancerCalls) []named { return calls.deletes })
			},
		},
		{
			ID:     "balancer-list-failure",
			Text:   "When the cloud fails, a list of load balancers is an error or whole, never short.",
			Source: Source{"provider.Capabilities.ListLoadBalancers", "Like every list it is complete or an error."},
			Needs:  []Need{NeedLoadBalancer, NeedListLoadBalancers, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				service, _, _, err := t.ensureNew(ctx)
				if err != nil {
					return err
				}
				return t.failWithCloud(ctx, FaultError, []named{{"ListLoadBalancers", func(ctx context.Context) error {
					listed, err := t.listedBalancer(ctx, t.options.ClusterName, service)
					return answered(listed != nil, err)
				}}})
			},
		},
	}
}

// balancerEndingRules are about calls that have to end.
func balancerEndingRules() []Rule {
	return []Rule{
		{
			ID:     "balancer-context",
			Text:   "A call whose context has been canceled returns soon, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.balancerCalls(ctx)
				if err != nil {
					return err
				}
				t.endWithContext(ctx, calls.all())
				return nil
			},
		},
		{
			ID:     "balancer-deadline",
			Text:   "A call that the cloud does not answer returns by its deadline, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedLoadBalancer, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.balancerCalls(ctx)
				if err != nil {
					return err
				}
				return t.endWithDeadline(ctx, calls.all())
			},
		},
	}
}

// balancerCalls are calls for a load balancer that exists, of which the writes and deletes cannot be answered without the cloud.
type balancerCalls struct {
	reads, writes, deletes []named
	service                *v1.Service
	status                 *v1.LoadBalancerStatus
}

func (c balancerCalls) all() []named {
	return append(append(append([]named{}, c.reads...), c.writes...), c.deletes...)
}

func (t *trial) balancerCalls(ctx context.Context) (balancerCalls, error) {
	service, status, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return balancerCalls{}, err
	}
	cluster, balancers := t.options.ClusterName, t.balancers()
	fresh := t.service()
	t.willHave(fresh)
	calls := balancerCalls{
		service: service, status: status,
		reads: []named{{"GetLoadBalancer", func(ctx context.Context) error {
			_, exists, err := balancers.GetLoadBalancer(ctx, cluster, service)
			return answered(exists, err)
		}}},
		writes: []named{
			{"EnsureLoadBalancer of a new service", func(ctx context.Context) error {
				_, err := balancers.EnsureLoadBalancer(ctx, cluster, fresh, nodes)
				return err
			}},
			{"UpdateLoadBalancer", func(ctx context.Context) error {
				return balancers.UpdateLoadBalancer(ctx, cluster, service, nil)
			}},
		},
		deletes: []named{{"EnsureLoadBalancerDeleted", func(ctx context.Context) error {
			return balancers.EnsureLoadBalancerDeleted(ctx, cluster, service)
		}}},
	}
	if change := provider.CapabilitiesOf(t.Cloud).ChangeTargets; change != nil {
		calls.writes = append(calls.writes, named{"ChangeTargets", func(ctx context.Context) error {
			return change(ctx, cluster, service, nil, nodes)
		}})
	}
	return calls, nil
}

// failBalancers tries that calls fail with the cloud, and that the load balancer is as it was afterwards.
func failBalancers(ctx context.Context, t *trial, which func(balancerCalls) []named) error {
	calls, err := t.balancerCalls(ctx)
	if err != nil {
		return err
	}
	if err := t.failWithCloud(ctx, FaultError, which(calls)); err != nil {
		return err
	}
	return t.hasBalancer(ctx, calls.service, calls.status)
}
