package provider

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// InstancesV2 returns one way to ask any plugin for the instances of nodes: the plugin's own InstancesV2, or else its older
// Instances, and Zones if it has those. It is false for a plugin that has neither. Plugins may offer instances only once they are
// initialized, so ask late.
//
// What is asked of the older interfaces, and in which order, is the reference's: by provider ID first, then by name. By those
//
//   - InstanceMetadata has addresses, instance type, zone and region; a zone is asked for only if the plugin has zones. Its
//     ProviderID is empty if the plugin does not know any, or answered by the node's name alone and so has not vouched for the
//     node's provider ID. It is ErrInstanceNotFound only if no other error contradicts that;
//   - InstanceExists and InstanceShutdown ask by the node's provider ID, or by that which the plugin knows for the node's name. A
//     node for which there is none is an error that is ErrNotImplemented: nothing is known of it.
func InstancesV2(cloud cloudprovider.Interface) (cloudprovider.InstancesV2, bool) {
	if instances, ok := cloud.InstancesV2(); ok && instances != nil {
		return instances, true
	}
	instances, ok := cloud.Instances()
	if !ok || instances == nil {
		return nil, false
	}
	return older{cloud: cloud, instances: instances}, true
}

// older is cloudprovider.InstancesV2 by cloudprovider.Instances and cloudprovider.Zones.
type older struct {
	cloud     cloudprovider.Interface
	instances cloudprovider.Instances
}

var _ cloudprovider.InstancesV2 = older{}

// InstanceExists asks by provider ID, the only way in which the older interface answers that.
func (o older) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	providerID, err := o.requiredID(ctx, node)
	if err != nil {
		return false, err
	}
	return o.instances.InstanceExistsByProviderID(ctx, providerID)
}

// InstanceShutdown asks by provider ID, the only way in which the older interface answers that.
func (o older) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	providerID, err := o.requiredID(ctx, node)
	if err != nil {
		return false, err
	}
	return o.instances.InstanceShutdownByProviderID(ctx, providerID)
}

// InstanceMetadata asks for one thing after the other.
func (o older) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	providerID, err := o.providerID(ctx, node)
	if err != nil {
		return nil, err
	}
	name := types.NodeName(node.Name)
	metadata := &cloudprovider.InstanceMetadata{ProviderID: providerID}
	var byID bool
	if metadata.NodeAddresses, byID, err = idThenName(providerID, name, "addresses",
		func() ([]v1.NodeAddress, error) { return o.instances.NodeAddressesByProviderID(ctx, providerID) },
		func() ([]v1.NodeAddress, error) { return o.instances.NodeAddresses(ctx, name) },
	); err != nil {
		return nil, err
	}
	if metadata.InstanceType, _, err = idThenName(providerID, name, "instance type",
		func() (string, error) { return o.instances.InstanceTypeByProviderID(ctx, providerID) },
		func() (string, error) { return o.instances.InstanceType(ctx, name) },
	); err != nil {
		return nil, err
	}
	if err := o.zone(ctx, metadata, providerID, name); err != nil {
		return nil, err
	}
	if node.Spec.ProviderID != "" && !byID {
		metadata.ProviderID = "" // found by name: no evidence that the provider knows the node's provider ID
	}
	return metadata, nil
}

// providerID returns the node's provider ID, or asks for one. It is empty, without an error, for a provider that has none.
func (o older) providerID(ctx context.Context, node *v1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	providerID, err := cloudprovider.GetInstanceProviderID(ctx, o.cloud, types.NodeName(node.Name))
	if err != nil && !errors.Is(err, ErrNotImplemented) {
		return "", fmt.Errorf("its provider ID by the name %q: %w", node.Name, err)
	}
	return providerID, nil
}

// errNoProviderID says that a plugin cannot be asked for a node's instance, which it only knows by a provider ID.
var errNoProviderID = fmt.Errorf("the node has no provider ID, and the cloud provider cannot look one up: %w", ErrNotImplemented)

func (o older) requiredID(ctx context.Context, node *v1.Node) (string, error) {
	providerID, err := o.providerID(ctx, node)
	if err == nil && providerID == "" {
		err = errNoProviderID
	}
	return providerID, err
}

func (o older) zone(ctx context.Context, metadata *cloudprovider.InstanceMetadata, providerID string, name types.NodeName) error {
	zones, ok := o.cloud.Zones()
	if !ok || zones == nil {
		return nil
	}
	zone, _, err := idThenName(providerID, name, "zone",
		func() (cloudprovider.Zone, error) { return zones.GetZoneByProviderID(ctx, providerID) },
		func() (cloudprovider.Zone, error) { return zones.GetZoneByNodeName(ctx, name) })
	metadata.Zone, metadata.Region = zone.FailureDomain, zone.Region
	return err
}

// idThenName asks by provider ID and, if that fails, by name; byID says which answered. If both fail, the error is that the
// instance was not found only if no other error contradicts it.
func idThenName[T any](providerID string, name types.NodeName, what string, askByID, askByName func() (T, error)) (
	value T, byID bool, err error,
) {
	errByID := ErrNotImplemented
	if providerID != "" {
		if value, errByID = askByID(); errByID == nil {
			return value, true, nil
		}
	}
	value, errByName := askByName()
	if errByName == nil {
		return value, false, nil
	}
	var zero T
	return zero, false, &bothFailedError{what: what, providerID: providerID, name: name, byID: errByID, byName: errByName}
}

// bothFailedError is the failure of a lookup by provider ID and by name.
type bothFailedError struct {
	what, providerID string
	name             types.NodeName
	byID, byName     error
}

// Error says what was asked, and how.
func (e *bothFailedError) Error() string {
	if e.providerID == "" {
		return fmt.Sprintf("its %s by the name %q: %v", e.what, e.name, e.byName)
	}
	return fmt.Sprintf("its %s by provider ID %q: %v; by the name %q: %v", e.what, e.providerID, e.byID, e.name, e.byName)
}

// Unwrap returns what decides: errors other than "not found" and "not implemented" if there are any, because the instance
// may then be there; otherwise "not found" if one of the two said so.
func (e *bothFailedError) Unwrap() []error {
	var failures, notFound []error
	for _, err := range []error{e.byID, e.byName} {
		switch {
		case errors.Is(err, ErrInstanceNotFound):
			notFound = append(notFound, err)
		case !errors.Is(err, ErrNotImplemented):
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return notFound
}
