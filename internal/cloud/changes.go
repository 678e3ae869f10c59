package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// changeRoutes lets a plugin's ChangeRoutes through the queue. What became of each change has the types that errors of calls
// have. If the cloud refused any of them for its quota, that counts as a call that was refused, and if it made none, as
// of a call that failed. A change of a route whose last change has not returned is left out, and gets that as its error; but one that is
// alone here, and was one of several there, is made.
func (c *client) changeRoutes(plugin provider.ChangeRoutesFunc) provider.ChangeRoutesFunc {
	return func(ctx context.Context, clusterName string, changes []provider.RouteChange) ([]error, error) {
		results := make([]error, len(changes))
		var free []provider.RouteChange
		var places []int
		about := c.about("ChangeRoutes", "")
		about.changes = map[string]string{}
		for i, change := range changes {
			one := c.about("ChangeRoutes", destinationOf(change))
			if len(changes) == 1 {
				one.changes = map[string]string{one.object: textOf(change)}
			}
			if results[i] = c.queue.locked(one); results[i] == nil {
				free, places = append(free, change), append(places, i)
				about.several = append(about.several, one.object)
				about.changes[one.object] = textOf(change)
			}
		}
		if len(free) == 0 {
			return results, nil
		}
		if len(free) == 1 {
			about.object, about.several = about.several[0], nil
		}
		made, err := write(ctx, c, about, func(ctx context.Context) (made routesMade, err error) {
			made.results, err = plugin(ctx, clusterName, free)
			if made.answered = err == nil; !made.answered {
				return made, err
			}
			for i := range made.results {
				if made.results[i] != nil && errors.Is(context.Cause(ctx), ErrDeadline) {
					made.results[i] = fmt.Errorf("%w: %w", ErrDeadline, made.results[i]) // the plugin's own words for it
				}
				made.results[i] = c.shown(classify(made.results[i]))
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
			if i < len(places) { // what a plugin returns beyond its changes is for nobody
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

// textOf names what a change does: two that have the same are the same change.
func textOf(change provider.RouteChange) string {
	var parts []string
	for _, route := range []*cloudprovider.Route{change.Old, change.New} {
		if route == nil {
			parts = append(parts, "none")
			continue
		}
		parts = append(parts, fmt.Sprintf("%q", []string{route.Name, string(route.TargetNode), route.DestinationCIDR}))
	}
	if change.New != nil {
		var addresses []string
		for _, address := range change.New.TargetNodeAddresses {
			addresses = append(addresses, fmt.Sprintf("%q", []string{string(address.Type), address.Address}))
		}
		slices.Sort(addresses)
		parts = append(append(parts, fmt.Sprintf("%q", change.NameHint)), addresses...)
	}
	return strings.Join(parts, " ")
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
		return c.change(ctx, c.about("ChangeTargets", key(service)), func(ctx context.Context) error {
			return plugin(ctx, clusterName, service.DeepCopy(), add, remove)
		})
	}
}
