package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// balancerRules are about load balancers that come and go.
func balancerRules() []Rule {
	return []Rule{
		{
			ID:   "balancer-absent",
			Text: "A Service that never had a load balancer has none: exists is false, and no error.",
			Source: Source{"cloudprovider.LoadBalancer.GetLoadBalancer",
				"GetLoadBalancer returns whether the specified load balancer exists, and if so, what its status is."},
			Needs: []Need{NeedLoadBalancer},
			check: func(ctx context.Context, t *trial) error { return t.lacksBalancer(ctx, t.service()) },
		},
		{
			ID:   "balancer-delete-absent",
			Text: "Deleting a load balancer that does not exist succeeds.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancerDeleted",
				"returning nil if the load balancer specified either didn't exist or was successfully deleted"},
			Needs: []Need{NeedLoadBalancer},
			check: func(ctx context.Context, t *trial) error {
				if err := t.balancers().EnsureLoadBalancerDeleted(ctx, t.options.ClusterName, t.service()); err != nil {
					return fmt.Errorf("EnsureLoadBalancerDeleted of what does not exist: %w", err)
				}
				return nil
			},
		},
		{
			ID:     "balancer-ensured-exists",
			Text:   "A load balancer that was ensured exists, with the status that EnsureLoadBalancer returned.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancer", "Returns the status of the balancer"},
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				service, status, _, err := t.ensureNew(ctx)
				if err != nil {
					return err
				}
				return t.hasBalancer(ctx, service, status)
			},
		},
		{
			ID:   "balancer-ensure-again",
			Text: "Ensuring a load balancer again changes nothing: its status stays, and its Service has one.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancer",
				"creates a new load balancer 'name', or updates the existing one"},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkEnsureAgain,
		},
		{
			ID:     "balancer-name",
			Text:   "A load balancer has a name that is not empty, stays, and is no other Service's.",
			Source: Source{"cloudprovider.LoadBalancer.GetLoadBalancerName", "GetLoadBalancerName returns the name of the load balancer."},
			Needs:  []Need{NeedLoadBalancer},
			check:  checkBalancerName,
		},
		{
			ID:   "balancer-deleted",
			Text: "A load balancer that was deleted does not exist, and deleting it again succeeds.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancerDeleted",
				"EnsureLoadBalancerDeleted deletes the specified load balancer if it exists"},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkBalancerDeleted,
		},
		{
			ID:   "balancer-read-only",
			Text: "Services, nodes and the list of nodes are not modified by any call.",
			Source: Source{"cloudprovider.LoadBalancer.EnsureLoadBalancer",
				"Implementations must treat the *v1.Service and *v1.Node parameters as read-only and not modify them."},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkBalancerReadOnly,
		},
	}
}

// balancerTargetRules are about the nodes behind a load balancer, and about several at once.
func balancerTargetRules() []Rule {
	return []Rule{
		{
			ID:     "balancer-targets",
			Text:   "Traffic goes to the nodes of EnsureLoadBalancer, each once, and to no others.",
			Source: Source{"provider.LoadBalancer.Targets", "Targets are the nodes that traffic goes to."},
			Needs:  []Need{NeedLoadBalancer, NeedTwoInstances},
			check:  checkBalancerTargets,
		},
		{
			ID:   "balancer-update-targets",
			Text: "UpdateLoadBalancer makes its nodes the targets: it removes targets that are not among them, and adds new ones.",
			Source: Source{"cloudprovider.LoadBalancer.UpdateLoadBalancer",
				"UpdateLoadBalancer updates hosts under the specified load balancer."},
			Needs: []Need{NeedLoadBalancer, NeedTwoInstances},
			check: checkUpdateTargets,
		},
		{
			ID:   "balancer-update-creates-nothing",
			Text: "UpdateLoadBalancer of a Service without a load balancer creates none.",
			Source: Source{"cloudprovider.LoadBalancer.UpdateLoadBalancer",
				"UpdateLoadBalancer updates hosts under the specified load balancer."},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkUpdateCreatesNothing,
		},
		{
			ID:   "balancer-concurrent",
			Text: "As many load balancers as LoadBalancerWrites says can be ensured and updated at once, and none is lost.",
			Source: Source{"provider.Capabilities.LoadBalancerWrites",
				"LoadBalancerWrites is how many calls that change load balancers the provider bears at once, for different Services."},
			Needs: []Need{NeedLoadBalancer, NeedBalancerWrites, NeedInstance},
			check: checkBalancersConcurrent,
		},
	}
}

func checkEnsureAgain(ctx context.Context, t *trial) error {
	service, first, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	second, err := t.ensure(ctx, service, nodes)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(first, second) {
		t.sawf("EnsureLoadBalancer returned %v, then %v", first, second)
	}
	if provider.CapabilitiesOf(t.Cloud).ListLoadBalancers != nil {
		_, err = t.listedBalancer(ctx, t.options.ClusterName, service)
	}
	return err
}

func checkBalancerName(ctx context.Context, t *trial) error {
	service, other := t.service(), t.service()
	name := func(service *v1.Service) string {
		return t.balancers().GetLoadBalancerName(ctx, t.options.ClusterName, service.DeepCopy())
	}
	first, second, others := name(service), name(service), name(other)
	if first == "" || first != second || first == others {
		t.sawf("GetLoadBalancerName returned %q, then %q, and for another service %q", first, second, others)
	}
	return nil
}

func checkBalancerDeleted(ctx context.Context, t *trial) error {
	service, _, _, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		if err := t.eventually(ctx, func(ctx context.Context) error { return t.deleteBalancer(ctx, service) }); err != nil {
			return err
		}
	}
	return nil
}

func checkBalancerReadOnly(ctx context.Context, t *trial) error {
	given, err := t.nodes(ctx, t.some())
	if err != nil {
		return err
	}
	// The last name comes first, and a place is left behind the end: what a provider sorts or appends shows.
	slices.SortFunc(given, func(a, b *v1.Node) int { return strings.Compare(b.Name, a.Name) })
	given = append(given, nil)
	service := t.service()
	untouched := service.DeepCopy()
	var nodes []*v1.Node
	restore := func() {
		service, nodes = untouched.DeepCopy(), nil
		for _, node := range given {
			nodes = append(nodes, node.DeepCopy())
		}
		nodes = nodes[:len(given)-1]
	}
	restore()
	compare := func(call string) {
		if all := nodes[:len(given)]; !reflect.DeepEqual(service, untouched) || !reflect.DeepEqual(all, given) {
			t.sawf("%s modified the service or the nodes that it was given: %v, %v", call, service, all)
			restore()
		}
	}
	t.balancers().GetLoadBalancerName(ctx, t.options.ClusterName, service)
	compare("GetLoadBalancerName")
	if _, err := t.ensure(ctx, service, nodes); err != nil {
		return err
	}
	compare("EnsureLoadBalancer")
	if _, _, err := t.balancers().GetLoadBalancer(ctx, t.options.ClusterName, service); err != nil {
		return fmt.Errorf("GetLoadBalancer: %w", err)
	}
	compare("GetLoadBalancer")
	if err := t.update(ctx, service, nodes); err != nil {
		return err
	}
	compare("UpdateLoadBalancer")
	err = t.retried(ctx, func(ctx context.Context) error {
		return t.balancers().EnsureLoadBalancerDeleted(ctx, t.options.ClusterName, service)
	})
	if err != nil {
		return fmt.Errorf("EnsureLoadBalancerDeleted: %w", err)
	}
	compare("EnsureLoadBalancerDeleted")
	return nil
}

func checkBalancerTargets(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 2)
	if err != nil {
		return err
	}
	service := t.service()
	for _, targets := range [][]*v1.Node{nodes, nodes[:1]} {
		if _, err := t.ensure(ctx, service, targets); err != nil {
			return err
		}
		if err := t.hasTargets(ctx, service, targets); err != nil {
			return err
		}
	}
	return nil
}

func checkUpdateTargets(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 2)
	if err != nil {
		return err
	}
	service := t.service()
	if _, err := t.ensure(ctx, service, nodes[:1]); err != nil {
		return err
	}
	for _, targets := range [][]*v1.Node{nodes, nodes[1:], nil} {
		if err := t.update(ctx, service, targets); err != nil {
			return err
		}
		if err := t.hasTargets(ctx, service, targets); err != nil {
			return err
		}
	}
	return nil
}

func checkUpdateCreatesNothing(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return err
	}
	service := t.service()
	t.willHave(service)
	// Whether it is an error is left to the provider: the service controller looks whether the load balancer exists when it is.
	updated := t.balancers().UpdateLoadBalancer(ctx, t.options.ClusterName, service, nodes)
	if err := t.lacksBalancer(ctx, service); err != nil {
		return fmt.Errorf("UpdateLoadBalancer of what does not exist returned %w; then %w", orNil(updated), err)
	}
	return nil
}

// mostAtOnce bounds what a trial makes at once, whatever the provider bears.
const mostAtOnce = 4

func checkBalancersConcurrent(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return err
	}
	services := make([]*v1.Service, min(provider.CapabilitiesOf(t.Cloud).LoadBalancerWrites, mostAtOnce))
	for i := range services {
		services[i] = t.service()
		t.willHave(services[i])
	}
	statuses := make([]*v1.LoadBalancerStatus, len(services))
	err = atOnce(len(services), func(i int) (err error) {
		statuses[i], err = t.ensure(ctx, services[i], nodes)
		return err
	})
	if err != nil {
		return fmt.Errorf("%d at once: %w", len(services), err)
	}
	if err := atOnce(len(services), func(i int) error { return t.update(ctx, services[i], nil) }); err != nil {
		return fmt.Errorf("%d at once: %w", len(services), err)
	}
	for i, service := range services {
		if err := t.hasBalancer(ctx, service, statuses[i]); err != nil {
			t.sawf("after %d were ensured at once: %v", len(services), err)
		}
	}
	return nil
}

// atOnce makes calls at the same time and joins their errors.
func atOnce(count int, call func(i int) error) error {
	errs := make([]error, count)
	var calls sync.WaitGroup
	for i := range count {
		calls.Go(func() { errs[i] = guarded(func() error { return call(i) }) })
	}
	calls.Wait()
	return errors.Join(errs...)
}
