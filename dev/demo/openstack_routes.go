package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// routes has the router of the project send the packets for pods to their servers.
func (p *privateCloud) routes() section {
	return section{name: "routes", title: "Routes", steps: []step{
		{
			name: "made", title: "the router has a route to the pods of every node, and every node knows that", deadline: cloudDeadline,
			run: p.awaitRoutes,
		},
		{name: "repaired", title: "a route is removed from the router, and is made again", deadline: cloudDeadline, run: p.removeRoute},
	}}
}

func (p *privateCloud) awaitRoutes(ctx context.Context, s *environment) (string, error) {
	nodes, err := awaitNetworks(ctx, s)
	if err != nil {
		return "", err
	}
	found, err := p.awaitRouter(ctx, func(found []routers.Route) error {
		return eachOf(slices.Sorted(maps.Keys(nodes)), func(name string) error { return routed(found, nodes[name]) })
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, for example to %s by way of %s", words.Count(len(found), "route", "routes"), found[0].DestinationCIDR, found[0].NextHop), nil
}

// routed returns an error unless the pods of a node are reached by way of it.
func routed(found []routers.Route, node *corev1.Node) error {
	want := routers.Route{DestinationCIDR: node.Spec.PodCIDR, NextHop: addressOf(node, corev1.NodeInternalIP)}
	if !slices.Contains(found, want) {
		return fmt.Errorf("the route to %s by way of %s", want.DestinationCIDR, want.NextHop)
	}
	return nil
}

// awaitRouter waits until nothing is missing among the router's routes, and returns them.
func (p *privateCloud) awaitRouter(ctx context.Context, missing func([]routers.Route) error) (found []routers.Route, err error) {
	err = awaitCloud(ctx, func() error {
		router, err := routers.Get(ctx, p.environment.Clients().Network, p.environment.Router).Extract()
		if err != nil {
			return err
		}
		found = router.Routes
		return missing(found)
	})
	return found, err
}

func (p *privateCloud) removeRoute(ctx context.Context, s *environment) (string, error) {
	all, err := p.awaitRouter(ctx, func([]routers.Route) error { return nil })
	if err != nil {
		return "", err
	}
	removed := all[0]
	err = extraroutes.Remove(ctx, p.environment.Clients().Network, p.environment.Router, extraroutes.Opts{Routes: &[]routers.Route{removed}}).Err
	if err != nil {
		return "", err
	}
	began := time.Now()
	_, err = p.awaitRouter(ctx, func(found []routers.Route) error {
		if !slices.Contains(found, removed) {
			return fmt.Errorf("there is no route to %s by way of %s", removed.DestinationCIDR, removed.NextHop)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("to %s by way of %s, after %s; the replicas compare the routes every %s", removed.DestinationCIDR, removed.NextHop,
		seconds(time.Since(began)), routePeriod), nil
}
