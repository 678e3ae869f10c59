package sim

import (
	"context"
	"fmt"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// change is provider.Capabilities.ChangeRoutes. The cloud finds the targets by their names, so a batch is one call of it.
func (c routes) change(ctx context.Context, clusterName string, changes []provider.RouteChange) ([]error, error) {
	asked := make([]api.RouteChange, len(changes))
	for i, change := range changes {
		if change.Old != nil {
			asked[i].ID = change.Old.Name
		}
		if change.New == nil {
			continue
		}
		asked[i].Spec = &api.RouteSpec{Cluster: c.cluster(clusterName), Name: change.NameHint, DestinationCIDR: change.New.DestinationCIDR}
		asked[i].TargetName = string(change.New.TargetNode)
	}
	results, err := c.client.ChangeRoutes(ctx, asked)
	if err != nil {
		return nil, classify(err)
	}
	for i, err := range results {
		deletion := changes[i].New == nil
		switch {
		case err == nil:
		case deletion && isNotFound(err):
			results[i] = nil // it is gone already
		case deletion:
			results[i] = fmt.Errorf("route %s to %s: %w", changes[i].Old.Name, changes[i].Old.DestinationCIDR, classify(err))
		default:
			results[i] = fmt.Errorf("route to %s: %w", changes[i].New.DestinationCIDR, classify(err))
		}
	}
	return results, nil
}
