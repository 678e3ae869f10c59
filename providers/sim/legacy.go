package sim

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// instances is cloudprovider.Instances, the interface before InstancesV2.
type instances struct{ *Cloud }

// NodeAddresses returns the addresses of the instance with the node's name.
func (c instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	instance, err := c.instanceByName(ctx, name)
	if err != nil {
		return nil, err
	}
	return addressesOf(*instance), nil
}

// NodeAddressesByProviderID returns the addresses of an instance.
func (c instances) NodeAddressesByProviderID(ctx context.Context, providerID string) ([]v1.NodeAddress, error) {
	instance, err := c.instanceByProviderID(ctx, providerID)
	if err != nil {
		return nil, err
	}
	return addressesOf(*instance), nil
}

// InstanceID returns what comes after "sim://" in the provider ID of the instance with the node's name. For an instance that
// does not exist the error is cloudprovider.InstanceNotFound itself, as the contract says.
func (c instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	instance, err := c.instanceByName(ctx, name)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		return "", cloudprovider.InstanceNotFound
	}
	if err != nil {
		return "", err
	}
	return instance.ID, nil
}

// InstanceType returns the machine type of the instance with the node's name.
func (c instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	instance, err := c.instanceByName(ctx, name)
	if err != nil {
		return "", err
	}
	return instance.MachineType, nil
}

// InstanceTypeByProviderID returns the machine type of an instance.
func (c instances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	instance, err := c.instanceByProviderID(ctx, providerID)
	if err != nil {
		return "", err
	}
	return instance.MachineType, nil
}

// AddSSHKeyToAllInstances is not implemented: simulated instances have no logins.
func (c instances) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName returns the host name, by which kubelets register in this cloud.
func (c instances) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	return types.NodeName(hostname), nil
}

// InstanceExistsByProviderID reports whether an instance exists, a stopped one included.
func (c instances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	_, err := c.instanceByProviderID(ctx, providerID)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdownByProviderID reports whether an instance is stopped.
func (c instances) InstanceShutdownByProviderID(ctx context.Context, providerID string) (bool, error) {
	instance, err := c.instanceByProviderID(ctx, providerID)
	if err != nil {
		return false, err
	}
	return instance.State == api.InstanceStopped, nil
}

// zones is cloudprovider.Zones, which goes with instances.
type zones struct{ *Cloud }

// GetZone is not implemented: it asks for the zone of the calling process, which need not run on an instance.
func (c zones) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, cloudprovider.NotImplemented
}

// GetZoneByProviderID returns the zone and the region of an instance.
func (c zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	return zoneOf(c.instanceByProviderID(ctx, providerID))
}

// GetZoneByNodeName returns the zone and the region of the instance with the node's name.
func (c zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return zoneOf(c.instanceByName(ctx, name))
}

func zoneOf(instance *api.Instance, err error) (cloudprovider.Zone, error) {
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return cloudprovider.Zone{FailureDomain: instance.Zone, Region: instance.Region}, nil
}
