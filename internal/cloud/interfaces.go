package cloud

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/guard"
)

// offered is an interface of the plugin as controllers call it.
type offered[T any] struct {
	plugin *accessor[T]
	calls  *client
}

// ask calls a method that takes one argument, which the plugin cannot change.
func ask[T, A, R any](ctx context.Context, of offered[T], name, object string, method func(T, context.Context, A) (R, error), argument A) (R, error) {
	return read(ctx, of, of.calls.methods.About(name, object), func(ctx context.Context, plugin T) (R, error) { return method(plugin, ctx, argument) })
}

// askOf calls a method about a node, of which the plugin gets a copy.
func askOf[R any](ctx context.Context, i *instancesV2, name string, method func(cloudprovider.InstancesV2, context.Context, *v1.Node) (R, error),
	node *v1.Node,
) (R, error) {
	return read(ctx, i.offered, i.calls.methods.About(name, node.Name), func(ctx context.Context, plugin cloudprovider.InstancesV2) (R, error) {
		return method(plugin, ctx, node.DeepCopy())
	})
}

// cloning has a method return copies, which the plugin cannot change.
func cloning[T, A, E any](method func(T, context.Context, A) ([]E, error)) func(T, context.Context, A) ([]E, error) {
	return func(plugin T, ctx context.Context, argument A) ([]E, error) {
		answer, err := method(plugin, ctx, argument)
		return slices.Clone(answer), err
	}
}

// instancesV2 is cloudprovider.InstancesV2 as controllers call it.
type instancesV2 struct {
	offered[cloudprovider.InstancesV2]
}

func (i *instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	return askOf(ctx, i, "InstanceExists", cloudprovider.InstancesV2.InstanceExists, node)
}

func (i *instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	return askOf(ctx, i, "InstanceShutdown", cloudprovider.InstancesV2.InstanceShutdown, node)
}

func (i *instancesV2) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return askOf(ctx, i, "InstanceMetadata", cloudprovider.InstancesV2.InstanceMetadata, node)
}

// instances is the legacy cloudprovider.Instances as controllers call it.
type instances struct {
	offered[cloudprovider.Instances]
}

func (i *instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	return ask(ctx, i.offered, "NodeAddresses", string(name), cloning(cloudprovider.Instances.NodeAddresses), name)
}

func (i *instances) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]v1.NodeAddress, error) {
	return ask(ctx, i.offered, "NodeAddressesByProviderID", providerID, cloning(cloudprovider.Instances.NodeAddressesByProviderID), providerID)
}

func (i *instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return ask(ctx, i.offered, "InstanceID", string(name), cloudprovider.Instances.InstanceID, name)
}

func (i *instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return ask(ctx, i.offered, "InstanceType", string(name), cloudprovider.Instances.InstanceType, name)
}

func (i *instances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	return ask(ctx, i.offered, "InstanceTypeByProviderID", providerID, cloudprovider.Instances.InstanceTypeByProviderID, providerID)
}

func (i *instances) AddSSHKeyToAllInstances(ctx context.Context, user string, keyData []byte) error {
	return write(ctx, i.offered, i.calls.methods.About("AddSSHKeyToAllInstances"), func(ctx context.Context, plugin cloudprovider.Instances) error {
		return plugin.AddSSHKeyToAllInstances(ctx, user, slices.Clone(keyData))
	})
}

func (i *instances) CurrentNodeName(ctx context.Context, hostname string) (types.NodeName, error) {
	return ask(ctx, i.offered, "CurrentNodeName", hostname, cloudprovider.Instances.CurrentNodeName, hostname)
}

func (i *instances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	return ask(ctx, i.offered, "InstanceExistsByProviderID", providerID, cloudprovider.Instances.InstanceExistsByProviderID, providerID)
}

func (i *instances) InstanceShutdownByProviderID(ctx context.Context, providerID string) (bool, error) {
	return ask(ctx, i.offered, "InstanceShutdownByProviderID", providerID, cloudprovider.Instances.InstanceShutdownByProviderID, providerID)
}

// zones is the legacy cloudprovider.Zones as controllers call it.
type zones struct{ offered[cloudprovider.Zones] }

func (z *zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return read(ctx, z.offered, z.calls.methods.About("GetZone"), func(ctx context.Context, plugin cloudprovider.Zones) (cloudprovider.Zone, error) {
		return plugin.GetZone(ctx)
	})
}

func (z *zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	return ask(ctx, z.offered, "GetZoneByProviderID", providerID, cloudprovider.Zones.GetZoneByProviderID, providerID)
}

func (z *zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return ask(ctx, z.offered, "GetZoneByNodeName", string(name), cloudprovider.Zones.GetZoneByNodeName, name)
}

// key names a Service.
func key(service *v1.Service) string { return service.Namespace + "/" + service.Name }

// loadBalancer is cloudprovider.LoadBalancer as controllers call it. Each call has a Service and Nodes of its own: plugins of DigitalOcean
// and OpenStack write annotations into the Service that they are given, and may still do so after their call was given up. Two that share
// a map would end the process, which no recover prevents.
type loadBalancer struct {
	offered[cloudprovider.LoadBalancer]
}

// GetLoadBalancerName computes a name, and does not wait for other calls. It is empty if the plugin panics.
func (l *loadBalancer) GetLoadBalancerName(ctx context.Context, clusterName string, service *v1.Service) (name string) {
	_ = guard.Protect("GetLoadBalancerName", func() error {
		plugin, err := l.plugin.get()
		if err == nil {
			name = plugin.GetLoadBalancerName(ctx, clusterName, service.DeepCopy())
		}
		return err
	}, nil)
	return name
}

// found is what GetLoadBalancer returns.
type found struct {
	status *v1.LoadBalancerStatus
	exists bool
}

func (l *loadBalancer) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (
	*v1.LoadBalancerStatus, bool, error,
) {
	got, err := read(ctx, l.offered, l.calls.methods.About("GetLoadBalancer", key(service)), func(ctx context.Context, plugin cloudprovider.LoadBalancer) (found, error) {
		status, exists, err := plugin.GetLoadBalancer(ctx, clusterName, service.DeepCopy())
		return found{status.DeepCopy(), exists}, err
	})
	return got.status, got.exists, err
}

func (l *loadBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (
	*v1.LoadBalancerStatus, error,
) {
	return read(ctx, l.offered, l.calls.methods.About("EnsureLoadBalancer", key(service)), func(ctx context.Context, plugin cloudprovider.LoadBalancer) (*v1.LoadBalancerStatus, error) {
		status, err := plugin.EnsureLoadBalancer(ctx, clusterName, service.DeepCopy(), l.calls.targets.copiesOf(nodes))
		return status.DeepCopy(), err
	})
}

func (l *loadBalancer) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	return write(ctx, l.offered, l.calls.methods.About("UpdateLoadBalancer", key(service)), func(ctx context.Context, plugin cloudprovider.LoadBalancer) error {
		return plugin.UpdateLoadBalancer(ctx, clusterName, service.DeepCopy(), l.calls.targets.copiesOf(nodes))
	})
}

func (l *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	return write(ctx, l.offered, l.calls.methods.About("EnsureLoadBalancerDeleted", key(service)), func(ctx context.Context, plugin cloudprovider.LoadBalancer) error {
		return plugin.EnsureLoadBalancerDeleted(ctx, clusterName, service.DeepCopy())
	})
}

// routes is cloudprovider.Routes as controllers call it.
type routes struct{ offered[cloudprovider.Routes] }

func (r *routes) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	return read(ctx, r.offered, r.calls.methods.About("ListRoutes"), func(ctx context.Context, plugin cloudprovider.Routes) ([]*cloudprovider.Route, error) {
		listed, err := plugin.ListRoutes(ctx, clusterName)
		return copied(listed, copyOfRoute), err
	})
}

func (r *routes) CreateRoute(ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route) error {
	return write(ctx, r.offered, r.calls.methods.About("CreateRoute", route.DestinationCIDR), func(ctx context.Context, plugin cloudprovider.Routes) error {
		return plugin.CreateRoute(ctx, clusterName, nameHint, copyOfRoute(route))
	})
}

func (r *routes) DeleteRoute(ctx context.Context, clusterName string, route *cloudprovider.Route) error {
	return write(ctx, r.offered, r.calls.methods.About("DeleteRoute", route.DestinationCIDR), func(ctx context.Context, plugin cloudprovider.Routes) error {
		return plugin.DeleteRoute(ctx, clusterName, copyOfRoute(route))
	})
}
