package conformance

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

func balancerChangeRules() []Rule {
	return []Rule{
		{
			ID:   "balancer-change-targets",
			Text: "ChangeTargets adds its nodes to the targets and takes others out; all other targets stay.",
			Source: Source{"provider.ChangeTargetsFunc",
				"ChangeTargetsFunc adds nodes to the targets of a Service's load balancer, and takes others out; all other targets stay."},
			Needs: []Need{NeedLoadBalancer, NeedChangeTargets, NeedTwoInstances},
			check: checkChangeTargets,
		},
		{
			ID:   "balancer-change-targets-again",
			Text: "Adding a target that is there already and taking out one that is not there is no error and changes nothing.",
			Source: Source{"provider.ChangeTargetsFunc",
				"what is there already is not added again, what is not there is not missed"},
			Needs: []Need{NeedLoadBalancer, NeedChangeTargets, NeedTwoInstances},
			check: checkChangeTargetsAgain,
		},
		{
			ID:     "balancer-change-targets-absent",
			Text:   "ChangeTargets of a Service without a load balancer is an error, and creates none.",
			Source: Source{"provider.ChangeTargetsFunc", "A load balancer that does not exist is an error"},
			Needs:  []Need{NeedLoadBalancer, NeedChangeTargets, NeedInstance},
			check:  checkChangeTargetsAbsent,
		},
	}
}

// changeTargets changes the targets of a Service's load balancer by a difference.
func (t *trial) changeTargets(ctx context.Context, service *v1.Service, add, remove []*v1.Node) error {
	err := t.retried(ctx, func(ctx context.Context) error {
		return provider.CapabilitiesOf(t.Cloud).ChangeTargets(ctx, t.options.ClusterName, service, add, remove)
	})
	if err != nil {
		return fmt.Errorf("ChangeTargets, %d more and %d less: %w", len(add), len(remove), err)
	}
	return nil
}

func checkChangeTargets(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 2)
	if err != nil {
		return err
	}
	first, second := nodes[:1], nodes[1:]
	service := t.service()
	if _, err := t.ensure(ctx, service, first); err != nil {
		return err
	}
	for _, step := range []struct{ add, remove, want []*v1.Node }{
		{second, nil, nodes}, {nil, first, second}, {first, second, first}, {nil, first, nil},
	} {
		if err := t.changeTargets(ctx, service, step.add, step.remove); err != nil {
			return err
		}
		if err := t.hasTargets(ctx, service, step.want); err != nil {
			return err
		}
	}
	return nil
}

func checkChangeTargetsAgain(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 2)
	if err != nil {
		return err
	}
	service := t.service()
	if _, err := t.ensure(ctx, service, nodes[1:]); err != nil {
		return err
	}
	for range 2 {
		if err := t.changeTargets(ctx, service, nodes[:1], nodes[1:]); err != nil {
			return err
		}
		if err := t.hasTargets(ctx, service, nodes[:1]); err != nil {
			return err
		}
	}
	return nil
}

func checkChangeTargetsAbsent(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return err
	}
	service := t.service()
	t.willHave(service)
	if err := provider.CapabilitiesOf(t.Cloud).ChangeTargets(ctx, t.options.ClusterName, service, nodes, nil); err == nil {
		t.sawf("ChangeTargets of a load balancer that does not exist: no error")
	}
	return t.lacksBalancer(ctx, service)
}
