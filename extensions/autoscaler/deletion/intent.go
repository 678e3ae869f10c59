// Package deletion is what is written on a Node whose instance the Cluster Autoscaler wants deleted, and what has to be true before that.
//
// See ADR 64.
package deletion

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/internal/controller/kit/jsonpatch"
	"github.com/mooring-ccm/mooring/internal/names"
)

const (
	// Annotation holds the intent to delete the instance of a node, as JSON.
	Annotation = "autoscaler.mooring.dev/deletion"
	// Taint is the one by which the Cluster Autoscaler announces a deletion. It takes it off when it gives the deletion up.
	Taint = names.TaintToBeDeleted
	// excludedBy is the value of the label that keeps nodes from load balancers if it was set with an intent. Only its presence counts to who
	// reads it; by the value it is known as ours.
	excludedBy = "autoscaler-deletion"
)

// Intent is what the autoscaler has asked for.
type Intent struct {
	// Group is the node group. ProviderID is the instance to be deleted, which is the node's instance at that time.
	Group      string `json:"group"`
	ProviderID string `json:"providerID"`
	// At is when it was asked for.
	At time.Time `json:"at"`
	// Seal proves that the manager wrote the intent, on this very Node: a kubelet may write what it likes on its own.
	Seal string `json:"seal"`
}

// Sealer returns the seal of a text, by a secret that no kubelet has.
type Sealer func(text string) string

// seal returns the seal of an intent on a node.
func (i Intent) seal(by Sealer, node types.UID) string {
	return by(strings.Join([]string{string(node), i.Group, i.ProviderID, i.At.UTC().Format(time.RFC3339Nano)}, "\x00"))
}

// Proven reports whether the manager wrote an intent on a node.
func (i Intent) Proven(by Sealer, node *corev1.Node) bool {
	return hmac.Equal([]byte(i.Seal), []byte(i.seal(by, node.UID)))
}

// errNoIntent is why Of returns none.
var errNoIntent = errors.New("the annotation names no group, no provider ID or no time")

// Of returns the intent of a node, or nil if the node has no intent. It returns an error, and no intent, if the intent cannot be read or names
// another instance than the node's. Another writer then wrote it.
func Of(node *corev1.Node) (*Intent, error) {
	text, found := node.Annotations[Annotation]
	if !found {
		return nil, nil
	}
	intent := &Intent{}
	if err := json.Unmarshal([]byte(text), intent); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	switch {
	case intent.Group == "" || intent.ProviderID == "" || intent.At.IsZero():
		return nil, fmt.Errorf("annotation %s: %w", Annotation, errNoIntent)
	case intent.ProviderID != node.Spec.ProviderID:
		return nil, fmt.Errorf("annotation %s is about the instance %q, and the node's is %q", Annotation, intent.ProviderID, node.Spec.ProviderID)
	}
	return intent, nil
}

// Announced reports whether a node carries the autoscaler's taint.
func Announced(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == Taint })
}

// Begin returns a JSON patch that writes an intent with its seal, and keeps the node out of load balancers if it is not already. It takes effect only
// on the very node that was looked at, with the same taints.
func Begin(node *corev1.Node, intent Intent, by Sealer) (jsonpatch.Patch, error) {
	intent.Seal = intent.seal(by, node.UID)
	text, err := json.Marshal(intent)
	if err != nil {
		return nil, fmt.Errorf("encoding the intent: %w", err)
	}
	operations := append(sameNode(node), jsonpatch.Operation{Op: "test", Path: "/spec/taints", Value: node.Spec.Taints})
	operations = append(operations, set("/metadata/annotations", node.Annotations, Annotation, string(text))...)
	if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; !excluded {
		operations = append(operations, set("/metadata/labels", node.Labels, corev1.LabelNodeExcludeBalancers, excludedBy)...)
	}
	return operations, nil
}

// Cancel returns a JSON patch that takes an intent back. It removes the label only if the manager set it with the intent. It takes effect only while
// the node has that intent.
func Cancel(node *corev1.Node) jsonpatch.Patch {
	operations := append(sameNode(node),
		jsonpatch.Operation{Op: "test", Path: jsonpatch.Member("/metadata/annotations", Annotation), Value: node.Annotations[Annotation]},
		jsonpatch.Operation{Op: "remove", Path: jsonpatch.Member("/metadata/annotations", Annotation)})
	if node.Labels[corev1.LabelNodeExcludeBalancers] == excludedBy {
		path := jsonpatch.Member("/metadata/labels", corev1.LabelNodeExcludeBalancers)
		operations = append(operations, jsonpatch.Operation{Op: "test", Path: path, Value: excludedBy}, jsonpatch.Operation{Op: "remove", Path: path})
	}
	return operations
}

// sameNode tests that a node is the one that was looked at, and still has its instance.
func sameNode(node *corev1.Node) jsonpatch.Patch {
	return jsonpatch.Patch{jsonpatch.Same(node.UID), {Op: "test", Path: "/spec/providerID", Value: node.Spec.ProviderID}}
}

// set adds a member to a map, which may not be there yet.
func set(path string, current map[string]string, key, value string) jsonpatch.Patch {
	if len(current) == 0 {
		return jsonpatch.Patch{{Op: "test", Path: path}, {Op: "add", Path: path, Value: map[string]string{key: value}}}
	}
	return jsonpatch.Patch{{Op: "add", Path: jsonpatch.Member(path, key), Value: value}}
}

// Pending returns the instances of a group that are to be deleted, as seals prove, and whose nodes are still there, by provider ID.
func Pending(nodes []corev1.Node, group string, by Sealer) map[string]types.NodeName {
	pending := map[string]types.NodeName{}
	for i := range nodes {
		if intent, err := Of(&nodes[i]); err == nil && intent != nil && intent.Group == group && intent.Proven(by, &nodes[i]) {
			pending[intent.ProviderID] = types.NodeName(nodes[i].Name)
		}
	}
	return pending
}

// The indexes of a cache of nodes.
const (
	// ByIntent finds the nodes that have an intent, by IndexValue.
	ByIntent = "autoscaler/deletion"
	// ByProviderID finds nodes by their provider IDs.
	ByProviderID = "autoscaler/provider-id"
	// IndexValue is what all nodes with an intent are found by.
	IndexValue = "pending"
)

// AddIndexes adds the indexes to a cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Node{}, ByIntent, func(object client.Object) []string {
		if _, found := object.GetAnnotations()[Annotation]; found {
			return []string{IndexValue}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing nodes by what is to be deleted: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.Node{}, ByProviderID, func(object client.Object) []string {
		if node, ok := object.(*corev1.Node); ok && node.Spec.ProviderID != "" {
			return []string{node.Spec.ProviderID}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing nodes by their provider IDs: %w", err)
	}
	return nil
}

// Holders returns the names of the nodes that have a provider ID, in order, by a cache with the indexes.
func Holders(ctx context.Context, cached client.Reader, providerID string) ([]string, error) {
	var list corev1.NodeList
	if err := cached.List(ctx, &list, client.MatchingFields{ByProviderID: providerID}, client.UnsafeDisableDeepCopy); err != nil { // only names are read
		return nil, fmt.Errorf("listing the nodes with the provider ID %q: %w", providerID, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}
