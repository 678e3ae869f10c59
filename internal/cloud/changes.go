package cloud

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

// changeRoutes lets a plugin's ChangeRoutes through the queue. What became of each change has the types that errors of calls
// have. If the cloud refused any of them for its quota, that counts as a call that was refused, and if it made none, as
// of a call that failed. None is made beside an outstanding call about one of the routes.
func (c *client) changeRoutes(plugin provider.ChangeRoutesFunc) provider.ChangeRoutesFunc {
	return func(ctx context.Context, clusterName string, changes []provider.RouteChange) ([]error, error) {
		objects := make([]string, len(changes))
		for i, change := range changes {
			objects[i] = destinationOf(change)
		}
		results, err := once(ctx, c, c.methods.About("ChangeRoutes", objects...), func(ctx context.Context) ([]error, error) {
			answers, err := plugin(ctx, clusterName, copied(changes, copyOfChange))
			if err != nil {
				return nil, err
			}
			results := make([]error, len(answers)) // not nil: the plugin has answered
			for i, answer := range answers {
				if answer != nil && errors.Is(context.Cause(ctx), classify.ErrDeadline) {
					answer = fmt.Errorf("%w: %w", classify.ErrDeadline, answer) // the plugin's own words for it
				}
				results[i] = c.shown(classify.Error(answer))
			}
			return results, summaryOf(results)
		})
		if results == nil {
			return nil, err
		}
		return results, nil
	}
}

// destinationOf is what a change is about.
func destinationOf(change provider.RouteChange) string {
	if change.New != nil {
		return change.New.DestinationCIDR
	}
	return change.Old.DestinationCIDR
}

// summaryOf is what the results of a call say of the cloud: a refusal for its quota if there is one, and any other error only if
// nothing worked.
func summaryOf(results []error) error {
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

// changeTargets lets a plugin's ChangeTargets through the queue.
func (c *client) changeTargets(plugin provider.ChangeTargetsFunc) provider.ChangeTargetsFunc {
	return func(ctx context.Context, clusterName string, service *v1.Service, add, remove []*v1.Node) error {
		return c.change(ctx, c.methods.About("ChangeTargets", key(service)), func(ctx context.Context) error {
			return plugin(ctx, clusterName, service.DeepCopy(), copiesOf(add), copiesOf(remove))
		})
	}
}
