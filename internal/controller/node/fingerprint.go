package node

import (
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// fingerprint identifies all that decides what a refresh does with a node: whatever desired.go and plan.go read of it, and what
// the cloud said. Two that differ have equal fingerprints once in 2^64 cases, and then only until either changes.
//
// It stands for a copy of the node, which would keep a second version of each in memory.
type fingerprint uint64

// seed is the process's own: fingerprints mean nothing to another one.
var seed = maphash.MakeSeed()

// fingerprintOf returns the fingerprint of an initialized node with an observation. It allocates nothing.
func fingerprintOf(node *corev1.Node, said instances.Observation) fingerprint {
	var print fingerprint
	print = print.with(string(node.UID)).with(node.Spec.ProviderID).withMap(node.Labels)
	for i := range node.Spec.Taints {
		print = print.with(node.Spec.Taints[i].Key)
	}
	for _, key := range [...]string{
		cloudproviderapi.AnnotationAlphaProvidedIPAddr, ownership.AnnotationIgnore, ownership.AnnotationProven, annotationCloudLabels,
	} {
		value, present := node.Annotations[key]
		print = print.withNumber(boolToInt(present)).with(value)
	}
	print = print.withAddresses(node.Status.Addresses)

	metadata := &said.Metadata
	print = print.withNumber(int(said.Status)).withNumber(boolToInt(said.Listed < 0)).with(said.Answered).with(metadata.ProviderID)
	print = print.with(metadata.InstanceType).with(metadata.Zone).with(metadata.Region)
	return print.withAddresses(metadata.NodeAddresses).withNumber(boolToInt(metadata.AdditionalLabels == nil)).withMap(metadata.AdditionalLabels)
}

// with returns the fingerprint of what came before and a text.
func (f fingerprint) with(text string) fingerprint {
	type step struct {
		before fingerprint
		text   string
	}
	return fingerprint(maphash.Comparable(seed, step{f, text}))
}

func (f fingerprint) withNumber(number int) fingerprint {
	type step struct {
		before fingerprint
		number int
	}
	return fingerprint(maphash.Comparable(seed, step{f, number}))
}

// withMap does not depend on the order of the entries.
func (f fingerprint) withMap(entries map[string]string) fingerprint {
	var sum fingerprint
	for key, value := range entries {
		sum += fingerprint(0).with(key).with(value)
	}
	return f.withNumber(len(entries)).withNumber(int(sum))
}

// withAddresses depends on their order, which is the cloud's.
func (f fingerprint) withAddresses(addresses []corev1.NodeAddress) fingerprint {
	f = f.withNumber(len(addresses))
	for i := range addresses {
		f = f.with(string(addresses[i].Type)).with(addresses[i].Address)
	}
	return f
}

func boolToInt(value bool) int {
	if value {
		return 1
	}
	return 0
}
