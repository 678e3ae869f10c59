package sim

import (
	"context"
	"strings"

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
	var listed []api.LoadBalancer
	hasTargets := false
	err := c.client.ListLoadBalancers(ctx, map[string]string{TagCluster: c.cluster(clusterName)}, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			listed = append(listed, balancer)
			hasTargets = hasTargets || len(balancer.Targets) > 0
		}
		return nil
	})
	if err != nil {
		return nil, classify(err)
	}
	names := map[string]string{}
	if hasTargets {
		err := c.client.ListInstances(ctx, func(page []api.Instance) error {
			for _, instance := range page {
				names[instance.ID] = instance.Name
			}
			return nil
		})
		if err != nil {
			return nil, classify(err)
		}
	}
	found := []provider.LoadBalancer{}
	for _, balancer := range listed {
		if balancer.Tags[TagServiceUID] != "" {
			found = append(found, listedBalancer(balancer, names))
		}
	}
	return found, nil
}

// listedBalancer is a load balancer as a list shows it. Names are those of nodes by the IDs of their instances.
func listedBalancer(balancer api.LoadBalancer, names map[string]string) provider.LoadBalancer {
	namespace, name, _ := strings.Cut(balancer.Tags[TagService], "/")
	listed := provider.LoadBalancer{
		Name:       balancer.Name,
		Service:    types.NamespacedName{Namespace: namespace, Name: name},
		ServiceUID: types.UID(balancer.Tags[TagServiceUID]),
		ClusterUID: types.UID(balancer.Tags[TagClusterUID]),
		Status:     *statusOf(balancer),
		Ports:      []v1.ServicePort{},
		Targets:    []types.NodeName{},
	}
	for _, listener := range balancer.Listeners {
		listed.Ports = append(listed.Ports, v1.ServicePort{
			Name: listener.Name, Protocol: v1.Protocol(listener.Protocol), Port: listener.Port, NodePort: listener.TargetPort,
		})
	}
	for _, id := range balancer.Targets {
		target := names[id]
		if target == "" {
			target = id
		}
		listed.Targets = append(listed.Targets, types.NodeName(target))
	}
	return listed
}
