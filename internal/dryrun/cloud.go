package dryrun

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/provider"
)

// KnownLater stands in for what only the cloud can say once it has made something: the address of a load balancer.
const KnownLater = "known-after-apply.invalid"

// Cloud returns the plugin without its means to change anything. What a controller would have it do is noted, and counts as done.
//
// What a plugin does by itself, after Initialize, is beyond reach; its requests to the API server are held by ReadOnly.
func Cloud(of cloudprovider.Interface, journal *Journal) cloudprovider.Interface {
	return &rehearsedCloud{Interface: of, journal: journal}
}

type rehearsedCloud struct {
	cloudprovider.Interface
	journal *Journal
}

var _ provider.Capable = (*rehearsedCloud)(nil)

// Capabilities are those that read. Whatever changes goes through the plain interfaces, where it is noted.
func (c *rehearsedCloud) Capabilities() provider.Capabilities {
	offered := provider.CapabilitiesOf(c.Interface)
	return provider.Capabilities{
		ProviderIDSchemes: offered.ProviderIDSchemes,
		ListInstances:     offered.ListInstances,
		WatchInstances:    offered.WatchInstances,
		StandbySafe:       offered.StandbySafe,
		ListLoadBalancers: offered.ListLoadBalancers,
		MaxRoutes:         offered.MaxRoutes,
		ReplaceRoute:      c.replaceRoute(offered),
	}
}

// replaceRoute notes replacements where the plugin can replace: elsewhere the plan is another one.
func (c *rehearsedCloud) replaceRoute(offered provider.Capabilities) func(context.Context, string, *cloudprovider.Route, *cloudprovider.Route) error {
	if offered.ReplaceRoute == nil {
		return nil
	}
	return func(ctx context.Context, _ string, old, replacement *cloudprovider.Route) error {
		c.journal.note(routeIntent(ctx, "ReplaceRoute", Alters, replacement, []Change{{
			Path: "/targetNode", From: string(old.TargetNode), To: string(replacement.TargetNode),
		}}), nil)
		return nil
	}
}

func (c *rehearsedCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	plugin, offered := c.Interface.LoadBalancer()
	if !offered || plugin == nil {
		return nil, false
	}
	return &rehearsedBalancer{LoadBalancer: plugin, journal: c.journal,
		balancers: &balancerList{list: provider.CapabilitiesOf(c.Interface).ListLoadBalancers}}, true
}

func (c *rehearsedCloud) Routes() (cloudprovider.Routes, bool) {
	plugin, offered := c.Interface.Routes()
	if !offered || plugin == nil {
		return nil, false
	}
	return &rehearsedRoutes{Routes: plugin, journal: c.journal}, true
}

// rehearsedBalancer reads through the plugin and changes nothing.
type rehearsedBalancer struct {
	cloudprovider.LoadBalancer
	journal   *Journal
	balancers *balancerList
}

// EnsureLoadBalancer returns what there is. Where nothing is yet, the address is KnownLater. A load balancer that is merely refreshed is
// compared with what there is; if nothing differs, nothing is noted.
func (b *rehearsedBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	status, exists, err := b.GetLoadBalancer(ctx, clusterName, service)
	if err != nil {
		return nil, fmt.Errorf("looking for the load balancer: %w", err)
	}
	effect, changes := Creates, targets(nodes)
	if exists {
		effect = Alters
	}
	if exists && status != nil && refreshes(ctx) {
		listed, err := b.balancers.find(ctx, clusterName, service.UID)
		if err != nil {
			return nil, err
		}
		differ, notCompared := compareBalancer(service, nodes, status, listed)
		if len(differ) == 0 {
			b.journal.agrees(types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, notCompared)
			return status, nil
		}
		changes = differ
		ctx = Because(ctx, fmt.Sprintf("%s; not compared: %s", reason(ctx), strings.Join(notCompared, ", ")))
	}
	b.journal.note(b.intent(ctx, "EnsureLoadBalancer", effect, service, changes), nil)
	if exists && status != nil {
		return status, nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: KnownLater}}}, nil
}

// UpdateLoadBalancer notes the targets.
func (b *rehearsedBalancer) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	b.journal.note(b.intent(ctx, "UpdateLoadBalancer", Alters, service, targets(nodes)), nil)
	return nil
}

// EnsureLoadBalancerDeleted notes the deletion.
func (b *rehearsedBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	b.journal.note(b.intent(ctx, "EnsureLoadBalancerDeleted", Deletes, service, nil), nil)
	return nil
}

func (b *rehearsedBalancer) intent(ctx context.Context, verb string, effect Effect, service *corev1.Service, changes []Change,
) Intent {
	return Intent{
		Controller: names.ServiceLBController, Where: TheCloud, Verb: verb, Effect: effect, Kind: "Service",
		Namespace: service.Namespace, Name: service.Name, Why: reason(ctx), Changes: changes,
	}
}

// targets shows the nodes that a load balancer would have.
func targets(nodes []*corev1.Node) []Change {
	names := make([]any, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return []Change{{Path: "/targets", To: names}}
}

// rehearsedRoutes lists routes through the plugin and changes none.
type rehearsedRoutes struct {
	cloudprovider.Routes
	journal *Journal
}

// CreateRoute notes the route.
func (r *rehearsedRoutes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	r.journal.note(routeIntent(ctx, "CreateRoute", Creates, route, []Change{{Path: "/targetNode", To: string(route.TargetNode)}}), nil)
	return nil
}

// DeleteRoute notes the deletion.
func (r *rehearsedRoutes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	gone := []Change{{Path: "/targetNode", From: string(route.TargetNode)}}
	r.journal.note(routeIntent(ctx, "DeleteRoute", Deletes, route, gone), nil)
	return nil
}

func routeIntent(ctx context.Context, verb string, effect Effect, route *cloudprovider.Route, changes []Change) Intent {
	return Intent{
		Controller: names.NodeRouteController, Where: TheCloud, Verb: verb, Effect: effect, Kind: "Route", Name: route.DestinationCIDR,
		Why: reason(ctx), Changes: changes,
	}
}
