package inventory

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// legacy asks a plugin that offers Instances, and perhaps Zones, but not InstancesV2. What it asks, and in which order, is
// the reference's: first by provider ID, then by name.
type legacy struct {
	cloud     cloudprovider.Interface
	instances cloudprovider.Instances
}

func (l legacy) metadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, string, error) {
	providerID, err := l.providerID(ctx, node)
	if err != nil {
		return nil, "", err
	}
	name := types.NodeName(node.Name)
	metadata := &cloudprovider.InstanceMetadata{ProviderID: providerID}
	var byID bool
	if metadata.NodeAddresses, byID, err = idThenName(providerID, name, "addresses",
		func() ([]corev1.NodeAddress, error) { return l.instances.NodeAddressesByProviderID(ctx, providerID) },
		func() ([]corev1.NodeAddress, error) { return l.instances.NodeAddresses(ctx, name) },
	); err != nil {
		return nil, "", err
	}
	if metadata.InstanceType, _, err = idThenName(providerID, name, "instance type",
		func() (string, error) { return l.instances.InstanceTypeByProviderID(ctx, providerID) },
		func() (string, error) { return l.instances.InstanceType(ctx, name) },
	); err != nil {
		return nil, "", err
	}
	if err := l.zone(ctx, metadata, providerID, name); err != nil {
		return nil, "", err
	}
	if node.Spec.ProviderID != "" && !byID {
		return metadata, "", nil // found by name: no evidence that the provider knows the node's provider ID
	}
	return metadata, providerID, nil
}

// providerID returns the node's provider ID, or asks for one. It is empty, without an error, for a provider that has none.
func (l legacy) providerID(ctx context.Context, node *corev1.Node) (string, error) {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID, nil
	}
	providerID, err := cloudprovider.GetInstanceProviderID(ctx, l.cloud, types.NodeName(node.Name))
	if err != nil && !errors.Is(err, provider.ErrNotImplemented) {
		return "", fmt.Errorf("asking the cloud for the provider ID of node %q: %w", node.Name, err)
	}
	return providerID, nil
}

func (l legacy) zone(
	ctx context.Context, metadata *cloudprovider.InstanceMetadata, providerID string, name types.NodeName,
) error {
	zones, ok := l.cloud.Zones()
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
	errByID := provider.ErrNotImplemented
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
		return fmt.Sprintf("asking the cloud for the %s of node %q by name: %v", e.what, e.name, e.byName)
	}
	return fmt.Sprintf("asking the cloud for the %s of node %q: by provider ID %q: %v; by name: %v",
		e.what, e.name, e.providerID, e.byID, e.byName)
}

// Unwrap returns what decides: errors other than "not found" and "not implemented" if there are any, because the instance
// may then be there; otherwise "not found" if one of the two said so.
func (e *bothFailedError) Unwrap() []error {
	var failures, notFound []error
	for _, err := range []error{e.byID, e.byName} {
		switch {
		case errors.Is(err, provider.ErrInstanceNotFound):
			notFound = append(notFound, err)
		case !errors.Is(err, provider.ErrNotImplemented):
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return failures
	}
	return notFound
}
