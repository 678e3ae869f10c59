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
// of a call that failed. A change of a route whose last change is outstanding is left out, and gets that as its error.
func (c *client) changeRoutes(plugin provider.ChangeRoutesFunc) provider.ChangeRoutesFunc {
	return func(ctx context.Context, clusterName string, changes []provider.RouteChange) ([]error, error) {
		results := make([]error, len(changes))
		var free []provider.RouteChange
		var places []int
		var objects []string
		for i, change := range changes {
			object := destinationOf(change)
			if results[i] = c.queue.Outstanding(c.methods.About("ChangeRoutes", object)); results[i] == nil {
				free, places = append(free, change), append(places, i)
				objects = append(objects, object)
			}
		}
		if len(free) == 0 {
			return results, nil
		}
		made, err := once(ctx, c, c.methods.About("ChangeRoutes", objects...), func(ctx context.Context) (made routesMade, err error) {
			made.results, err = plugin(ctx, clusterName, copied(free, copyOfChange))
			if made.answered = err == nil; !made.answered {
				return made, err
			}
			for i := range made.results {
				if made.results[i] != nil && errors.Is(context.Cause(ctx), classify.ErrDeadline) {
					made.results[i] = fmt.Errorf("%w: %w", classify.ErrDeadline, made.results[i]) // the plugin's own words for it
				}
				made.results[i] = c.shown(classify.Error(made.results[i]))
			}
			return made, summaryOf(made.results)
		})
		if !made.answered {
			return nil, err
		}
		if len(free) == len(changes) {
			return made.results, nil
		}
		for i, result := range made.results {
			if i < len(places) { // what a plugin returns beyond its changes is dropped
				results[places[i]] = result
			}
		}
		return results, nil
	}
}

// routesMade is what a plugin's ChangeRoutes returned.
type routesMade struct {
	results  []error
	answered bool
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
