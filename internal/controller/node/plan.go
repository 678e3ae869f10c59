package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-openapi/jsonpointer"
	corev1 "k8s.io/api/core/v1"
)

// annotationCloudLabels on a node records the additional labels that came from the cloud, as a JSON object of their keys and
// values. What is not in it, or has another value by now, belongs to somebody else.
const annotationCloudLabels = "mooring.dev/cloud-labels"

// plan is what has to be written to a node.
type plan struct {
	// actions are carried out in order; the next one only if the one before it succeeded. None: the node is as desired.
	actions []action
	// kept are the provider's labels whose keys somebody else uses on this node with other values, sorted.
	kept []string
	// unconfirmed says that the addresses are left alone because a ready node would lose all its IPs by a single answer.
	unconfirmed bool
	// paused are the fields that are not as desired and left alone because somebody else keeps changing them.
	paused []string
}

// The fields of a node that we write, as JSON pointers. Those of a label and an annotation are followed by its escaped key, that of a taint
// by its place.
const (
	fieldAddresses   = "/status/addresses"
	fieldLabels      = "/metadata/labels"
	fieldAnnotations = "/metadata/annotations"
	fieldProviderID  = "/spec/providerID"
	fieldTaints      = "/spec/taints"
)

// restraint is a reason against writing all that is desired.
type restraint struct {
	// again says that an earlier answer of the cloud left the node no IP either.
	again bool
	// paused are the fields that are left alone for a while.
	paused map[string]bool
}

// action is one write to the API server: a JSON patch (RFC 6902) that tests all that it rests on, so that it takes effect on
// the node it was planned for, and only while nobody else has changed what it changes.
type action struct {
	target target
	patch  []operation
}

// target is the part of a node that an action writes.
type target string

const (
	// targetAddresses are the addresses, in the node's status.
	targetAddresses target = "addresses"
	// targetNode is all else: the provider ID, labels, annotations and taints.
	targetNode target = "labels and taints"
)

// operation is one operation of a JSON patch. A test for nil is one for absence.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// planFor returns what makes a node show what is desired. The addresses come first and the taint is the last thing to go, so
// that whoever waits for the taint to go finds all the rest. A node without taint gets no provider ID: it was not initialized
// by anybody, or by a provider that has none. A ready node loses all its IPs only after a second answer, see ADR 17.
func planFor(node *corev1.Node, want desired, held restraint) plan {
	var planned plan
	switch {
	case want.addresses == nil || slices.Equal(node.Status.Addresses, want.addresses):
	case isReady(node) && hasIP(node.Status.Addresses) && !hasIP(want.addresses) && !held.again:
		planned.unconfirmed = true
	case held.paused[fieldAddresses]:
		planned.paused = append(planned.paused, fieldAddresses)
	default:
		planned.actions = append(planned.actions, action{target: targetAddresses, patch: patchAddresses(node, want.addresses)})
	}
	labels := maps.Clone(node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	record, kept := mergeAdditional(labels, recordOf(node), want.additional)
	maps.Copy(labels, want.wellKnown)
	followBeta(labels, want.wellKnown)
	planned.paused = append(planned.paused, pauseLabels(node.Labels, labels, held.paused)...)

	patch := setProviderID(node, want.providerID)
	patch = append(patch, setValues(fieldLabels, node.Labels, labels)...)
	annotations := node.Annotations
	if want.additional != nil {
		annotations = withRecord(annotations, record)
	}
	patch = append(patch, setValues(fieldAnnotations, node.Annotations, withAnnotations(annotations, want.annotations))...)
	patch = append(patch, removeTaints(node)...)
	if len(patch) > 0 {
		planned.actions = append(planned.actions, action{target: targetNode, patch: append(isNode(node), patch...)})
	}
	planned.kept = kept
	return planned
}

// hasIP reports whether one of the addresses is an IP.
func hasIP(addresses []corev1.NodeAddress) bool {
	return slices.ContainsFunc(addresses, func(address corev1.NodeAddress) bool {
		return address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP
	})
}

// mergeAdditional brings the provider's labels into a node's labels by a three-way merge of what the node has, what we
// recorded as ours and what the provider says now. It returns the new record and the keys that somebody else uses. Nothing
// changes if it is not known what the provider says.
func mergeAdditional(labels, record, want map[string]string) (newRecord map[string]string, kept []string) {
	if want == nil {
		return record, nil
	}
	newRecord = map[string]string{}
	for key, value := range want {
		has, present := labels[key]
		recorded, known := record[key]
		switch ours := known && has == recorded; {
		case !present, ours:
			labels[key] = value
			newRecord[key] = value
		case has != value:
			kept = append(kept, key)
		}
	}
	for key, recorded := range record {
		if _, wanted := want[key]; !wanted && labels[key] == recorded {
			delete(labels, key)
		}
	}
	slices.Sort(kept)
	return newRecord, kept
}

// followBeta makes a stable label follow its beta label where the cloud does not say, as the reference does.
func followBeta(labels, fromCloud map[string]string) {
	for _, label := range []labelPair{typeLabel, zoneLabel, regionLabel} {
		value, present := labels[label.beta]
		if _, said := fromCloud[label.stable]; present && !said {
			labels[label.stable] = value
		}
	}
}

// pauseLabels leaves labels as they are for which that is wanted, and returns the fields of those that would have changed, sorted.
func pauseLabels(has, labels map[string]string, paused map[string]bool) []string {
	var left []string
	for _, field := range slices.Sorted(maps.Keys(paused)) {
		key, isLabel := labelOf(field)
		value, present := has[key]
		wanted, remains := labels[key]
		if !isLabel || present == remains && value == wanted {
			continue
		}
		left = append(left, field)
		if delete(labels, key); present {
			labels[key] = value
		}
	}
	return left
}

// labelOf returns the key of the label that a field is, if it is one.
func labelOf(field string) (key string, isLabel bool) {
	escaped, isLabel := strings.CutPrefix(field, fieldLabels+"/")
	return jsonpointer.Unescape(escaped), isLabel
}

// recordOf returns the additional labels that we put on a node. A record that cannot be read counts as missing, and a key that no
// provider may set was not set by us.
func recordOf(node *corev1.Node) map[string]string {
	record := map[string]string{}
	if err := json.Unmarshal([]byte(node.Annotations[annotationCloudLabels]), &record); err != nil {
		return nil
	}
	maps.DeleteFunc(record, func(key, _ string) bool { return kubernetesKey.MatchString(key) })
	return record
}

// withRecord returns annotations with a record; there is no empty one.
func withRecord(annotations, record map[string]string) map[string]string {
	changed := maps.Clone(annotations)
	delete(changed, annotationCloudLabels)
	if len(record) == 0 {
		return changed
	}
	if changed == nil {
		changed = map[string]string{}
	}
	encoded, err := json.Marshal(record)
	if err != nil {
		return annotations // strings always encode; this keeps the record if that ever changes
	}
	changed[annotationCloudLabels] = string(encoded)
	return changed
}

// withAnnotations returns annotations with some that were added or changed.
func withAnnotations(annotations, set map[string]string) map[string]string {
	if len(set) == 0 {
		return annotations
	}
	changed := maps.Clone(set)
	for key, value := range annotations {
		if _, found := set[key]; !found {
			changed[key] = value
		}
	}
	return changed
}

// isNode makes a patch fail for another node of the same name.
func isNode(node *corev1.Node) []operation {
	return []operation{{Op: "test", Path: "/metadata/uid", Value: node.UID}}
}

func patchAddresses(node *corev1.Node, addresses []corev1.NodeAddress) []operation {
	before := operation{Op: "test", Path: fieldAddresses}
	if len(node.Status.Addresses) > 0 {
		before.Value = node.Status.Addresses
	}
	return append(isNode(node), before, operation{Op: "add", Path: fieldAddresses, Value: addresses})
}

func setProviderID(node *corev1.Node, providerID string) []operation {
	if node.Spec.ProviderID != "" || providerID == "" {
		return nil
	}
	return []operation{{Op: "test", Path: fieldProviderID}, {Op: "add", Path: fieldProviderID, Value: providerID}}
}

// setValues turns a map of strings into another one, key by key in order, each tested to be as it was.
func setValues(path string, from, to map[string]string) []operation {
	var patch []operation
	keys := slices.Concat(slices.Collect(maps.Keys(from)), slices.Collect(maps.Keys(to)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		old, had := from[key]
		value, has := to[key]
		if had == has && old == value {
			continue
		}
		at := path + "/" + jsonpointer.Escape(key)
		before := operation{Op: "test", Path: at}
		if had {
			before.Value = old
		}
		after := operation{Op: "remove", Path: at}
		if has {
			after = operation{Op: "add", Path: at, Value: value}
		}
		patch = append(patch, before, after)
	}
	if len(from) == 0 && len(patch) > 0 {
		// The API server leaves an empty map out, and a patch cannot add to what is not there.
		made := []operation{{Op: "test", Path: path}, {Op: "add", Path: path, Value: map[string]string{}}}
		patch = append(made, patch...)
	}
	return patch
}

// removeTaints removes the taints of a node that waits for its initialization, the last one first, so that the places of
// the others stay.
func removeTaints(node *corev1.Node) []operation {
	var patch []operation
	for _, place := range slices.Backward(cloudTaints(node)) {
		path := fmt.Sprintf("%s/%d", fieldTaints, place)
		patch = append(patch,
			operation{Op: "test", Path: path, Value: node.Spec.Taints[place]}, operation{Op: "remove", Path: path})
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

// fields returns what a plan writes of the fields that others write, too, by field. The value of what is removed is empty.
func (p plan) fields() map[string]string {
	fields := map[string]string{}
	for _, action := range p.actions {
		for _, operation := range action.patch {
			if operation.Op == "test" {
				continue
			}
			if _, isLabel := labelOf(operation.Path); isLabel {
				fields[operation.Path], _ = operation.Value.(string)
			} else if addresses, are := operation.Value.([]corev1.NodeAddress); are {
				fields[operation.Path] = addressList(addresses)
			}
		}
	}
	return fields
}
