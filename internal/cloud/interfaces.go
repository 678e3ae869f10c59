package cloud

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// instancesV2 is cloudprovider.InstancesV2 as controllers call it.
type instancesV2 struct {
	plugin cloudprovider.InstancesV2
	calls  *client
}

func (i *instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	return read(ctx, i.calls, i.calls.about("InstanceExists", node.Name), func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceExists(ctx, node)
	})
}

func (i *instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	return read(ctx, i.calls, i.calls.about("InstanceShutdown", node.Name), func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceShutdown(ctx, node)
	})
}

func (i *instancesV2) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return read(ctx, i.calls, i.calls.about("InstanceMetadata", node.Name), func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
		return i.plugin.InstanceMetadata(ctx, node)
	})
}

// instances is the legacy cloudprovider.Instances as controllers call it.
type instances struct {
	plugin cloudprovider.Instances
	calls  *client
}

func (i *instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	return read(ctx, i.calls, i.calls.about("NodeAddresses", string(name)), func(ctx context.Context) ([]v1.NodeAddress, error) {
		return i.plugin.NodeAddresses(ctx, name)
	})
}

func (i *instances) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]v1.NodeAddress, error) {
	return read(ctx, i.calls, i.calls.about("NodeAddressesByProviderID", providerID), func(ctx context.Context) ([]v1.NodeAddress, error) {
		return i.plugin.NodeAddressesByProviderID(ctx, providerID)
	})
}

func (i *instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return read(ctx, i.calls, i.calls.about("InstanceID", string(name)), func(ctx context.Context) (string, error) {
		return i.plugin.InstanceID(ctx, name)
	})
}

func (i *instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return read(ctx, i.calls, i.calls.about("InstanceType", string(name)), func(ctx context.Context) (string, error) {
		return i.plugin.InstanceType(ctx, name)
	})
}

func (i *instances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	return read(ctx, i.calls, i.calls.about("InstanceTypeByProviderID", providerID), func(ctx context.Context) (string, error) {
		return i.plugin.InstanceTypeByProviderID(ctx, providerID)
	})
}

func (i *instances) AddSSHKeyToAllInstances(ctx context.Context, user string, keyData []byte) error {
	return i.calls.change(ctx, i.calls.about("AddSSHKeyToAllInstances", ""), func(ctx context.Context) error {
		return i.plugin.AddSSHKeyToAllInstances(ctx, user, keyData)
	})
}

func (i *instances) CurrentNodeName(ctx context.Context, hostname string) (types.NodeName, error) {
	return read(ctx, i.calls, i.calls.about("CurrentNodeName", hostname), func(ctx context.Context) (types.NodeName, error) {
		return i.plugin.CurrentNodeName(ctx, hostname)
	})
}

func (i *instances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	return read(ctx, i.calls, i.calls.about("InstanceExistsByProviderID", providerID), func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceExistsByProviderID(ctx, providerID)
	})
}

func (i *instances) InstanceShutdownByProviderID(ctx context.Context, providerID string) (bool, error) {
	return read(ctx, i.calls, i.calls.about("InstanceShutdownByProviderID", providerID), func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceShutdownByProviderID(ctx, providerID)
	})
}

// zones is the legacy cloudprovider.Zones as controllers call it.
type zones struct {
	plugin cloudprovider.Zones
	calls  *client
}

func (z *zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return read(ctx, z.calls, z.calls.about("GetZone", ""), z.plugin.GetZone)
}

func (z *zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	return read(ctx, z.calls, z.calls.about("GetZoneByProviderID", providerID), func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.plugin.GetZoneByProviderID(ctx, providerID)
	})
}

func (z *zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return read(ctx, z.calls, z.calls.about("GetZoneByNodeName", string(name)), func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.plugin.GetZoneByNodeName(ctx, name)
	})
}

// key names a Service.
func key(service *v1.Service) string { return service.Namespace + "/" + service.Name }

// loadBalancer is cloudprovider.LoadBalancer as controllers call it. Each call has a Service of its own: plugins of DigitalOcean and
// OpenStack write annotations into the one that they are given, and may still do so after their call was abandoned. Two that share a
// map would end the process, which no recover prevents. Nodes are shared with the cache, as in the reference.
type loadBalancer struct {
	cloudprovider.LoadBalancer
	calls *client
}

// GetLoadBalancerName computes a name, and does not wait for other calls.
func (l *loadBalancer) GetLoadBalancerName(ctx context.Context, clusterName string, service *v1.Service) string {
	return l.LoadBalancer.GetLoadBalancerName(ctx, clusterName, service.DeepCopy())
}

func (l *loadBalancer) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (
	*v1.LoadBalancerStatus, bool, error,
) {
	type answer struct {
		status *v1.LoadBalancerStatus
		exists bool
	}
	got, err := read(ctx, l.calls, l.calls.about("GetLoadBalancer", key(service)), func(ctx context.Context) (answer, error) {
		status, exists, err := l.LoadBalancer.GetLoadBalancer(ctx, clusterName, service.DeepCopy())
		return answer{status, exists}, err
	})
	return got.status, got.exists, err
}

func (l *loadBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (
	*v1.LoadBalancerStatus, error,
) {
	status, err := write(ctx, l.calls, l.calls.about("EnsureLoadBalancer", key(service)), func(ctx context.Context) (*v1.LoadBalancerStatus, error) {
		return l.LoadBalancer.EnsureLoadBalancer(ctx, clusterName, service.DeepCopy(), nodes)
	})
	if err == nil {
		// By asking for this one it can be seen whether the cloud answers when writes begin to fail.
		l.calls.worked(l.calls.about("GetLoadBalancer", key(service)), func(ctx context.Context) error {
			_, _, err := l.LoadBalancer.GetLoadBalancer(ctx, clusterName, service.DeepCopy())
			return err
		})
	}
	return status, err
}

func (l *loadBalancer) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	return l.calls.change(ctx, l.calls.about("UpdateLoadBalancer", key(service)), func(ctx context.Context) error {
		return l.LoadBalancer.UpdateLoadBalancer(ctx, clusterName, service.DeepCopy(), nodes)
	})
}

func (l *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	return l.calls.change(ctx, l.calls.about("EnsureLoadBalancerDeleted", key(service)), func(ctx context.Context) error {
		return l.LoadBalancer.EnsureLoadBalancerDeleted(ctx, clusterName, service.DeepCopy())
	})
}

// routes is cloudprovider.Routes as controllers call it.
type routes struct {
	plugin cloudprovider.Routes
	calls  *client
}

func (r *routes) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	return read(ctx, r.calls, r.calls.about("ListRoutes", ""), func(ctx context.Context) ([]*cloudprovider.Route, error) {
		return r.plugin.ListRoutes(ctx, clusterName)
	})
}

func (r *routes) CreateRoute(ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route) error {
	return r.calls.change(ctx, r.calls.about("CreateRoute", route.DestinationCIDR), func(ctx context.Context) error {
		return r.plugin.CreateRoute(ctx, clusterName, nameHint, route)
	})
}

func (r *routes) DeleteRoute(ctx context.Context, clusterName string, route *cloudprovider.Route) error {
	return r.calls.change(ctx, r.calls.about("DeleteRoute", route.DestinationCIDR), func(ctx context.Context) error {
		return r.plugin.DeleteRoute(ctx, clusterName, route)
	})
}
