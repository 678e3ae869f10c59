package conformance

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// balancerServiceRules are about Services and nodes as clusters have them: with a status, without nodes, with nodes of other clouds,
// and after a deletion that failed. Each was broken by a provider that people ran: see dev/docs/quirks.md.
func balancerServiceRules() []Rule {
	return []Rule{
		{
			ID:   "balancer-status-own",
			Text: "The status that is returned is the load balancer's, not the one that the Service has already.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancer",
				"Returns the status of the balancer"},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkStatusOwn,
		},
		{
			ID:   "balancer-without-nodes",
			Text: "A load balancer can lose its last node, and gets its nodes when there are some again.",
			Source: Source{"cloudprovider.LoadBalancer.UpdateLoadBalancer",
				"UpdateLoadBalancer updates hosts under the specified load balancer."},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkWithoutNodes,
		},
		{
			ID:   "balancer-foreign-node",
			Text: "A node whose provider ID is not of this provider does not keep the other nodes from being targets.",
			Source: Source{"cloudprovider.LoadBalancer.UpdateLoadBalancer",
				"UpdateLoadBalancer updates hosts under the specified load balancer."},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkForeignNode,
		},
		{
			ID:   "balancer-deleted-after-failure",
			Text: "A deletion that failed leaves nothing behind when it is repeated.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancerDeleted",
				"meaning a Get could say that the LB doesn't exist even if some part of it is still laying around."},
			Needs: []Need{NeedLoadBalancer, NeedInstance, NeedFault},
			check: checkDeletedAfterFailure,
		},
	}
}

func checkStatusOwn(ctx context.Context, t *trial) error {
	service, status, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	const stale = "192.0.2.250" // RFC 5737: no load balancer has it
	service.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: stale}}
	echoed := func(status *v1.LoadBalancerStatus) bool {
		return status != nil && slices.ContainsFunc(status.Ingress, func(ingress v1.LoadBalancerIngress) bool { return ingress.IP == stale })
	}
	ensured, err := t.ensure(ctx, service, nodes)
	if err != nil {
		return err
	}
	if echoed(ensured) {
		t.sawf("EnsureLoadBalancer returned the status that the service had, %v; before it was %v", ensured, status)
	}
	got, _, err := t.balancers().GetLoadBalancer(ctx, t.options.ClusterName, service)
	if err != nil {
		return fmt.Errorf("GetLoadBalancer: %w", err)
	}
	if echoed(got) {
		t.sawf("GetLoadBalancer returned the status that the service had, %v; before it was %v", got, status)
	}
	return nil
}

func checkWithoutNodes(ctx context.Context, t *trial) error {
	service, status, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	for _, targets := range [][]*v1.Node{nil, nodes} {
		if err := t.update(ctx, service, targets); err != nil {
			return fmt.Errorf("with %d nodes: %w", len(targets), err)
		}
		if err := t.hasBalancer(ctx, service, status); err != nil {
			return fmt.Errorf("after UpdateLoadBalancer with %d nodes: %w", len(targets), err)
		}
	}
	return nil
}

func checkForeignNode(ctx context.Context, t *trial) error {
	service, status, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	foreign := namedNode(types.NodeName("conformance-" + t.options.RunID + "-elsewhere"))
	foreign.Spec.ProviderID = "not-" + t.Cloud.ProviderName() + "://elsewhere/i-1"
	mixed := []*v1.Node{foreign, nodes[0]}
	if err := t.update(ctx, service, mixed); err != nil {
		return fmt.Errorf("with a node whose provider ID is %s: %w", foreign.Spec.ProviderID, err)
	}
	if _, err := t.ensure(ctx, service, mixed); err != nil {
		return fmt.Errorf("with a node whose provider ID is %s: %w", foreign.Spec.ProviderID, err)
	}
	return t.hasBalancer(ctx, service, status)
}

func checkDeletedAfterFailure(ctx context.Context, t *trial) error {
	service, _, _, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	failed := t.faulty(ctx, FaultError, func() {
		if err := t.balancers().EnsureLoadBalancerDeleted(ctx, t.options.ClusterName, service); err == nil {
			t.sawf("EnsureLoadBalancerDeleted: no error, although the cloud failed")
		}
	})
	if failed != nil {
		return failed
	}
	return t.eventually(ctx, func(ctx context.Context) error { return t.deleteBalancer(ctx, service) })
}
