package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	cloudprovider "k8s.io/cloud-provider"
)

func (t *trial) routes() cloudprovider.Routes {
	routes, _ := t.Cloud.Routes()
	return routes
}

// route is a route to create.
func (t *trial) route(target Instance, destination string) *cloudprovider.Route {
	return &cloudprovider.Route{TargetNode: target.NodeName, DestinationCIDR: destination}
}

// hint is a hint for the name of a trial's n-th route, unique as the route controller's are.
func (t *trial) hint(n int) string { return string(t.uid(fmt.Sprintf("route-%d", n))) }

// willHaveRoute has the cluster's route to a destination removed when the trial has ended. It is called before the first call that may
// create the route. A route that exists already has another owner, and the trial neither uses nor removes it.
func (t *trial) willHaveRoute(ctx context.Context, destination string) error {
	if t.removesRoute(destination) {
		return nil
	}
	before, err := t.listRoutes(ctx)
	if err != nil {
		return err
	}
	for _, route := range before {
		if ofSuite(route.DestinationCIDR) && !t.removesRoute(route.DestinationCIDR) {
			return &brokenError{"route to " + route.DestinationCIDR,
				fmt.Errorf("cluster %s has it already; delete it if an earlier run left it behind", t.options.ClusterName)}
		}
	}
	t.removeLater("route to "+destination, func(ctx context.Context) error { return t.deleteRoutes(ctx, destination) })
	return nil
}

// removesRoute reports whether the trial will remove the route to a destination.
func (t *trial) removesRoute(destination string) bool {
	return slices.ContainsFunc(t.removals, func(r removal) bool { return r.what == "route to "+destination })
}

// deleteRoutes deletes the cluster's routes to a destination.
func (t *trial) deleteRoutes(ctx context.Context, destination string) error {
	left, err := t.listRoutes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, route := range left {
		if route.DestinationCIDR != destination {
			continue
		}
		errs = append(errs, fmt.Errorf("ListRoutes lists route %s", route.Name))
		if err := t.routes().DeleteRoute(ctx, t.options.ClusterName, route); err != nil {
			errs = append(errs, fmt.Errorf("DeleteRoute: %w", err))
		}
	}
	return errors.Join(errs...) // The next look finds it gone.
}

// createRoute creates a route that is removed when the trial has ended.
func (t *trial) createRoute(ctx context.Context, target Instance, destination string) error {
	if err := t.willHaveRoute(ctx, destination); err != nil {
		return err
	}
	return t.routes().CreateRoute(ctx, t.options.ClusterName, t.hint(len(t.removals)), t.route(target, destination))
}

// newRoutes creates routes to an instance and waits until they are listed.
func (t *trial) newRoutes(ctx context.Context, destinations ...string) (Instance, error) {
	target, err := t.instance(ctx)
	if err != nil {
		return target, err
	}
	for _, destination := range destinations {
		if err := t.createRoute(ctx, target, destination); err != nil {
			return target, fmt.Errorf("CreateRoute to %s: %w", destination, err)
		}
	}
	return target, t.routesTo(ctx, target, destinations...)
}

// listRoutes lists the cluster's routes.
func (t *trial) listRoutes(ctx context.Context) ([]*cloudprovider.Route, error) {
	all, err := t.routes().ListRoutes(ctx, t.options.ClusterName)
	if err != nil {
		return nil, fmt.Errorf("ListRoutes: %w", err)
	}
	if slices.Contains(all, nil) {
		return nil, errors.New("ListRoutes returned a route that is nil")
	}
	return all, nil
}

// errNotListed says that a route is not in the list.
var errNotListed = errors.New("not in the list")

// routeTo returns the cluster's route to a destination, or errNotListed if there is no such route.
func (t *trial) routeTo(ctx context.Context, destination string) (*cloudprovider.Route, error) {
	all, err := t.listRoutes(ctx)
	if err != nil {
		return nil, err
	}
	for _, route := range all {
		if route.DestinationCIDR == destination {
			return route, nil
		}
	}
	return nil, fmt.Errorf("ListRoutes: the route to %s is %w", destination, errNotListed)
}

// routesTo waits until each of these destinations has one route, to this instance, and no other destination of the suite has any.
func (t *trial) routesTo(ctx context.Context, target Instance, destinations ...string) error {
	return t.eventually(ctx, func(ctx context.Context) error {
		all, err := t.listRoutes(ctx)
		if err != nil {
			return err
		}
		times := map[string]int{}
		var wrong []error
		for _, route := range all {
			if !ofSuite(route.DestinationCIDR) {
				continue
			}
			times[route.DestinationCIDR]++
			if route.TargetNode != target.NodeName || route.Blackhole {
				wrong = append(wrong, fmt.Errorf("ListRoutes lists %s to node %q, black hole %t; its node is %q",
					route.DestinationCIDR, route.TargetNode, route.Blackhole, target.NodeName))
			}
			if !slices.Contains(destinations, route.DestinationCIDR) {
				wrong = append(wrong, fmt.Errorf("ListRoutes lists a route to %s, which should not be there", route.DestinationCIDR))
			}
		}
		for _, destination := range destinations {
			if times[destination] != 1 {
				wrong = append(wrong, fmt.Errorf("ListRoutes lists %d routes to %s", times[destination], destination))
			}
		}
		return errors.Join(wrong...)
	})
}

// ofSuite reports whether a destination is one that the suite makes routes to.
func ofSuite(destination string) bool {
	if destination == routePrefixIPv6 {
		return true
	}
	for n := range mostAtOnce {
		if destination == cidr(n) {
			return true
		}
	}
	return false
}

// other returns the provider of another cluster.
func (t *trial) other(ctx context.Context) (cloudprovider.Interface, string, error) {
	cloud, name, err := t.Hooks.OtherCluster(ctx)
	if err == nil && cloud == nil {
		err = errors.New("it returned no provider, and no error")
	}
	if err != nil {
		return nil, "", hookFailed("OtherCluster", err)
	}
	return cloud, name, nil
}
