package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/controller/kit/jsonpatch"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/message"
)

// plan is a node as it shall be.
type plan struct {
	// before is the node as it is, and after as it shall be; what does not change they share.
	before, after *corev1.Node
	// writes lead from one to the other, in order; the next one only if the one before it succeeded. None: the node is as desired.
	writes []write
	// kept are the provider's labels whose keys another writer uses on this node with other values, sorted.
	kept []string
	// unknown are the labels that are not as the cloud says and of which it is not known who wrote them, in their order.
	unknown []string
}

// write is one write to the API server.
type write struct {
	target target
	// patch is the difference. It tests everything that it depends on. It takes effect only on the node it was planned for, and only if no other
	// writer changed the same fields.
	patch jsonpatch.Patch
}

// target is the part of a node that a write changes. The API server takes the status of a node by requests of their own.
type target string

const (
	// targetAddresses are the addresses, in the node's status.
	targetAddresses target = "addresses"
	// targetNode is all else: the provider ID, labels, annotations and taints.
	targetNode target = "labels and taints"
)

// planFor returns the node as desired. The addresses come first and the taint is the last thing to go: a program that waits
// for that finds all the rest. Only a node that is being initialized gets a provider ID. Ours says of labels whether a manager that decides for
// the cloud wrote the values that the node has; what it does not say is not known. It counts for an initialized node only.
func planFor(node *corev1.Node, want desired, ours map[string]bool) plan {
	after := *node
	planned := plan{before: node, after: &after}
	if want.addresses != nil && !sameAddresses(node.Status.Addresses, want.addresses, want.leading) {
		after.Status.Addresses = want.addresses
	}
	after.Labels = maps.Clone(node.Labels)
	if after.Labels == nil {
		after.Labels = map[string]string{}
	}
	if want.initializes {
		after.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, want.providerID)
		after.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(taint corev1.Taint) bool {
			return taint.Key == cloudproviderapi.TaintExternalCloudProvider
		})
		maps.Copy(after.Labels, want.wellKnown)
		for key, value := range want.additional {
			switch has, present := after.Labels[key]; {
			case !present:
				after.Labels[key] = value
			case has != value:
				planned.kept = append(planned.kept, key)
			}
		}
		slices.Sort(planned.kept)
	} else {
		planned.unknown = followCloud(after.Labels, want.wellKnown, ours)
	}
	followBeta(after.Labels)
	if want.record != "" {
		after.Annotations = maps.Clone(node.Annotations)
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[ownership.AnnotationProven] = want.record
	}
	planned.writes = difference(node, &after)
	return planned
}

// difference turns a node into another one: its addresses; then its provider ID where it has none, its labels, its annotations, and without
// taints, the last one first, so the places of the others stay.
func difference(before, after *corev1.Node) (writes []write) {
	if !slices.Equal(before.Status.Addresses, after.Status.Addresses) {
		patch := jsonpatch.Replace(before.UID, "/status/addresses", before.Status.Addresses, after.Status.Addresses)
		writes = append(writes, write{targetAddresses, patch})
	}
	patch := jsonpatch.Patch{jsonpatch.Same(before.UID)}
	if path := "/spec/providerID"; before.Spec.ProviderID != after.Spec.ProviderID {
		patch = append(patch, jsonpatch.Operation{Op: "test", Path: path}, jsonpatch.Operation{Op: "add", Path: path, Value: after.Spec.ProviderID})
	}
	patch = append(patch, jsonpatch.Values("/metadata/labels", before.Labels, after.Labels)...)
	patch = append(patch, jsonpatch.Values("/metadata/annotations", before.Annotations, after.Annotations)...)
	for place, taint := range slices.Backward(before.Spec.Taints) {
		if !slices.Contains(after.Spec.Taints, taint) {
			path := fmt.Sprintf("/spec/taints/%d", place)
			patch = append(patch, jsonpatch.Operation{Op: "test", Path: path, Value: taint}, jsonpatch.Operation{Op: "remove", Path: path})
		}
	}
	if len(patch) > 1 {
		writes = append(writes, write{targetNode, patch})
	}
	return writes
}

// updated returns the node that an update of a part of it writes back whole. Of the status the API server takes no more than the status, and of
// all else no status, whatever an update says.
func (p plan) updated(part target) *corev1.Node {
	if part == targetAddresses {
		node := p.before.DeepCopy()
		node.Status.Addresses = p.after.Status.Addresses
		return node
	}
	node := *p.after
	node.Status = corev1.NodeStatus{}
	return node.DeepCopy()
}

// changes returns the paths that a plan writes, in order, for logs.
func (p plan) changes() (paths []string) {
	for _, write := range p.writes {
		for _, operation := range write.patch {
			if operation.Op != "test" {
				paths = append(paths, operation.Path)
			}
		}
	}
	return paths
}

// maxDiscardedShown is how many of the labels that no node gets a log line names.
const maxDiscardedShown = 20

// keysAndValues describe an initialization for the log.
func (p plan) keysAndValues(want desired) []any {
	shown := []any{"changes", p.changes(), "providerID", p.after.Spec.ProviderID}
	if want.providerID != "" && want.providerID != p.after.Spec.ProviderID {
		shown = append(shown, "cloudProviderID", want.providerID)
	}
	if len(p.kept) > 0 {
		shown = append(shown, "labelsOfOthers", p.kept)
	}
	if len(want.discarded) > 0 {
		discarded := make([]string, min(len(want.discarded), maxDiscardedShown))
		for i, label := range want.discarded[:len(discarded)] {
			discarded[i] = message.Line(label.key, maxShown) + ": " + label.reason
		}
		shown = append(shown, "discardedLabels", discarded)
	}
	return shown
}

// sameAddresses reports whether two lists hold the same addresses, the first ones in the same order.
func sameAddresses(has, want []corev1.NodeAddress, leading int) bool {
	return len(has) == len(want) && slices.Equal(has[:leading], want[:leading]) && sets.New(has...).Equal(sets.New(want...))
}

// followCloud gives the labels of an initialized node the cloud's values where ours says so. Of a stable and a beta label the beta one counts, as
// followBeta has it. It returns the labels that are not as the cloud says and of which ours says nothing.
func followCloud(labels, fromCloud map[string]string, ours map[string]bool) (unknown []string) {
	for _, label := range []labelPair{typeLabel, zoneLabel, regionLabel} {
		value, said := fromCloud[label.stable]
		key := label.stable
		if _, present := labels[label.beta]; present {
			key = label.beta
		}
		has, present := labels[key]
		if !said || !present || has == value {
			continue
		}
		switch change, known := ours[key]; {
		case !known:
			unknown = append(unknown, key)
		case change:
			labels[key] = value
		}
	}
	return unknown
}

// followBeta makes a stable label follow its beta label, as the reference does.
func followBeta(labels map[string]string) {
	for _, label := range []labelPair{typeLabel, zoneLabel, regionLabel} {
		if value, present := labels[label.beta]; present {
			labels[label.stable] = value
		}
	}
}
