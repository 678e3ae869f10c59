package sim

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// instancesV2 is cloudprovider.InstancesV2.
type instancesV2 struct{ *Cloud }

// InstanceExists reports whether the node's instance exists, stopped ones included. Only the cloud's own word that it does
// not makes it false; everything else is an error.
func (c instancesV2) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	_, err := c.instanceOf(ctx, node)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown reports whether the node's instance is stopped.
func (c instancesV2) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	instance, err := c.instanceOf(ctx, node)
	if err != nil {
		return false, err
	}
	return instance.State == api.InstanceStopped, nil
}

// InstanceMetadata returns what the cloud knows of the node's instance.
func (c instancesV2) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	instance, err := c.instanceOf(ctx, node)
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(*instance)
	return &metadata, nil
}

// instanceOf finds a node's instance by its provider ID, and by its name if it has none.
func (c *Cloud) instanceOf(ctx context.Context, node *v1.Node) (*api.Instance, error) {
	if node.Spec.ProviderID != "" {
		return c.instanceByProviderID(ctx, node.Spec.ProviderID)
	}
	return c.instanceByName(ctx, types.NodeName(node.Name))
}

func (c *Cloud) instanceByProviderID(ctx context.Context, providerID string) (*api.Instance, error) {
	id, err := ParseProviderID(providerID)
	if err != nil {
		return nil, err
	}
	instance, err := c.client.GetInstance(ctx, id)
	if err != nil {
		return nil, classifyInstance(err)
	}
	if instance.ID != id {
		return nil, fmt.Errorf("the cloud was asked for instance %s and answered with %s", id, instance.ID)
	}
	return instance, nil
}

func (c *Cloud) instanceByName(ctx context.Context, name types.NodeName) (*api.Instance, error) {
	instance, err := c.client.GetInstanceByName(ctx, string(name))
	if err != nil {
		return nil, classifyInstance(err)
	}
	if instance.Name != string(name) {
		return nil, fmt.Errorf("the cloud was asked for the instance named %s and answered with %s", name, instance.Name)
	}
	return instance, nil
}

// listInstances is provider.ListInstancesFunc.
func (c *Cloud) listInstances(ctx context.Context, yield func([]provider.Instance) error) error {
	return classify(c.client.ListInstances(ctx, func(page []api.Instance) error {
		instances := make([]provider.Instance, len(page))
		for i, instance := range page {
			instances[i] = listed(instance)
		}
		return yield(instances)
	}))
}

func stateOf(state api.InstanceState) provider.InstanceState {
	switch state {
	case api.InstanceRunning, api.InstancePending:
		return provider.InstanceRunning
	case api.InstanceStopped:
		return provider.InstanceStopped
	default:
		return provider.InstanceStateUnknown
	}
}

func metadataOf(instance api.Instance) cloudprovider.InstanceMetadata {
	return cloudprovider.InstanceMetadata{
		ProviderID:       ProviderID(instance.ID),
		InstanceType:     instance.MachineType,
		NodeAddresses:    addressesOf(instance),
		Zone:             instance.Zone,
		Region:           instance.Region,
		AdditionalLabels: instance.Labels,
	}
}

// addressesOf keeps the cloud's order, which says what comes first.
func addressesOf(instance api.Instance) []v1.NodeAddress {
	addresses := make([]v1.NodeAddress, len(instance.Addresses))
	for i, address := range instance.Addresses {
		addresses[i] = v1.NodeAddress{Type: v1.NodeAddressType(address.Type), Address: address.Address}
	}
	return addresses
}
