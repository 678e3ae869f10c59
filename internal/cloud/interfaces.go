package cloud

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// instancesV2 is cloudprovider.InstancesV2 behind the door.
type instancesV2 struct {
	plugin cloudprovider.InstancesV2
	calls  *caller
}

func (i *instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	return read(ctx, i.calls, subject{"InstanceExists", instanceCalls, node.Name}, func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceExists(ctx, node)
	})
}

func (i *instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	return read(ctx, i.calls, subject{"InstanceShutdown", instanceCalls, node.Name}, func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceShutdown(ctx, node)
	})
}

func (i *instancesV2) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return read(ctx, i.calls, subject{"InstanceMetadata", instanceCalls, node.Name}, func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
		return i.plugin.InstanceMetadata(ctx, node)
	})
}

// instances is the legacy cloudprovider.Instances behind the door.
type instances struct {
	plugin cloudprovider.Instances
	calls  *caller
}

func (i *instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	return read(ctx, i.calls, subject{"NodeAddresses", instanceCalls, string(name)}, func(ctx context.Context) ([]v1.NodeAddress, error) {
		return i.plugin.NodeAddresses(ctx, name)
	})
}

func (i *instances) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]v1.NodeAddress, error) {
	return read(ctx, i.calls, subject{"NodeAddressesByProviderID", instanceCalls, providerID}, func(ctx context.Context) ([]v1.NodeAddress, error) {
		return i.plugin.NodeAddressesByProviderID(ctx, providerID)
	})
}

func (i *instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return read(ctx, i.calls, subject{"InstanceID", instanceCalls, string(name)}, func(ctx context.Context) (string, error) {
		return i.plugin.InstanceID(ctx, name)
	})
}

func (i *instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return read(ctx, i.calls, subject{"InstanceType", instanceCalls, string(name)}, func(ctx context.Context) (string, error) {
		return i.plugin.InstanceType(ctx, name)
	})
}

func (i *instances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	return read(ctx, i.calls, subject{"InstanceTypeByProviderID", instanceCalls, providerID}, func(ctx context.Context) (string, error) {
		return i.plugin.InstanceTypeByProviderID(ctx, providerID)
	})
}

func (i *instances) AddSSHKeyToAllInstances(ctx context.Context, user string, keyData []byte) error {
	return write(ctx, i.calls, subject{"AddSSHKeyToAllInstances", instanceCalls, ""}, func(ctx context.Context) error {
		return i.plugin.AddSSHKeyToAllInstances(ctx, user, keyData)
	})
}

func (i *instances) CurrentNodeName(ctx context.Context, hostname string) (types.NodeName, error) {
	return read(ctx, i.calls, subject{"CurrentNodeName", instanceCalls, hostname}, func(ctx context.Context) (types.NodeName, error) {
		return i.plugin.CurrentNodeName(ctx, hostname)
	})
}

func (i *instances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	return read(ctx, i.calls, subject{"InstanceExistsByProviderID", instanceCalls, providerID}, func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceExistsByProviderID(ctx, providerID)
	})
}

func (i *instances) InstanceShutdownByProviderID(ctx context.Context, providerID string) (bool, error) {
	return read(ctx, i.calls, subject{"InstanceShutdownByProviderID", instanceCalls, providerID}, func(ctx context.Context) (bool, error) {
		return i.plugin.InstanceShutdownByProviderID(ctx, providerID)
	})
}

// zones is the legacy cloudprovider.Zones behind the door.
type zones struct {
	plugin cloudprovider.Zones
	calls  *caller
}

func (z *zones) GetZone(ctx context.Context) (cloudprovider.Zone, error) {
	return read(ctx, z.calls, subject{"GetZone", instanceCalls, ""}, z.plugin.GetZone)
}

func (z *zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	return read(ctx, z.calls, subject{"GetZoneByProviderID", instanceCalls, providerID}, func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.plugin.GetZoneByProviderID(ctx, providerID)
	})
}

func (z *zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return read(ctx, z.calls, subject{"GetZoneByNodeName", instanceCalls, string(name)}, func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.plugin.GetZoneByNodeName(ctx, name)
	})
}

// key names a Service.
func key(service *v1.Service) string { return service.Namespace + "/" + service.Name }

// loadBalancer is cloudprovider.LoadBalancer behind the door. GetLoadBalancerName computes a name and passes through.
type loadBalancer struct {
	cloudprovider.LoadBalancer
	calls *caller
}

func (l *loadBalancer) GetLoadBalancer(ctx context.Context, clusterName string, service *v1.Service) (
	*v1.LoadBalancerStatus, bool, error,
) {
	type answer struct {
		status *v1.LoadBalancerStatus
		exists bool
	}
	got, err := read(ctx, l.calls, subject{"GetLoadBalancer", loadBalancerCalls, key(service)}, func(ctx context.Context) (answer, error) {
		status, exists, err := l.LoadBalancer.GetLoadBalancer(ctx, clusterName, service)
		return answer{status, exists}, err
	})
	return got.status, got.exists, err
}

func (l *loadBalancer) EnsureLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) (
	status *v1.LoadBalancerStatus, err error,
) {
	err = write(ctx, l.calls, subject{"EnsureLoadBalancer", loadBalancerCalls, key(service)}, func(ctx context.Context) (err error) {
		status, err = l.LoadBalancer.EnsureLoadBalancer(ctx, clusterName, service, nodes)
		return err
	})
	return status, err
}

func (l *loadBalancer) UpdateLoadBalancer(ctx context.Context, clusterName string, service *v1.Service, nodes []*v1.Node) error {
	return write(ctx, l.calls, subject{"UpdateLoadBalancer", loadBalancerCalls, key(service)}, func(ctx context.Context) error {
		return l.LoadBalancer.UpdateLoadBalancer(ctx, clusterName, service, nodes)
	})
}

func (l *loadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, clusterName string, service *v1.Service) error {
	return write(ctx, l.calls, subject{"EnsureLoadBalancerDeleted", loadBalancerCalls, key(service)}, func(ctx context.Context) error {
		return l.LoadBalancer.EnsureLoadBalancerDeleted(ctx, clusterName, service)
	})
}

// routes is cloudprovider.Routes behind the door.
type routes struct {
	plugin cloudprovider.Routes
	calls  *caller
}

func (r *routes) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	return read(ctx, r.calls, subject{"ListRoutes", routeCalls, ""}, func(ctx context.Context) ([]*cloudprovider.Route, error) {
		return r.plugin.ListRoutes(ctx, clusterName)
	})
}

func (r *routes) CreateRoute(ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route) error {
	return write(ctx, r.calls, subject{"CreateRoute", routeCalls, route.DestinationCIDR}, func(ctx context.Context) error {
		return r.plugin.CreateRoute(ctx, clusterName, nameHint, route)
	})
}

func (r *routes) DeleteRoute(ctx context.Context, clusterName string, route *cloudprovider.Route) error {
	return write(ctx, r.calls, subject{"DeleteRoute", routeCalls, route.DestinationCIDR}, func(ctx context.Context) error {
		return r.plugin.DeleteRoute(ctx, clusterName, route)
	})
}
