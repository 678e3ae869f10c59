package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// The destinations of the suite's routes, from the ranges for documentation (RFC 5737, RFC 3849): nothing is reached by them.
var (
	routePrefixIPv4 = netip.MustParseAddr("203.0.113.0")
	routePrefixIPv6 = "2001:db8:113::/64"
)

// cidr returns the destination of a trial's n-th route.
func cidr(n int) string {
	base := routePrefixIPv4.As4()
	base[3] = byte(n * 16)
	return netip.PrefixFrom(netip.AddrFrom4(base), 28).String()
}

// routeRules are about one route after the other.
func routeRules() []Rule {
	return []Rule{
		{
			ID:     "routes-created",
			Text:   "A route that was created is listed, with its destination and its node, and is no black hole.",
			Source: Source{"cloudprovider.Routes.CreateRoute", "CreateRoute creates the described managed route"},
			Needs:  []Need{NeedRoutes, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				_, err := t.newRoutes(ctx, cidr(0))
				return err
			},
		},
		{
			ID:   "routes-several",
			Text: "A node can have several routes, of both families if IPv6 is taken at all, and each is listed.",
			Source: Source{"cloudprovider.Routes.ListRoutes",
				"ListRoutes lists all managed routes that belong to the specified clusterName"},
			Needs: []Need{NeedRoutes, NeedInstance},
			check: checkSeveralRoutes,
		},
		{
			ID:     "routes-created-again",
			Text:   "Creating a route again makes no second one and breaks none.",
			Source: Source{"cloudprovider.Routes.CreateRoute", "CreateRoute creates the described managed route"},
			Needs:  []Need{NeedRoutes, NeedInstance},
			check:  checkRouteAgain,
		},
		{
			ID:     "routes-name-ignored",
			Text:   "The name of a route to create means nothing: a route that has that name already stays as it is.",
			Source: Source{"cloudprovider.Routes.CreateRoute", "route.Name will be ignored"},
			Needs:  []Need{NeedRoutes, NeedInstance},
			check:  checkRouteName,
		},
		{
			ID:     "routes-deleted",
			Text:   "A route that was deleted as ListRoutes returned it is gone; the node's other routes stay.",
			Source: Source{"cloudprovider.Routes.DeleteRoute", "DeleteRoute deletes the specified managed route"},
			Needs:  []Need{NeedRoutes, NeedInstance},
			check:  func(ctx context.Context, t *trial) error { return checkRouteDeleted(ctx, t, 1) },
		},
		{
			ID:     "routes-delete-absent",
			Text:   "Deleting a route that is gone already deletes no other, whether or not it is an error.",
			Source: Source{"cloudprovider.Routes.DeleteRoute", "DeleteRoute deletes the specified managed route"},
			Needs:  []Need{NeedRoutes, NeedInstance},
			check:  func(ctx context.Context, t *trial) error { return checkRouteDeleted(ctx, t, 2) },
		},
	}
}

// routeSharingRules are about routes whose instance changes, several at once, and other clusters.
func routeSharingRules() []Rule {
	return []Rule{
		{
			ID:     "routes-black-hole",
			Text:   "A route whose instance was deleted is a black hole, or gone.",
			Source: Source{"cloudprovider.Route.Blackhole", "Blackhole is set to true if this is a blackhole route"},
			Needs:  []Need{NeedRoutes, NeedCreate, NeedDelete},
			check:  checkBlackHole,
		},
		{
			ID:   "routes-replaced",
			Text: "A route that is replaced goes to its new node, and there is one.",
			Source: Source{"provider.Capabilities.ReplaceRoute",
				"ReplaceRoute changes the target of a route in place, without a moment in which the destination has no route."},
			Needs: []Need{NeedRoutes, NeedReplaceRoute, NeedTwoInstances},
			check: checkRouteReplaced,
		},
		{
			ID:   "routes-concurrent",
			Text: "As many routes as RouteWrites says can be created at once, and none is lost.",
			Source: Source{"provider.Capabilities.RouteWrites",
				"RouteWrites is how many calls that change routes the provider bears at once."},
			Needs: []Need{NeedRoutes, NeedInstance},
			check: checkRoutesConcurrent,
		},
		{
			ID:   "routes-other-cluster",
			Text: "Another cluster's routes are not listed.",
			Source: Source{"cloudprovider.Routes.ListRoutes",
				"ListRoutes lists all managed routes that belong to the specified clusterName"},
			Needs: []Need{NeedRoutes, NeedInstance, NeedOtherCluster},
			check: checkOtherClustersRoutes,
		},
	}
}

func checkSeveralRoutes(ctx context.Context, t *trial) error {
	target, err := t.newRoutes(ctx, cidr(0), cidr(1))
	if err != nil {
		return err
	}
	var broken *brokenError
	if err := t.createRoute(ctx, target, routePrefixIPv6); errors.As(err, &broken) {
		return err
	} else if err != nil {
		return t.routesTo(ctx, target, cidr(0), cidr(1))
	}
	return t.routesTo(ctx, target, cidr(0), cidr(1), routePrefixIPv6)
}

func checkRouteAgain(ctx context.Context, t *trial) error {
	target, err := t.newRoutes(ctx, cidr(0))
	if err != nil {
		return err
	}
	again := t.createRoute(ctx, target, cidr(0))
	if err := t.routesTo(ctx, target, cidr(0)); err != nil {
		return fmt.Errorf("after CreateRoute of a route that exists, which returned %w: %w", orNil(again), err)
	}
	return nil
}

func checkRouteName(ctx context.Context, t *trial) error {
	target, err := t.newRoutes(ctx, cidr(0))
	if err != nil {
		return err
	}
	first, err := t.routeTo(ctx, cidr(0))
	if err != nil {
		return err
	}
	if err := t.willHaveRoute(ctx, cidr(1)); err != nil {
		return err
	}
	second := t.route(target, cidr(1))
	second.Name = first.Name
	if err := t.routes().CreateRoute(ctx, t.options.ClusterName, t.hint(1), second); err != nil {
		return fmt.Errorf("CreateRoute with the name of another route: %w", err)
	}
	return t.routesTo(ctx, target, cidr(0), cidr(1))
}

func checkRouteDeleted(ctx context.Context, t *trial, times int) error {
	target, err := t.newRoutes(ctx, cidr(0), cidr(1))
	if err != nil {
		return err
	}
	route, err := t.routeTo(ctx, cidr(0))
	if err != nil {
		return err
	}
	if err := t.routes().DeleteRoute(ctx, t.options.ClusterName, route); err != nil {
		return fmt.Errorf("DeleteRoute: %w", err)
	}
	if times > 1 {
		_ = t.routes().DeleteRoute(ctx, t.options.ClusterName, route)
	}
	return t.routesTo(ctx, target, cidr(1))
}

func checkBlackHole(ctx context.Context, t *trial) error {
	target, err := t.newRoutes(ctx, cidr(0))
	if err != nil {
		return err
	}
	if err := t.delete(ctx, target); err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		all, err := t.listRoutes(ctx)
		if err != nil {
			return err
		}
		for _, route := range all {
			if route.DestinationCIDR == cidr(0) && !route.Blackhole {
				return fmt.Errorf("ListRoutes lists %s by %q, whose instance was deleted, as no black hole",
					route.DestinationCIDR, route.TargetNode)
			}
		}
		return nil
	})
}

func checkRouteReplaced(ctx context.Context, t *trial) error {
	targets, err := t.instances(ctx, 2)
	if err != nil {
		return err
	}
	if err := t.createRoute(ctx, targets[0], cidr(0)); err != nil {
		return fmt.Errorf("CreateRoute: %w", err)
	}
	old, err := t.routeTo(ctx, cidr(0))
	if err != nil {
		return err
	}
	replace := provider.CapabilitiesOf(t.Cloud).ReplaceRoute
	if err := replace(ctx, t.options.ClusterName, old, t.route(targets[1], cidr(0))); err != nil {
		return fmt.Errorf("ReplaceRoute: %w", err)
	}
	return t.routesTo(ctx, targets[1], cidr(0))
}

func checkRoutesConcurrent(ctx context.Context, t *trial) error {
	writes := provider.CapabilitiesOf(t.Cloud).RouteWrites
	if writes == 0 {
		writes = mostAtOnce // It does not say, and the manager's own bound holds.
	}
	target, err := t.instance(ctx)
	if err != nil {
		return err
	}
	var destinations []string
	for i := range min(writes, mostAtOnce) {
		destinations = append(destinations, cidr(i))
		if err := t.willHaveRoute(ctx, cidr(i)); err != nil {
			return err
		}
	}
	err = atOnce(len(destinations), func(i int) error {
		return t.routes().CreateRoute(ctx, t.options.ClusterName, t.hint(i), t.route(target, destinations[i]))
	})
	if err != nil {
		return fmt.Errorf("CreateRoute, %d at once: %w", len(destinations), err)
	}
	return t.routesTo(ctx, target, destinations...)
}

func checkOtherClustersRoutes(ctx context.Context, t *trial) error {
	if _, err := t.newRoutes(ctx, cidr(0)); err != nil {
		return err
	}
	other, otherName, err := t.other(ctx)
	if err != nil {
		return err
	}
	routes, ok := other.Routes()
	if !ok {
		return hookFailed("OtherCluster", errors.New("its provider offers no routes"))
	}
	listed, err := routes.ListRoutes(ctx, otherName)
	if err != nil {
		return fmt.Errorf("ListRoutes of the other cluster: %w", err)
	}
	for _, route := range listed {
		if route.DestinationCIDR == cidr(0) {
			t.sawf("ListRoutes of cluster %s lists %s to %s, which is of cluster %s",
				otherName, route.Name, route.DestinationCIDR, t.options.ClusterName)
		}
	}
	return nil
}

func routeFailureRules() []Rule {
	return []Rule{
		{
			ID:   "routes-failure",
			Text: "When the cloud fails, changing routes is an error, and a list of them is an error or whole, never short.",
			Source: Source{"cloudprovider.Routes.ListRoutes",
				"ListRoutes lists all managed routes that belong to the specified clusterName"},
			Needs: []Need{NeedRoutes, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.routeCalls(ctx)
				if err != nil {
					return err
				}
				return t.failWithCloud(ctx, FaultError, calls)
			},
		},
		{
			ID:     "routes-context",
			Text:   "A call whose context has been canceled returns soon, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedRoutes, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.routeCalls(ctx)
				if err != nil {
					return err
				}
				t.endWithContext(ctx, calls)
				return nil
			},
		},
		{
			ID:     "routes-deadline",
			Text:   "A call that the cloud does not answer returns by its deadline, with an error or the right answer.",
			Source: contexts,
			Needs:  []Need{NeedRoutes, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				calls, err := t.routeCalls(ctx)
				if err != nil {
					return err
				}
				return t.endWithDeadline(ctx, calls)
			},
		},
	}
}

// routeCalls are calls for a route that exists. The calls that change routes cannot be answered without the cloud.
func (t *trial) routeCalls(ctx context.Context) ([]named, error) {
	target, err := t.newRoutes(ctx, cidr(0))
	if err != nil {
		return nil, err
	}
	existing, err := t.routeTo(ctx, cidr(0))
	if err != nil {
		return nil, err
	}
	if err := t.willHaveRoute(ctx, cidr(1)); err != nil {
		return nil, err
	}
	routes, cluster := t.routes(), t.options.ClusterName
	calls := []named{
		{"ListRoutes", func(ctx context.Context) error {
			_, err := t.routeTo(ctx, cidr(0))
			if errors.Is(err, errNotListed) {
				return nil
			}
			return answered(true, err)
		}},
		{"CreateRoute", func(ctx context.Context) error {
			return routes.CreateRoute(ctx, cluster, t.hint(1), t.route(target, cidr(1)))
		}},
		{"DeleteRoute", func(ctx context.Context) error {
			return routes.DeleteRoute(ctx, cluster, &cloudprovider.Route{
				Name: existing.Name, TargetNode: existing.TargetNode, DestinationCIDR: existing.DestinationCIDR,
			})
		}},
	}
	if change := provider.CapabilitiesOf(t.Cloud).ChangeRoutes; change != nil {
		calls = append(calls, named{"ChangeRoutes", func(ctx context.Context) error {
			results, err := change(ctx, cluster, []provider.RouteChange{{New: t.route(target, cidr(1)), NameHint: t.hint(1)}})
			return cmp.Or(err, errors.Join(results...))
		}})
	}
	return calls, nil
}
