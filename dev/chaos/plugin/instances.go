package plugin

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// badType is a machine type that no label can have.
const badType = "m5 large (2 CPUs)"

type instances struct {
	of cloudprovider.InstancesV2

	mu sync.Mutex
	// seen is the metadata that was read last, by the name of the node.
	seen map[string]cloudprovider.InstanceMetadata
}

func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	return call(func() (bool, error) {
		if denied(node) {
			return false, nil
		}
		exists, err := i.of.InstanceExists(ctx, node)
		if err == nil && !exists && has(misbehavior.GoneByError) {
			return false, cloudprovider.InstanceNotFound
		}
		return exists, err
	})
}

func (i *instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return call(func() (bool, error) {
		shutdown, err := i.of.InstanceShutdown(ctx, node)
		if err == nil || !has(misbehavior.GoneIsStopped) {
			return shutdown, err
		}
		if errors.Is(err, cloudprovider.InstanceNotFound) {
			return true, nil
		}
		return true, err
	})
}

func (i *instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return call(func() (*cloudprovider.InstanceMetadata, error) {
		if denied(node) {
			return nil, cloudprovider.InstanceNotFound
		}
		metadata, err := i.of.InstanceMetadata(ctx, node)
		i.mu.Lock()
		defer i.mu.Unlock()
		if last, known := i.seen[node.Name]; known && errors.Is(err, cloudprovider.InstanceNotFound) && has(misbehavior.Ghosts) {
			return &last, nil
		}
		if err != nil {
			return nil, err
		}
		i.seen[node.Name] = *metadata
		if has(misbehavior.NoMetadata) {
			return nil, nil
		}
		described := describe(*metadata, quirks())
		if has(misbehavior.Terse) {
			omitKnown(&described, node.Labels)
		}
		return &described, nil
	})
}

// denied says whether the plugin denies the instance of a node: every third.
func denied(node *corev1.Node) bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(node.Name))
	return sum.Sum32()%3 == 0 && has(misbehavior.Denies)
}

// omitKnown leaves out what the labels of the node show already.
func omitKnown(metadata *cloudprovider.InstanceMetadata, labels map[string]string) {
	if labels[corev1.LabelInstanceTypeStable] != "" {
		metadata.InstanceType = ""
	}
	if labels[corev1.LabelTopologyZone] != "" {
		metadata.Zone = ""
	}
	if labels[corev1.LabelTopologyRegion] != "" {
		metadata.Region = ""
	}
	metadata.AdditionalLabels = maps.Clone(metadata.AdditionalLabels)
	maps.DeleteFunc(metadata.AdditionalLabels, func(name, _ string) bool { return labels[name] != "" })
}

// describe returns what the plugin says of an instance.
func describe(metadata cloudprovider.InstanceMetadata, quirks misbehavior.Quirks) cloudprovider.InstanceMetadata {
	if quirks.Has(misbehavior.AddressesTwice) {
		metadata.NodeAddresses = slices.Repeat(metadata.NodeAddresses, 2)
	}
	if quirks.Has(misbehavior.NoIP) {
		metadata.NodeAddresses = slices.DeleteFunc(slices.Clone(metadata.NodeAddresses), func(address corev1.NodeAddress) bool {
			return address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP
		})
	}
	if quirks.Has(misbehavior.BadType) {
		metadata.InstanceType = badType
	}
	if quirks.Has(misbehavior.SchemeOnly) {
		metadata.ProviderID = sim.ProviderID("")
	}
	return metadata
}

// describeAll returns what the plugin says of a page of a list.
func describeAll(page []provider.Instance, quirks misbehavior.Quirks) []provider.Instance {
	var described []provider.Instance
	add := func(instance provider.Instance) {
		instance.InstanceMetadata = describe(instance.InstanceMetadata, quirks)
		described = append(described, instance)
	}
	for _, instance := range page {
		add(instance)
		if quirks.Has(misbehavior.Namesakes) {
			instance.ProviderID += "-namesake"
			add(instance)
		}
	}
	return described
}
