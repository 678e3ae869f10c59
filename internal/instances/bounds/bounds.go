// Package bounds says how much of an instance is believed: more is a mistake of the cloud or of the plugin, and must cost neither memory
// nor the node objects of others. It is pure.
//
// See ADR 6.
package bounds

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// The bounds of one instance.
const (
	// MaxProviderIDBytes is how long a provider ID may be. Those of the clouds have up to some hundred bytes.
	MaxProviderIDBytes = 4 << 10
	// MaxTextBytes is how long a type, a zone, a region or an address may be: what a name of DNS may have, which is more than the value
	// of a label.
	MaxTextBytes = 253
	// MaxAddresses is how many addresses an instance may have.
	MaxAddresses = 256
	// MaxLabelBytes is how many bytes the keys and values of its additional labels may have: a node's annotation records them, and all
	// annotations of an object have 256 KiB.
	MaxLabelBytes = 32 << 10
)

// Trim returns what a cloud says of an instance without most of what is beyond the bounds; so much of that stays that it still shows.
// The argument is not changed, and is returned as it is if it is within.
func Trim(metadata cloudprovider.InstanceMetadata) cloudprovider.InstanceMetadata {
	metadata.InstanceType = clip(metadata.InstanceType)
	metadata.Zone, metadata.Region = clip(metadata.Zone), clip(metadata.Region)
	if addresses := metadata.NodeAddresses; len(addresses) > MaxAddresses || slices.ContainsFunc(addresses, long) {
		trimmed := slices.Clone(addresses[:min(len(addresses), MaxAddresses+1)])
		for i := range trimmed {
			trimmed[i].Address, trimmed[i].Type = clip(trimmed[i].Address), clip(trimmed[i].Type)
		}
		metadata.NodeAddresses = trimmed
	}
	metadata.AdditionalLabels = trimLabels(metadata.AdditionalLabels)
	return metadata
}

func long(address corev1.NodeAddress) bool {
	return len(address.Address) > MaxTextBytes || len(address.Type) > MaxTextBytes
}

// clip returns the beginning of a text, longer than it may be if the text is. It keeps nothing of the rest in memory.
func clip[T ~string](text T) T {
	if len(text) <= MaxTextBytes+1 {
		return text
	}
	return T(strings.Clone(string(text[:MaxTextBytes+1])))
}

func trimLabels(labels map[string]string) map[string]string {
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
	}
	if size <= MaxLabelBytes {
		return labels
	}
	trimmed := map[string]string{}
	size = 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		size += len(key) + len(value)
		trimmed[clip(key)] = clip(value)
		if size > MaxLabelBytes {
			break
		}
	}
	return trimmed
}

// Size is about how many bytes of memory an instance takes.
func Size(metadata *cloudprovider.InstanceMetadata, nodeName string) int {
	const header = 16 // of a string
	size := 256 + len(metadata.ProviderID) + len(metadata.InstanceType) + len(metadata.Zone) + len(metadata.Region) + len(nodeName)
	for _, address := range metadata.NodeAddresses {
		size += 2*header + len(address.Address)
	}
	for key, value := range metadata.AdditionalLabels {
		size += 2*header + len(key) + len(value)
	}
	return size
}
