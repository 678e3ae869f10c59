package sim

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// changeTargets is provider.Capabilities.ChangeTargets: one call, by which the cloud itself sees whose the load balancer is. One that
// the cloud still works on, or whose creation failed, is an error.
func (c loadBalancers) changeTargets(ctx context.Context, clusterName string, service *v1.Service, add, remove []*v1.Node) error {
	change := api.TargetsChange{Tags: ownerTags(c.cluster(clusterName), service)}
	var err error
	if change.Add, err = c.targetsOf(ctx, add); err != nil {
		return err
	}
	if change.Remove, err = c.targetsOf(ctx, remove); err != nil {
		return err
	}
	name := cloudprovider.DefaultLoadBalancerName(service)
	if _, err := c.client.ChangeTargets(ctx, name, change); err != nil {
		return fmt.Errorf("targets of load balancer %s: %w", name, classify(err))
	}
	return nil
}
