package sim

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// routes is cloudprovider.Routes. The name of a route is its ID in the cloud.
type routes struct{ *Cloud }

// ListRoutes lists the routes of the cluster, all of them or none and an error. A route whose instance is gone is a black hole.
func (c routes) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	found := []*cloudprovider.Route{}
	err := c.client.ListRoutes(ctx, c.cluster(clusterName), func(page []api.Route) error {
		for _, route := range page {
			found = append(found, &cloudprovider.Route{
				Name:            route.ID,
				TargetNode:      types.NodeName(route.TargetName),
				DestinationCIDR: route.DestinationCIDR,
				Blackhole:       route.Blackhole,
			})
		}
		return nil
	})
	if err != nil {
		return nil, classify(err)
	}
	return found, nil
}

// CreateRoute creates a route of the cluster to the instance with the node's name. If it exists already, nothing happens; if
// the cluster has a route to that CIDR by another instance, that is an error.
func (c routes) CreateRoute(ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route) error {
	target, err := c.instanceByName(ctx, route.TargetNode)
	if err != nil {
		return fmt.Errorf("route to %s: its node %s: %w", route.DestinationCIDR, route.TargetNode, err)
	}
	_, err = c.client.CreateRoute(ctx, api.RouteSpec{
		Cluster: c.cluster(clusterName), Name: nameHint, DestinationCIDR: route.DestinationCIDR, TargetInstance: target.ID,
	})
	if err != nil {
		return fmt.Errorf("route to %s: %w", route.DestinationCIDR, classify(err))
	}
	return nil
}

// replace is provider.Capabilities.ReplaceRoute.
func (c routes) replace(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
	target, err := c.instanceByName(ctx, replacement.TargetNode)
	if err != nil {
		return fmt.Errorf("route %s to %s: its node %s: %w", old.Name, old.DestinationCIDR, replacement.TargetNode, err)
	}
	_, err = c.client.ReplaceRoute(ctx, old.Name, api.RouteSpec{
		Cluster: c.cluster(clusterName), DestinationCIDR: old.DestinationCIDR, TargetInstance: target.ID,
	})
	if err != nil {
		return fmt.Errorf("route %s to %s: %w", old.Name, old.DestinationCIDR, classify(err))
	}
	return nil
}

// DeleteRoute deletes a route that ListRoutes returned. If it is gone already, that is fine.
func (c routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	if err := c.client.DeleteRoute(ctx, route.Name); err != nil && !isNotFound(err) {
		return fmt.Errorf("route %s to %s: %w", route.Name, route.DestinationCIDR, classify(err))
	}
	return nil
}
