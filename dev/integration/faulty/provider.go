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

// plugin is the provider when it works.
type plugin struct {
	*memory
	cloudprovider.Interface // nil: what is not here is not called
	declares                provider.Capabilities
}

func (p plugin) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (p plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return p, true }
func (p plugin) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return p, true }
func (p plugin) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (p plugin) Routes() (cloudprovider.Routes, bool)                              { return p, true }
func (p plugin) ProviderName() string                                              { return p.name }
func (p plugin) HasClusterID() bool                                                { return true }
func (p plugin) Capabilities() provider.Capabilities                               { return p.declares }

func nodeName(name string) types.NodeName { return types.NodeName(name) }

// find returns the instance of a node. A provider ID of another cloud is a plain error, as it is of the providers of AWS, Hetzner
// and DigitalOcean. The lock is held.
func (m *memory) find(node *corev1.Node) (provider.Instance, error) {
	id := node.Spec.ProviderID
	if id == "" {
		if instance, ok := m.instances[node.Name]; ok {
			return instance, nil
		}
		return provider.Instance{}, cloudprovider.InstanceNotFound
	}
	if !strings.HasPrefix(id, m.scheme) || m.scheme == "" && strings.Contains(id, "://") {
		return provider.Instance{}, fmt.Errorf("provider ID %q does not have the prefix %q", id, m.scheme)
	}
	for _, instance := range m.instances {
		if instance.ProviderID == id {
			return instance, nil
		}
	}
	return provider.Instance{}, cloudprovider.InstanceNotFound
}

func (p plugin) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.find(node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (p plugin) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	instance, err := p.find(node)
	return instance.State == provider.InstanceStopped, err
}

func (p plugin) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	instance, err := p.find(node)
	if err != nil {
		return nil, err
	}
	return &instance.InstanceMetadata, nil
}

func key(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

// status returns what a Service's load balancer is reached by, or nil if there is no load balancer. The lock is held.
func (m *memory) status(service *corev1.Service) *corev1.LoadBalancerStatus {
	balancer := m.balancers[key(service)]
	if balancer == nil {
		return nil
	}
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: balancer.address}}}
}

func (p plugin) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (p plugin) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status(service)
	return status, status != nil, nil
}

func (p plugin) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.balancers[key(service)] == nil {
		p.balancers[key(service)] = &loadBalancer{address: p.newAddress()}
	}
	p.balancers[key(service)].targets = names(nodes)
	return p.status(service), nil
}

func (p plugin) UpdateLoadBalancer(_ context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	balancer := p.balancers[key(service)]
	if balancer == nil {
		return fmt.Errorf("there is no load balancer for %s", key(service))
	}
	balancer.targets = names(nodes)
	return nil
}

func (p plugin) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *corev1.Service) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.balancers, key(service))
	return nil
}

func names(nodes []*corev1.Node) []string {
	found := make([]string, 0, len(nodes))
	for _, node := range nodes {
		found = append(found, node.Name)
	}
	slices.Sort(found)
	return found
}

func (p plugin) ListRoutes(context.Context, string) ([]*cloudprovider.Route, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make([]*cloudprovider.Route, 0, len(p.routes))
	for _, route := range p.routes {
		one := *route
		found = append(found, &one)
	}
	return found, nil
}

func (p plugin) CreateRoute(_ context.Context, _, _ string, route *cloudprovider.Route) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := *route
	one.Name = route.DestinationCIDR
	p.routes[one.Name] = &one
	return nil
}

func (p plugin) DeleteRoute(_ context.Context, _ string, route *cloudprovider.Route) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.routes, route.DestinationCIDR)
	return nil
}
