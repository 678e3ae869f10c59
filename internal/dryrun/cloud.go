package dryrun

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/provider"
)

// KnownLater stands in for what only the cloud can say once it has made something: the address of a load balancer.
const KnownLater = "known-after-apply.invalid"

// Cloud returns the plugin without its means to change anything. What a controller would have it do is recorded, and counts as done.
//
// What a plugin does by itself, after Initialize, is beyond reach; its requests to the API server are held by ReadOnly.
func Cloud(of cloudprovider.Interface, recorder *Recorder) cloudprovider.Interface {
	return &recordingCloud{Interface: of, recorder: recorder}
}

type recordingCloud struct {
	cloudprovider.Interface
	recorder *Recorder
}

var _ provider.Capable = (*recordingCloud)(nil)

// Capabilities are the capabilities that read. Changes go through the plain interfaces, where they are recorded.
func (c *recordingCloud) Capabilities() provider.Capabilities {
	offered := provider.CapabilitiesOf(c.Interface)
	return provider.Capabilities{
		ProviderIDSchemes: offered.ProviderIDSchemes,
		ListInstances:     offered.ListInstances,
		WatchInstances:    offered.WatchInstances,
		StandbySafe:       offered.StandbySafe,
		ListLoadBalancers: offered.ListLoadBalancers,
		SelectsByLabels:   offered.SelectsByLabels,
		MaxRoutes:         offered.MaxRoutes,
		ReplaceRoute:      c.replaceRoute(offered),
	}
}

// replaceRoute records replacements where the plugin can replace: elsewhere the plan is another one.
func (c *recordingCloud) replaceRoute(offered provider.Capabilities) func(context.Context, string, *cloudprovider.Route, *cloudprovider.Route) error {
	if offered.ReplaceRoute == nil {
		return nil
	}
	return func(ctx context.Context, _ string, old, replacement *cloudprovider.Route) error {
		c.recorder.record(routeIntent(ctx, "ReplaceRoute", plan.Alters, replacement, []plan.Change{{
			Path: "/targetNode", From: string(old.TargetNode), To: string(replacement.TargetNode),
		}}), nil)
		return nil
	}
}

func (c *recordingCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	plugin, offered := c.Interface.LoadBalancer()
	if !offered || plugin == nil {
		return nil, false
	}
	return &recordingBalancer{LoadBalancer: plugin, recorder: c.recorder,
		balancers: &balancerList{list: provider.CapabilitiesOf(c.Interface).ListLoadBalancers}}, true
}

func (c *recordingCloud) Routes() (cloudprovider.Routes, bool) {
	plugin, offered := c.Interface.Routes()
	if !offered || plugin == nil {
		return nil, false
	}
	return &recordingRoutes{Routes: plugin, recorder: c.recorder}, true
}

// recordingBalancer reads through the plugin and changes nothing.
type recordingBalancer struct {
	cloudprovider.LoadBalancer
	recorder  *Recorder
	balancers *balancerList
}

// EnsureLoadBalancer returns what there is. Where nothing is yet, the address is KnownLater. A load balancer that is merely refreshed is
// compared with what there is; if nothing differs, nothing is recorded.
func (b *recordingBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	status, exists, err := b.GetLoadBalancer(ctx, clusterName, service)
	if err != nil {
		return nil, fmt.Errorf("looking for the load balancer: %w", err)
	}
	effect, changes := plan.Creates, targets(nodes)
	if exists {
		effect = plan.Alters
	}
	if exists && status != nil && refreshes(ctx) {
		listed, err := b.balancers.find(ctx, clusterName, service.UID)
		if err != nil {
			return nil, err
		}
		differ, notCompared := compareBalancer(service, nodes, status, listed)
		if len(differ) == 0 {
			b.recorder.agrees(types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, notCompared)
			return status, nil
		}
		changes = differ
		ctx = Because(ctx, fmt.Sprintf("%s; not compared: %s", reason(ctx), strings.Join(notCompared, ", ")))
	}
	b.recorder.record(b.intent(ctx, "EnsureLoadBalancer", effect, service, changes), nil)
	if exists && status != nil {
		return status, nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: KnownLater}}}, nil
}

// UpdateLoadBalancer records the targets.
func (b *recordingBalancer) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	b.recorder.record(b.intent(ctx, "UpdateLoadBalancer", plan.Alters, service, targets(nodes)), nil)
	return nil
}

// EnsureLoadBalancerDeleted records the deletion.
func (b *recordingBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	b.recorder.record(b.intent(ctx, "EnsureLoadBalancerDeleted", plan.Deletes, service, nil), nil)
	return nil
}

func (b *recordingBalancer) intent(ctx context.Context, verb string, effect plan.Effect, service *corev1.Service, changes []plan.Change,
) plan.Intent {
	return plan.Intent{
		Controller: names.ServiceLBController, Where: plan.TheCloud, Verb: verb, Effect: effect, Kind: "Service",
		Namespace: service.Namespace, Name: service.Name, Why: reason(ctx), Changes: changes,
	}
}

// targets shows the nodes that a load balancer would have.
func targets(nodes []*corev1.Node) []plan.Change {
	names := make([]any, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return []plan.Change{{Path: "/targets", To: names}}
}

// recordingRoutes lists routes through the plugin and changes none.
type recordingRoutes struct {
	cloudprovider.Routes
	recorder *Recorder
}

// CreateRoute records the route.
func (r *recordingRoutes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	r.recorder.record(routeIntent(ctx, "CreateRoute", plan.Creates, route, []plan.Change{{Path: "/targetNode", To: string(route.TargetNode)}}), nil)
	return nil
}

// DeleteRoute records the deletion.
func (r *recordingRoutes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	gone := []plan.Change{{Path: "/targetNode", From: string(route.TargetNode)}}
	r.recorder.record(routeIntent(ctx, "DeleteRoute", plan.Deletes, route, gone), nil)
	return nil
}

func routeIntent(ctx context.Context, verb string, effect plan.Effect, route *cloudprovider.Route, changes []plan.Change) plan.Intent {
	return plan.Intent{
		Controller: names.NodeRouteController, Where: plan.TheCloud, Verb: verb, Effect: effect, Kind: "Route", Name: route.DestinationCIDR,
		Why: reason(ctx), Changes: changes,
	}
}
