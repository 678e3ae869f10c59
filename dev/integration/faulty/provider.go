package faulty

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

var (
	_ cloudprovider.Interface    = (*Cloud)(nil)
	_ cloudprovider.InstancesV2  = (*Cloud)(nil)
	_ cloudprovider.LoadBalancer = (*Cloud)(nil)
	_ cloudprovider.Routes       = (*Cloud)(nil)
	_ provider.Capable           = (*Cloud)(nil)
)

// Initialize is part of cloudprovider.Interface.
func (c *Cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer is part of cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c, true }

// Instances is part of cloudprovider.Interface.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 is part of cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// Zones is part of cloudprovider.Interface.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is part of cloudprovider.Interface.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes is part of cloudprovider.Interface.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c, true }

// ProviderName is part of cloudprovider.Interface.
func (c *Cloud) ProviderName() string { return c.name }

// HasClusterID is part of cloudprovider.Interface.
func (c *Cloud) HasClusterID() bool { return true }

// Capabilities is provider.Capable.
func (c *Cloud) Capabilities() provider.Capabilities { return c.declares }

func nodeName(name string) types.NodeName { return types.NodeName(name) }

// find returns the instance of a node. A provider ID of another cloud is a plain error, as it is of the providers of AWS, Hetzner
// and DigitalOcean. The lock is held.
func (c *Cloud) find(node *corev1.Node) (provider.Instance, error) {
	id := node.Spec.ProviderID
	if id == "" {
		if instance, ok := c.instances[node.Name]; ok {
			return instance, nil
		}
		return provider.Instance{}, cloudprovider.InstanceNotFound
	}
	if !strings.HasPrefix(id, c.scheme) || c.scheme == "" && strings.Contains(id, "://") {
		return provider.Instance{}, fmt.Errorf("provider ID %q does not have the prefix %q", id, c.scheme)
	}
	for _, instance := range c.instances {
		if instance.ProviderID == id {
			return instance, nil
		}
	}
	return provider.Instance{}, cloudprovider.InstanceNotFound
}

// InstanceExists is part of cloudprovider.InstancesV2.
func (c *Cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return serve(ctx, c, "InstanceExists", node.Name, node, func() (bool, error) {
		_, err := c.find(node)
		if errors.Is(err, cloudprovider.InstanceNotFound) {
			return false, nil
		}
		return err == nil, err
	})
}

// InstanceShutdown is part of cloudprovider.InstancesV2.
func (c *Cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return serve(ctx, c, "InstanceShutdown", node.Name, node, func() (bool, error) {
		instance, err := c.find(node)
		return instance.State == provider.InstanceStopped, err
	})
}

// InstanceMetadata is part of cloudprovider.InstancesV2.
func (c *Cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return serve(ctx, c, "InstanceMetadata", node.Name, node, func() (*cloudprovider.InstanceMetadata, error) {
		instance, err := c.find(node)
		if err != nil {
			return nil, err
		}
		return &instance.InstanceMetadata, nil
	})
}

func key(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

// status returns what a Service's load balancer is reached by, or nil if there is no load balancer. The lock is held.
func (c *Cloud) status(service *corev1.Service) *corev1.LoadBalancerStatus {
	balancer := c.balancers[key(service)]
	if balancer == nil {
		return nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: balancer.address}}}
}

// GetLoadBalancerName is part of cloudprovider.LoadBalancer.
func (c *Cloud) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer is part of cloudprovider.LoadBalancer.
func (c *Cloud) GetLoadBalancer(ctx context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, err := serve(ctx, c, "GetLoadBalancer", key(service), service, func() (*corev1.LoadBalancerStatus, error) {
		return c.status(service), nil
	})
	return status, status != nil, err
}

// EnsureLoadBalancer is part of cloudprovider.LoadBalancer.
func (c *Cloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return serve(ctx, c, "EnsureLoadBalancer", key(service), service, func() (*corev1.LoadBalancerStatus, error) {
		if c.balancers[key(service)] == nil {
			c.balancers[key(service)] = &loadBalancer{address: c.newAddress()}
		}
		c.balancers[key(service)].targets = names(nodes)
		return c.status(service), nil
	})
}

// UpdateLoadBalancer is part of cloudprovider.LoadBalancer.
func (c *Cloud) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	_, err := serve(ctx, c, "UpdateLoadBalancer", key(service), service, func() (struct{}, error) {
		balancer := c.balancers[key(service)]
		if balancer == nil {
			return struct{}{}, fmt.Errorf("there is no load balancer for %s", key(service))
		}
		balancer.targets = names(nodes)
		return struct{}{}, nil
	})
	return err
}

// EnsureLoadBalancerDeleted is part of cloudprovider.LoadBalancer.
func (c *Cloud) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	_, err := serve(ctx, c, "EnsureLoadBalancerDeleted", key(service), service, func() (struct{}, error) {
		delete(c.balancers, key(service))
		return struct{}{}, nil
	})
	return err
}

func names(nodes []*corev1.Node) []string {
	found := make([]string, 0, len(nodes))
	for _, node := range nodes {
		found = append(found, node.Name)
	}
	slices.Sort(found)
	return found
}

// ListRoutes is part of cloudprovider.Routes.
func (c *Cloud) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	return serve(ctx, c, "ListRoutes", "", clusterName, func() ([]*cloudprovider.Route, error) {
		found := make([]*cloudprovider.Route, 0, len(c.routes))
		for _, route := range c.routes {
			one := *route
			found = append(found, &one)
		}
		return found, nil
	})
}

// CreateRoute is part of cloudprovider.Routes.
func (c *Cloud) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	_, err := serve(ctx, c, "CreateRoute", string(route.TargetNode), route, func() (struct{}, error) {
		one := *route
		one.Name = route.DestinationCIDR
		c.routes[one.Name] = &one
		return struct{}{}, nil
	})
	return err
}

// DeleteRoute is part of cloudprovider.Routes.
func (c *Cloud) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	_, err := serve(ctx, c, "DeleteRoute", string(route.TargetNode), route, func() (struct{}, error) {
		delete(c.routes, route.DestinationCIDR)
		return struct{}{}, nil
	})
	return err
}
