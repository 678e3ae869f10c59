package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
)

func balancerOwnerRules() []Rule {
	return []Rule{
		{
			ID:     "balancer-same-name",
			Text:   "Two Services of one name and different UIDs, as two clusters of one name have them, have a load balancer each.",
			Source: Source{"provider.ClusterUID", "No two clusters have the same, whatever their names."},
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check:  checkSameName,
		},
		{
			ID:   "balancer-list-agrees",
			Text: "The list names a load balancer's Service, both UIDs, and the status that EnsureLoadBalancer returned.",
			Source: Source{"provider.LoadBalancer.ClusterUID",
				"ClusterUID is what ClusterUID(ctx) returned to the call that made the load balancer or last changed it"},
			Needs: []Need{NeedLoadBalancer, NeedListLoadBalancers, NeedInstance},
			check: checkBalancerListAgrees,
		},
		{
			ID:   "balancer-list-deleted",
			Text: "A load balancer that was deleted leaves the list.",
			Source: Source{"provider.Capabilities.ListLoadBalancers",
				"ListLoadBalancers lists every load balancer that the provider made for a cluster."},
			Needs: []Need{NeedLoadBalancer, NeedListLoadBalancers, NeedInstance},
			check: checkBalancerListDeleted,
		},
		{
			ID:   "balancer-other-cluster",
			Text: "Another cluster does not list, delete or change our load balancers.",
			Source: Source{"provider.Capabilities.ListLoadBalancers",
				"ListLoadBalancers lists every load balancer that the provider made for a cluster."},
			Needs: []Need{NeedLoadBalancer, NeedInstance, NeedOtherCluster},
			check: checkOtherClustersBalancer,
		},
	}
}

func checkSameName(ctx context.Context, t *trial) error {
	service, status, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	twin := service.DeepCopy()
	twin.UID = t.uid("twin")
	others := provider.WithClusterUID(ctx, t.uid("twin's cluster"))
	if _, err := t.ensure(others, twin, nodes); err != nil {
		return err
	}
	if err := t.eventually(others, func(ctx context.Context) error { return t.deleteBalancer(ctx, twin) }); err != nil {
		return err
	}
	if err := t.hasBalancer(ctx, service, status); err != nil {
		return fmt.Errorf("after the load balancer of a service with the same name and another UID was deleted: %w", err)
	}
	return nil
}

func checkBalancerListAgrees(ctx context.Context, t *trial) error {
	service, status, _, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		listed, err := t.listedBalancer(ctx, t.options.ClusterName, service)
		if err != nil {
			return err
		}
		if listed == nil {
			return fmt.Errorf("ListLoadBalancers does not list the load balancer of service %s", service.UID)
		}
		var wrong []error
		if want := (types.NamespacedName{Namespace: service.Namespace, Name: service.Name}); listed.Service != want {
			wrong = append(wrong, fmt.Errorf("ListLoadBalancers names service %q; it is %q", listed.Service, want))
		}
		// A provider that does not write down the cluster's UID says none, and gives up the collection of orphans.
		if listed.ClusterUID != "" && listed.ClusterUID != t.clusterUID() {
			wrong = append(wrong, fmt.Errorf("ListLoadBalancers names cluster UID %q; it is %q", listed.ClusterUID, t.clusterUID()))
		}
		if !reflect.DeepEqual(&listed.Status, status) {
			wrong = append(wrong, fmt.Errorf("ListLoadBalancers shows status %v; EnsureLoadBalancer returned %v", listed.Status, status))
		}
		return errors.Join(wrong...)
	})
}

func checkBalancerListDeleted(ctx context.Context, t *trial) error {
	service, _, _, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	if err := t.eventually(ctx, func(ctx context.Context) error { return t.deleteBalancer(ctx, service) }); err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		listed, err := t.listedBalancer(ctx, t.options.ClusterName, service)
		if err == nil && listed != nil {
			err = fmt.Errorf("ListLoadBalancers lists %s, which was deleted", listed.Name)
		}
		return err
	})
}

func checkOtherClustersBalancer(ctx context.Context, t *trial) error {
	service, status, _, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	other, otherName, err := t.other(ctx)
	if err != nil {
		return err
	}
	others := provider.WithClusterUID(ctx, t.uid("other cluster"))
	if list := provider.CapabilitiesOf(other).ListLoadBalancers; list != nil {
		listed, err := list(others, otherName)
		if err != nil {
			return fmt.Errorf("ListLoadBalancers of the other cluster: %w", err)
		}
		for _, balancer := range listed {
			if balancer.ServiceUID == service.UID {
				t.sawf("ListLoadBalancers of cluster %s lists %s, which is of cluster %s", otherName, balancer.Name, t.options.ClusterName)
			}
		}
	}
	balancers, ok := other.LoadBalancer()
	if !ok {
		return hookFailed("OtherCluster", errors.New("its provider offers no load balancers"))
	}
	// Whether this is an error is the provider's affair: it is asked to delete what is not its own.
	refused := balancers.EnsureLoadBalancerDeleted(others, otherName, service)
	if err := t.hasBalancer(ctx, service, status); err != nil {
		return fmt.Errorf("after the other cluster deleted the load balancer of that service, which returned %w: %w", orNil(refused), err)
	}
	return nil
}
