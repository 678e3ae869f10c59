package managers_test

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// cloud is a cloud with an instance for each node. Its provider declares nothing.
type cloud struct {
	cloudprovider.Interface

	mu        sync.Mutex
	balancers map[string]int // how often each was made
	routes    []*cloudprovider.Route
	// misbehave is what the next calls do first, by their operations.
	misbehave map[string][]func()
}

func newCloud() *cloud {
	return &cloud{balancers: map[string]int{}, misbehave: map[string][]func(){}}
}

func (c *cloud) ProviderName() string                                         { return "memory" }
func (c *cloud) HasClusterID() bool                                           { return true }
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)               { return c, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                   { return nil, false }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                           { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                         { return router{c}, true }
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)             { return balancer{c}, true }
func (c *cloud) InstanceExists(context.Context, *corev1.Node) (bool, error)   { return true, nil }
func (c *cloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error) { return false, nil }

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	c.begin("Initialize")
}

func (c *cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.begin("InstanceMetadata")
	return &cloudprovider.InstanceMetadata{
		ProviderID: "memory://" + node.Name, InstanceType: "small", Zone: "a", Region: "b",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
	}, nil
}

type balancer struct{ *cloud }

func (b balancer) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return service.Name
}

func (b balancer) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return status(), b.balancers[service.Name] > 0, nil
}

func (b balancer) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.balancers[service.Name]++
	return status(), nil
}

func (b balancer) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

func (b balancer) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

func status() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}}
}

// made returns how often a load balancer was made.
func (c *cloud) made(service string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.balancers[service]
}

type router struct{ *cloud }

func (r router) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.routes), nil
}

func (r router) CreateRoute(_ context.Context, _, hint string, route *cloudprovider.Route) error {
	r.begin("CreateRoute")
	r.mu.Lock()
	defer r.mu.Unlock()
	route.Name = hint
	r.routes = append(r.routes, route)
	return nil
}

func (r router) DeleteRoute(context.Context, string, *cloudprovider.Route) error { return nil }

// begin has a call misbehave if it is to.
func (c *cloud) begin(operation string) {
	c.mu.Lock()
	queued := c.misbehave[operation]
	if len(queued) > 0 {
		c.misbehave[operation] = queued[1:]
	}
	c.mu.Unlock()
	if len(queued) > 0 {
		queued[0]()
	}
}

// mistake panics.
func mistake() { panic("a mistake of the plugin") }
