package tables

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
)

// call is one call of the plugin.
type call struct {
	// method and object say what was asked about what. args are what a write was given.
	method, object, args string
}

// plugin is the fake cloud of a case. It keeps the calls.
type plugin struct {
	*fake.Cloud
	// withoutRoutes says that the cloud makes no route.
	withoutRoutes bool
	// status is what a load balancer has, if it is not what the fake cloud says.
	status *corev1.LoadBalancerStatus
	// beside is a node whose instance exists and runs.
	beside string
	// spec leaves out of a Service what the API server draws.
	spec func(corev1.ServiceSpec) corev1.ServiceSpec

	mu    sync.Mutex
	calls []call
	// balancers says which load balancers were made or deleted. The fake cloud has one answer for all.
	balancers map[string]bool
}

// errNoRoute is what a cloud without routes answers.
var errNoRoute = errors.New("no route was made")

func (p *plugin) record(method, object string, args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call{method: method, object: object, args: strings.Join(args, " ")})
}

// made returns the calls so far.
func (p *plugin) made() []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// The interfaces that a plugin may have are those of the fake cloud, by this type.

func (p *plugin) Instances() (cloudprovider.Instances, bool)       { return p, !p.DisableInstances }
func (p *plugin) InstancesV2() (cloudprovider.InstancesV2, bool)   { return p, p.EnableInstancesV2 }
func (p *plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p, !p.DisableLoadBalancers }
func (p *plugin) Routes() (cloudprovider.Routes, bool)             { return p, !p.DisableRoutes }
func (p *plugin) Zones() (cloudprovider.Zones, bool)               { return p, !p.DisableZones }

func serviceKey(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

// given is what a call about a load balancer was given.
func (p *plugin) given(service *corev1.Service, nodes []*corev1.Node) []string {
	hosts := make([]string, 0, len(nodes))
	for _, node := range nodes {
		hosts = append(hosts, node.Name+"="+node.Spec.ProviderID)
	}
	slices.Sort(hosts)
	spec, _ := json.Marshal(p.spec(service.Spec)) // a struct of strings and numbers
	return []string{"hosts [" + strings.Join(hosts, " ") + "]", "spec " + string(spec)}
}

func (p *plugin) exists(service *corev1.Service, exists bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.balancers == nil {
		p.balancers = map[string]bool{}
	}
	p.balancers[serviceKey(service)] = exists
}

func (p *plugin) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	p.record("GetLoadBalancer", serviceKey(service))
	status, exists, err := p.Cloud.GetLoadBalancer(ctx, cluster, service)
	p.mu.Lock()
	if made, known := p.balancers[serviceKey(service)]; known {
		exists = made
	}
	p.mu.Unlock()
	if p.status != nil && err == nil {
		return p.status.DeepCopy(), exists, nil
	}
	return status, exists, err
}

func (p *plugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	p.record("EnsureLoadBalancer", serviceKey(service), p.given(service, nodes)...)
	status, err := p.Cloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
	if err == nil {
		p.exists(service, true)
	}
	if p.status != nil && err == nil {
		return p.status.DeepCopy(), nil
	}
	return status, err
}

func (p *plugin) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	p.record("UpdateLoadBalancer", serviceKey(service), p.given(service, nodes)...)
	return p.Cloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

func (p *plugin) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	p.record("EnsureLoadBalancerDeleted", serviceKey(service))
	err := p.Cloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
	if err == nil {
		p.exists(service, false)
	}
	return err
}

func (p *plugin) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	p.record("NodeAddresses", string(name))
	return p.Cloud.NodeAddresses(ctx, name)
}

func (p *plugin) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	p.record("NodeAddressesByProviderID", id)
	return p.Cloud.NodeAddressesByProviderID(ctx, id)
}

func (p *plugin) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	p.record("InstanceID", string(name))
	return p.Cloud.InstanceID(ctx, name)
}

func (p *plugin) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	p.record("InstanceType", string(name))
	return p.Cloud.InstanceType(ctx, name)
}

func (p *plugin) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	p.record("InstanceTypeByProviderID", id)
	return p.Cloud.InstanceTypeByProviderID(ctx, id)
}

func (p *plugin) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	p.record("InstanceExistsByProviderID", id)
	if p.beside != "" && id == providerIDOf(p.beside) {
		return true, nil
	}
	return p.Cloud.InstanceExistsByProviderID(ctx, id)
}

func (p *plugin) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	p.record("InstanceShutdownByProviderID", id)
	if p.beside != "" && id == providerIDOf(p.beside) {
		return false, nil
	}
	return p.Cloud.InstanceShutdownByProviderID(ctx, id)
}

func (p *plugin) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	p.record("InstanceExists", node.Name)
	if node.Name == p.beside {
		return true, nil
	}
	return p.Cloud.InstanceExists(ctx, node)
}

func (p *plugin) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	p.record("InstanceShutdown", node.Name)
	if node.Name == p.beside {
		return false, nil
	}
	return p.Cloud.InstanceShutdown(ctx, node)
}

func (p *plugin) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	p.record("InstanceMetadata", node.Name)
	return p.Cloud.InstanceMetadata(ctx, node)
}

func (p *plugin) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	p.record("GetZoneByProviderID", id)
	return p.Cloud.GetZoneByProviderID(ctx, id)
}

func (p *plugin) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	p.record("GetZoneByNodeName", string(name))
	return p.Cloud.GetZoneByNodeName(ctx, name)
}

func (p *plugin) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	p.record("ListRoutes", cluster)
	routes, err := p.Cloud.ListRoutes(ctx, cluster)
	slices.SortFunc(routes, func(a, b *cloudprovider.Route) int { return cmp.Compare(a.Name, b.Name) }) // the fake cloud keeps a map
	return routes, err
}

func routeArgs(route *cloudprovider.Route) string {
	addresses, _ := json.Marshal(route.TargetNodeAddresses)
	return route.DestinationCIDR + " to " + string(addresses)
}

func (p *plugin) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	p.record("CreateRoute", string(route.TargetNode)+" "+route.DestinationCIDR, routeArgs(route))
	if p.withoutRoutes {
		return errNoRoute
	}
	return p.Cloud.CreateRoute(ctx, cluster, hint, route)
}

func (p *plugin) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	p.record("DeleteRoute", string(route.TargetNode)+" "+route.DestinationCIDR, routeArgs(route))
	return p.Cloud.DeleteRoute(ctx, cluster, route)
}

// routes returns what is in the cloud at the end.
func (p *plugin) routes() []string {
	p.Lock.Lock()
	defer p.Lock.Unlock()
	var all []string
	for _, route := range p.RouteMap {
		all = append(all, route.ClusterName+" "+string(route.Route.TargetNode)+" "+routeArgs(&route.Route))
	}
	slices.Sort(all)
	return all
}
