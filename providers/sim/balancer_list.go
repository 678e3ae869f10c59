package sim

import (
	"cmp"
	"context"
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// balancerWrites is how many writes to load balancers may be under way at once. The cloud refuses one that rests on an outdated
// generation, so none is lost.
const balancerWrites = 8

// listBalancers lists the load balancers of a cluster, all of them or an error. Their targets are instances: where any has one,
// the instances are listed too, for the names of their nodes. A target whose instance is gone goes by its ID.
func (c *Cloud) listBalancers(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
	found := []provider.LoadBalancer{}
	hasTargets := false
	err := c.client.ListLoadBalancers(ctx, map[string]string{TagCluster: c.cluster(clusterName)}, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			hasTargets = hasTargets || len(balancer.Targets) > 0
			if balancer.Tags[TagServiceUID] != "" {
				found = append(found, listedBalancer(balancer))
			}
		}
		return nil
	})
	if err != nil {
		return nil, classify(err)
	}
	if !hasTargets {
		return found, nil
	}
	names := map[types.NodeName]types.NodeName{}
	err = c.client.ListInstances(ctx, func(page []api.Instance) error {
		for _, instance := range page {
			names[types.NodeName(instance.ID)] = types.NodeName(instance.Name)
		}
		return nil
	})
	if err != nil {
		return nil, classify(err)
	}
	for _, balancer := range found {
		for i, id := range balancer.Targets {
			balancer.Targets[i] = cmp.Or(names[id], id)
		}
	}
	return found, nil
}

// listedBalancer is a load balancer as a list shows it, with the IDs of its targets: the same instances are behind many.
func listedBalancer(balancer api.LoadBalancer) provider.LoadBalancer {
	namespace, name, _ := strings.Cut(balancer.Tags[TagService], "/")
	listed := provider.LoadBalancer{
		Name:       balancer.Name,
		Service:    types.NamespacedName{Namespace: namespace, Name: name},
		ServiceUID: types.UID(balancer.Tags[TagServiceUID]),
		ClusterUID: types.UID(balancer.Tags[TagClusterUID]),
		Status:     *statusOf(balancer),
		Ports:      []v1.ServicePort{},
		Targets:    make([]types.NodeName, 0, len(balancer.Targets)),
	}
	for _, listener := range balancer.Listeners {
		listed.Ports = append(listed.Ports, v1.ServicePort{
			Name: listener.Name, Protocol: v1.Protocol(listener.Protocol), Port: listener.Port, NodePort: listener.TargetPort,
		})
	}
	for _, id := range balancer.Targets {
		listed.Targets = append(listed.Targets, unique.Make(types.NodeName(id)).Value())
	}
	return listed
}
