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
)

// plan is what has to be written to a node.
type plan struct {
	// actions are carried out in order; the next one only if the one before it succeeded. None: the node is as desired.
	actions []action
	// kept are the provider's labels whose keys another writer uses on this node with other values, sorted.
	kept []string
	// unknown are the labels that are not as the cloud says and of which it is not known who wrote them, in their order.
	unknown []string
}

// The fields of a node that we write, as JSON pointers. The escaped key of a label or an annotation, or the index of a taint, follows its pointer.
const (
	fieldAddresses   = "/status/addresses"
	fieldLabels      = "/metadata/labels"
	fieldAnnotations = "/metadata/annotations"
	fieldProviderID  = "/spec/providerID"
	fieldTaints      = "/spec/taints"
)

// action is one write to the API server.
type action struct {
	target target
	// after is the node as it shall be, but for what other actions write. It shares with the node before what this one does not write.
	after *corev1.Node
	// patch is the difference. It tests everything that it depends on. It takes effect only on the node it was planned for, and only if no other
	// writer changed the same fields.
	patch jsonpatch.Patch
}

// target is the part of a node that an action writes.
type target string

const (
	// targetAddresses are the addresses, in the node's status.
	targetAddresses target = "addresses"
	// targetNode is all else: the provider ID, labels, annotations and taints.
	targetNode target = "labels and taints"
)

// planFor returns what makes a node show what is desired. The addresses come first and the taint is the last thing to go: a program that waits
// for that finds all the rest. Only a node that is being initialized gets a provider ID. Ours says of labels whether a manager that decides for
// the cloud wrote the values that the node has; what it does not say is not known. It counts for an initialized node only.
func planFor(node *corev1.Node, want desired, ours map[string]bool) plan {
	var planned plan
	if want.addresses != nil && !sameAddresses(node.Status.Addresses, want.addresses, want.leading) {
		after := *node
		after.Status.Addresses = want.addresses
		patch := jsonpatch.Replace(node.UID, fieldAddresses, node.Status.Addresses, want.addresses)
		planned.actions = append(planned.actions, action{targetAddresses, &after, patch})
	}
	after := *node
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
		planned.kept = addAbsent(after.Labels, want.additional)
	} else {
		planned.unknown = followCloud(after.Labels, want.wellKnown, ours)
	}
	followBeta(after.Labels)
	if len(want.annotations) > 0 {
		after.Annotations = map[string]string{}
		maps.Copy(after.Annotations, node.Annotations)
		maps.Copy(after.Annotations, want.annotations)
	}
	if patch := difference(node, &after); len(patch) > 0 {
		planned.actions = append(planned.actions, action{targetNode, &after, append(jsonpatch.Patch{jsonpatch.Same(node.UID)}, patch...)})
	}
	return planned
}

// sameAddresses reports whether two lists hold the same addresses, the first ones in the same order.
func sameAddresses(has, want []corev1.NodeAddress, leading int) bool {
	return len(has) == len(want) && slices.Equal(has[:leading], want[:leading]) && sets.New(has...).Equal(sets.New(want...))
}

// addAbsent adds the provider's labels that a node lacks. It returns the keys that others use with other values, sorted.
func addAbsent(labels, additional map[string]string) (kept []string) {
	for key, value := range additional {
		switch has, present := labels[key]; {
		case !present:
			labels[key] = value
		case has != value:
			kept = append(kept, key)
		}
	}
	slices.Sort(kept)
	return kept
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

// difference turns a node into another one: its provider ID where it has none, its labels, its annotations, and without taints, the last one
// first, so the places of the others stay.
func difference(before, after *corev1.Node) jsonpatch.Patch {
	var patch jsonpatch.Patch
	if before.Spec.ProviderID != after.Spec.ProviderID {
		patch = jsonpatch.Patch{{Op: "test", Path: fieldProviderID}, {Op: "add", Path: fieldProviderID, Value: after.Spec.ProviderID}}
	}
	patch = append(patch, setValues(fieldLabels, before.Labels, after.Labels)...)
	patch = append(patch, setValues(fieldAnnotations, before.Annotations, after.Annotations)...)
	for place, taint := range slices.Backward(before.Spec.Taints) {
		if !slices.Contains(after.Spec.Taints, taint) {
			path := fmt.Sprintf("%s/%d", fieldTaints, place)
			patch = append(patch, jsonpatch.Operation{Op: "test", Path: path, Value: taint}, jsonpatch.Operation{Op: "remove", Path: path})
		}
	}
	return patch
}

// setValues turns a map of strings into another one, key by key in order, each tested to be as it was.
func setValues(path string, from, to map[string]string) jsonpatch.Patch {
	var patch jsonpatch.Patch
	keys := slices.Concat(slices.Collect(maps.Keys(from)), slices.Collect(maps.Keys(to)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		old, had := from[key]
		value, has := to[key]
		if had == has && old == value {
			continue
		}
		at := jsonpatch.Member(path, key)
		before := jsonpatch.Operation{Op: "test", Path: at}
		if had {
			before.Value = old
		}
		after := jsonpatch.Operation{Op: "remove", Path: at}
		if has {
			after = jsonpatch.Operation{Op: "add", Path: at, Value: value}
		}
		patch = append(patch, before, after)
	}
	if len(from) == 0 && len(patch) > 0 {
		// The API server leaves an empty map out, and a patch cannot add to what is not there.
		made := jsonpatch.Patch{{Op: "test", Path: path}, {Op: "add", Path: path, Value: map[string]string{}}}
		patch = append(made, patch...)
	}
	return patch
}

// changes returns the paths that a plan writes, in order, for logs.
func (p plan) changes() []string {
	var paths []string
	for _, action := range p.actions {
		for _, operation := range action.patch {
			if operation.Op != "test" {
				paths = append(paths, operation.Path)
			}
		}
	}
	return paths
}
