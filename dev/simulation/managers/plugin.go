package managers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// guard returns a provider whose calls neither begin nor return after the end of the process, see Incarnation.Call.
func guard(process *Incarnation, plugin cloudprovider.Interface) cloudprovider.Interface {
	g := guarded{Interface: plugin, process: process}
	if user, ok := plugin.(cloudprovider.InformerUser); ok {
		return guardedUser{guarded: g, user: user}
	}
	return g
}

// Call makes a call of the plugin as one of the process. It is for functions of provider.Capabilities, which a plugin has to guard itself.
// The guard has it for the methods of k8s.io/cloud-provider.
//
// After the end of the process, it waits for Release and returns an error. A panic of the call ends the process, unless its manager
// recovers from panics.
func (p *Incarnation) Call(operation string, call func() error) (err error) {
	if err := p.hold(); err != nil {
		return err
	}
	defer func() {
		if value := recover(); value != nil {
			err = p.panicked(operation, value)
		}
	}()
	err = call()
	if ended := p.hold(); ended != nil {
		return ended
	}
	return err
}

// answered makes a call that has an answer.
func answered[T any](p *Incarnation, operation string, call func() (T, error)) (answer T, err error) {
	err = p.Call(operation, func() (err error) {
		answer, err = call()
		return err
	})
	return answer, err
}

// guarded is a guarded provider. What a manager asks without an error to return is handed on.
type guarded struct {
	cloudprovider.Interface
	process *Incarnation
}

// Initialize implements cloudprovider.Interface.
func (g guarded) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	_ = g.process.Call("Initialize", func() error {
		g.Interface.Initialize(clients, stop)
		return nil
	})
}

// Capabilities is provider.Capable. The plugin guards their functions.
func (g guarded) Capabilities() provider.Capabilities { return provider.CapabilitiesOf(g.Interface) }

// LoadBalancer implements cloudprovider.Interface.
func (g guarded) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	balancer, has := g.Interface.LoadBalancer()
	return guardedBalancer{LoadBalancer: balancer, process: g.process}, has
}

// InstancesV2 implements cloudprovider.Interface.
func (g guarded) InstancesV2() (cloudprovider.InstancesV2, bool) {
	instances, has := g.Interface.InstancesV2()
	return guardedInstances{instances: instances, process: g.process}, has
}

// Instances implements cloudprovider.Interface.
func (g guarded) Instances() (cloudprovider.Instances, bool) {
	instances, has := g.Interface.Instances()
	return guardedLegacy{Instances: instances, process: g.process}, has
}

// Zones implements cloudprovider.Interface.
func (g guarded) Zones() (cloudprovider.Zones, bool) {
	zones, has := g.Interface.Zones()
	return guardedZones{zones: zones, process: g.process}, has
}

// Routes implements cloudprovider.Interface.
func (g guarded) Routes() (cloudprovider.Routes, bool) {
	routes, has := g.Interface.Routes()
	return guardedRoutes{routes: routes, process: g.process}, has
}

// guardedUser is a provider that takes informers.
type guardedUser struct {
	guarded
	user cloudprovider.InformerUser
}

// SetInformers implements cloudprovider.InformerUser.
func (g guardedUser) SetInformers(factory informers.SharedInformerFactory) {
	_ = g.process.Call("SetInformers", func() error {
		g.user.SetInformers(factory)
		return nil
	})
}

type guardedBalancer struct {
	cloudprovider.LoadBalancer
	process *Incarnation
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (g guardedBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	exists := false
	status, err := answered(g.process, "GetLoadBalancer", func() (status *corev1.LoadBalancerStatus, err error) {
		status, exists, err = g.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
		return status, err
	})
	return status, exists, err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (g guardedBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	return answered(g.process, "EnsureLoadBalancer", func() (*corev1.LoadBalancerStatus, error) {
		return g.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	})
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (g guardedBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return g.process.Call("UpdateLoadBalancer", func() error { return g.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes) })
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (g guardedBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	return g.process.Call("EnsureLoadBalancerDeleted", func() error { return g.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service) })
}

type guardedInstances struct {
	instances cloudprovider.InstancesV2
	process   *Incarnation
}

// InstanceExists implements cloudprovider.InstancesV2.
func (g guardedInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return answered(g.process, "InstanceExists", func() (bool, error) { return g.instances.InstanceExists(ctx, node) })
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (g guardedInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return answered(g.process, "InstanceShutdown", func() (bool, error) { return g.instances.InstanceShutdown(ctx, node) })
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (g guardedInstances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return answered(g.process, "InstanceMetadata", func() (*cloudprovider.InstanceMetadata, error) {
		return g.instances.InstanceMetadata(ctx, node)
	})
}

type guardedRoutes struct {
	routes  cloudprovider.Routes
	process *Incarnation
}

// ListRoutes implements cloudprovider.Routes.
func (g guardedRoutes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	return answered(g.process, "ListRoutes", func() ([]*cloudprovider.Route, error) { return g.routes.ListRoutes(ctx, cluster) })
}

// CreateRoute implements cloudprovider.Routes.
func (g guardedRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return g.process.Call("CreateRoute", func() error { return g.routes.CreateRoute(ctx, cluster, hint, route) })
}

// DeleteRoute implements cloudprovider.Routes.
func (g guardedRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return g.process.Call("DeleteRoute", func() error { return g.routes.DeleteRoute(ctx, cluster, route) })
}

// guardedLegacy are the instances of a provider that was written before InstancesV2. A manager calls none of the methods that are handed on.
type guardedLegacy struct {
	cloudprovider.Instances
	process *Incarnation
}

// NodeAddresses implements cloudprovider.Instances.
func (g guardedLegacy) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return answered(g.process, "NodeAddresses", func() ([]corev1.NodeAddress, error) { return g.Instances.NodeAddresses(ctx, name) })
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (g guardedLegacy) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	return answered(g.process, "NodeAddressesByProviderID", func() ([]corev1.NodeAddress, error) {
		return g.Instances.NodeAddressesByProviderID(ctx, id)
	})
}

// InstanceID implements cloudprovider.Instances.
func (g guardedLegacy) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return answered(g.process, "InstanceID", func() (string, error) { return g.Instances.InstanceID(ctx, name) })
}

// InstanceType implements cloudprovider.Instances.
func (g guardedLegacy) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return answered(g.process, "InstanceType", func() (string, error) { return g.Instances.InstanceType(ctx, name) })
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (g guardedLegacy) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	return answered(g.process, "InstanceTypeByProviderID", func() (string, error) { return g.Instances.InstanceTypeByProviderID(ctx, id) })
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (g guardedLegacy) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	return answered(g.process, "InstanceExistsByProviderID", func() (bool, error) { return g.Instances.InstanceExistsByProviderID(ctx, id) })
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (g guardedLegacy) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	return answered(g.process, "InstanceShutdownByProviderID", func() (bool, error) { return g.Instances.InstanceShutdownByProviderID(ctx, id) })
}

type guardedZones struct {
	zones   cloudprovider.Zones
	process *Incarnation
}

// GetZone implements cloudprovider.Zones.
func (g guardedZones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return answered(g.process, "GetZone", func() (cloudprovider.Zone, error) { return g.zones.GetZone(ctx) })
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (g guardedZones) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return answered(g.process, "GetZoneByProviderID", func() (cloudprovider.Zone, error) { return g.zones.GetZoneByProviderID(ctx, id) })
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (g guardedZones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return answered(g.process, "GetZoneByNodeName", func() (cloudprovider.Zone, error) { return g.zones.GetZoneByNodeName(ctx, name) })
}
