package conformance_test

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// asked returns a mutation of how InstanceMetadata is asked.
func asked(ask func(ctx context.Context, m *mutant, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error)) func(*mutant) {
	return func(m *mutant) {
		m.v2.metadata = func(ctx context.Context, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			return ask(ctx, m, right, node)
		}
	}
}

// described returns a mutation of the metadata of instances that exist.
func described(change func(*cloudprovider.InstanceMetadata)) func(*mutant) {
	return changed(func(metadata *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
		if err == nil {
			change(metadata)
		}
		return metadata, err
	})
}

func identityMutations() []mutation {
	return []mutation{
		{"instances-foreign-metadata", "what is foreign is not found",
			changed(func(metadata *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
				if err != nil {
					err = provider.ErrInstanceNotFound
				}
				return metadata, err
			})},
		{"instances-foreign-metadata", "what is foreign has metadata",
			changed(func(_ *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
				return &cloudprovider.InstanceMetadata{ProviderID: "sim://i-1"}, nil
			})},
		{"instances-name-exact", "a name that begins like an instance's is its own", asked(byBeginning)},
		{"instances-name-reused", "names are looked up once", asked(rememberingNames)},
		{"instances-ip", "there are only host names", described(func(metadata *cloudprovider.InstanceMetadata) {
			metadata.NodeAddresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "machine"}}
		})},
		{"instances-labels", "a zone has a blank", described(func(metadata *cloudprovider.InstanceMetadata) { metadata.Zone = "row 4" })},
		{"instances-labels", "a label is Kubernetes' own", described(func(metadata *cloudprovider.InstanceMetadata) {
			metadata.AdditionalLabels = map[string]string{"node-role.kubernetes.io/worker": ""}
		})},
		{"instances-labels", "an additional label has a blank", described(func(metadata *cloudprovider.InstanceMetadata) {
			metadata.AdditionalLabels = map[string]string{"machine.example/rack": "row 4"}
		})},
		{"instances-broken-id", "an ID that cannot be read is anybody's",
			denied(func(ctx context.Context, right right2, node *v1.Node) (bool, error) {
				exists, err := right.InstanceExists(ctx, node)
				return exists || err != nil, nil
			})},
		{"instances-missing-not-stopped", "what does not exist is shut down", func(m *mutant) {
			m.v2.shutdown = func(ctx context.Context, right right2, node *v1.Node) (bool, error) {
				shutdown, err := right.InstanceShutdown(ctx, node)
				return shutdown || err != nil, nil
			}
		}},
		{"instances-read-only", "the provider ID is filled in", asked(
			func(ctx context.Context, _ *mutant, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
				metadata, err := right.InstanceMetadata(ctx, node)
				if err == nil {
					node.Spec.ProviderID = metadata.ProviderID
				}
				return metadata, err
			})},
		{"instances-concurrent", "of two at once, the second is refused", asked(
			func(ctx context.Context, m *mutant, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
				if m.overlaps(ctx) {
					return nil, errors.New("one at a time")
				}
				return right.InstanceMetadata(ctx, node)
			})},
	}
}

// byBeginning finds an instance for a node's name that is only the beginning of it.
func byBeginning(ctx context.Context, m *mutant, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, instance := range m.created {
		if node.Spec.ProviderID == "" && strings.HasPrefix(string(instance.NodeName), node.Name) {
			node = &v1.Node{}
			node.Name = string(instance.NodeName)
		}
	}
	return right.InstanceMetadata(ctx, node)
}

// rememberingNames answers for a name with the provider ID that it had first.
func rememberingNames(ctx context.Context, m *mutant, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	metadata, err := right.InstanceMetadata(ctx, node)
	if err != nil || node.Spec.ProviderID != "" {
		return metadata, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.named == nil {
		m.named = map[types.NodeName]string{}
	}
	name := types.NodeName(node.Name)
	if _, known := m.named[name]; !known {
		m.named[name] = metadata.ProviderID
	}
	metadata.ProviderID = m.named[name]
	return metadata, nil
}
