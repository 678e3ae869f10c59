package cloud

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// changeRoutes puts a plugin's ChangeRoutes behind the door. What became of each change has the types that errors of calls have.
// If the cloud refused any of them for its quota, that is heard as of a call that was refused, and if it made none, as of a call
// that failed.
func (c *caller) changeRoutes(plugin provider.ChangeRoutesFunc) provider.ChangeRoutesFunc {
	return func(ctx context.Context, clusterName string, changes []provider.RouteChange) ([]error, error) {
		var results []error
		answered := false
		err := write(ctx, c, subject{"ChangeRoutes", routeCalls, objectOf(changes)}, func(ctx context.Context) (err error) {
			results, err = plugin(ctx, clusterName, changes)
			if answered = err == nil; !answered {
				return err
			}
			for i := range results {
				results[i] = classify(results[i])
			}
			return verdict(results)
		})
		if answered {
			return results, nil
		}
		return nil, err
	}
}

// objectOf is what changes are about: one destination, or none in particular.
func objectOf(changes []provider.RouteChange) string {
	switch {
	case len(changes) != 1:
		return ""
	case changes[0].New != nil:
		return changes[0].New.DestinationCIDR
	default:
		return changes[0].Old.DestinationCIDR
	}
}

// verdict is what the results of a call say of the cloud: a refusal for its quota if there is one, and any other error only if
// nothing worked.
func verdict(results []error) error {
	var first error
	worked := len(results) == 0
	for _, err := range results {
		switch {
		case err == nil:
			worked = true
		case provider.IsThrottled(err):
			return err
		case first == nil:
			first = err
		}
	}
	if worked {
		return nil
	}
	return first
}

// changeTargets puts a plugin's ChangeTargets behind the door.
func (c *caller) changeTargets(plugin provider.ChangeTargetsFunc) provider.ChangeTargetsFunc {
	return func(ctx context.Context, clusterName string, service *v1.Service, add, remove []*v1.Node) error {
		return write(ctx, c, subject{"ChangeTargets", loadBalancerCalls, key(service)}, func(ctx context.Context) error {
			return plugin(ctx, clusterName, service, add, remove)
		})
	}
}
