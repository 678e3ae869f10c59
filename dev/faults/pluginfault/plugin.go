// Package pluginfault makes the calls of a provider misbehave: they panic, hang, are slow, fail, are refused for a quota, or give wrong
// answers.
package pluginfault

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// Call is a call that a plugin received.
type Call struct {
	// Operation is the plugin's method or capability. Object is what it is about: the name of a node, NAMESPACE/NAME of a Service, the
	// target node of a route; empty for a list.
	Operation, Object string
	// Part says that this is a page of ListInstances or an event of WatchInstances, within the call of that name. Object is the node of its
	// first instance.
	Part bool
	// Cluster is the name of the cluster, where the method has it.
	Cluster string
	// Request is what the plugin was given: the node, the Service or the route. For a part, it is its first instance or the event.
	Request any
	// Nodes are targets that the plugin was given for a load balancer.
	Nodes []*corev1.Node

	// Began and Ended are when the call came and went. Ended is zero while it is under way.
	Began, Ended time.Time
	// Faulty says that there was a fault for it.
	Faulty bool
	// Err is what it returned.
	Err error
}

// Faults says how calls misbehave.
type Faults interface {
	// Begin is called with each call. It returns the fault for it, what is closed when it may no longer hang, and what to call at its end.
	Begin(call Call) (fault Fault, released <-chan struct{}, end func(error))
}

// Plugin is a provider whose calls misbehave. It has no Instances and Zones: there is one way to ask for an instance.
type Plugin struct {
	cloudprovider.Interface

	faults    Faults
	instances cloudprovider.InstancesV2
	balancers cloudprovider.LoadBalancer
	routes    cloudprovider.Routes
}

var _ provider.Capable = (*Plugin)(nil)

// Wrap returns a provider as a plugin with faults.
func Wrap(cloud cloudprovider.Interface, faults Faults) *Plugin {
	p := &Plugin{Interface: cloud, faults: faults}
	p.instances, _ = cloud.InstancesV2()
	p.balancers, _ = cloud.LoadBalancer()
	p.routes, _ = cloud.Routes()
	return p
}

// do makes a call with its fault.
func do[T any](ctx context.Context, p *Plugin, call Call, work func() (T, error)) (answer T, err error) {
	fault, released, end := p.faults.Begin(call)
	defer func() { end(err) }()
	if fault.Before != nil {
		err = fault.Before(ctx, call, released)
	}
	if err == nil {
		answer, err = work()
	}
	if fault.After != nil {
		var replaced any
		replaced, err = fault.After(call, answer, err)
		answer = replaced.(T)
	}
	return answer, err
}

// change makes a call that answers nothing.
func (p *Plugin) change(ctx context.Context, call Call, work func() error) error {
	_, err := do(ctx, p, call, func() (struct{}, error) { return struct{}{}, work() })
	return err
}

// Instances is part of cloudprovider.Interface.
func (p *Plugin) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is part of cloudprovider.Interface.
func (p *Plugin) Zones() (cloudprovider.Zones, bool) { return nil, false }

// InstancesV2 is part of cloudprovider.Interface.
func (p *Plugin) InstancesV2() (cloudprovider.InstancesV2, bool) { return p, p.instances != nil }

// LoadBalancer is part of cloudprovider.Interface.
func (p *Plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p, p.balancers != nil }

// Routes is part of cloudprovider.Interface.
func (p *Plugin) Routes() (cloudprovider.Routes, bool) { return p, p.routes != nil }

func about(operation string, node *corev1.Node) Call {
	return Call{Operation: operation, Object: node.Name, Request: node}
}

// InstanceExists is part of cloudprovider.InstancesV2.
func (p *Plugin) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return do(ctx, p, about("InstanceExists", node), func() (bool, error) { return p.instances.InstanceExists(ctx, node) })
}

// InstanceShutdown is part of cloudprovider.InstancesV2.
func (p *Plugin) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return do(ctx, p, about("InstanceShutdown", node), func() (bool, error) { return p.instances.InstanceShutdown(ctx, node) })
}

// InstanceMetadata is part of cloudprovider.InstancesV2.
func (p *Plugin) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return do(ctx, p, about("InstanceMetadata", node), func() (*cloudprovider.InstanceMetadata, error) {
		return p.instances.InstanceMetadata(ctx, node)
	})
}

func served(operation, cluster string, service *corev1.Service, nodes []*corev1.Node) Call {
	return Call{Operation: operation, Object: service.Namespace + "/" + service.Name, Cluster: cluster, Request: service, Nodes: nodes}
}

// GetLoadBalancerName is part of cloudprovider.LoadBalancer. It is no call.
func (p *Plugin) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	return p.balancers.GetLoadBalancerName(ctx, cluster, service)
}

// GetLoadBalancer is part of cloudprovider.LoadBalancer. To a fault, a load balancer that does not exist is a status that is nil.
func (p *Plugin) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, err := do(ctx, p, served("GetLoadBalancer", cluster, service, nil), func() (*corev1.LoadBalancerStatus, error) {
		status, exists, err := p.balancers.GetLoadBalancer(ctx, cluster, service)
		if !exists {
			status = nil
		}
		return status, err
	})
	return status, status != nil, err
}

// EnsureLoadBalancer is part of cloudprovider.LoadBalancer.
func (p *Plugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	return do(ctx, p, served("EnsureLoadBalancer", cluster, service, nodes), func() (*corev1.LoadBalancerStatus, error) {
		return p.balancers.EnsureLoadBalancer(ctx, cluster, service, nodes)
	})
}

// UpdateLoadBalancer is part of cloudprovider.LoadBalancer.
func (p *Plugin) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return p.change(ctx, served("UpdateLoadBalancer", cluster, service, nodes), func() error {
		return p.balancers.UpdateLoadBalancer(ctx, cluster, service, nodes)
	})
}

// EnsureLoadBalancerDeleted is part of cloudprovider.LoadBalancer.
func (p *Plugin) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	return p.change(ctx, served("EnsureLoadBalancerDeleted", cluster, service, nil), func() error {
		return p.balancers.EnsureLoadBalancerDeleted(ctx, cluster, service)
	})
}

func routed(operation, cluster string, route *cloudprovider.Route) Call {
	return Call{Operation: operation, Object: string(route.TargetNode), Cluster: cluster, Request: route}
}

// ListRoutes is part of cloudprovider.Routes.
func (p *Plugin) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	return do(ctx, p, Call{Operation: "ListRoutes", Cluster: cluster}, func() ([]*cloudprovider.Route, error) {
		return p.routes.ListRoutes(ctx, cluster)
	})
}

// CreateRoute is part of cloudprovider.Routes.
func (p *Plugin) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return p.change(ctx, routed("CreateRoute", cluster, route), func() error { return p.routes.CreateRoute(ctx, cluster, hint, route) })
}

// DeleteRoute is part of cloudprovider.Routes.
func (p *Plugin) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return p.change(ctx, routed("DeleteRoute", cluster, route), func() error { return p.routes.DeleteRoute(ctx, cluster, route) })
}
