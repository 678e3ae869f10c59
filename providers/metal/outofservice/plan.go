package outofservice

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// action is one change of a node.
type action struct {
	node facts
	// add says that the taint is put on; otherwise it is taken off.
	add bool
}

// plan returns what is to be done, in the order of the nodes' names. It does not touch a taint that another client has put on, and does not
// make it ours. It does not put our taint on again after an operator has taken it off.
func plan(nodes []facts, settings Settings, now time.Time) []action {
	var actions []action
	for _, node := range nodes {
		switch want := desire(node, settings, now); {
		case want == away && !node.marked && !node.outOfService():
			actions = append(actions, action{node: node, add: true})
		case want == back && node.marked:
			actions = append(actions, action{node: node})
		}
	}
	slices.SortFunc(actions, func(a, b action) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return actions
}

// patch returns the merge patch (RFC 7386) of an action. With UID and resource version it takes effect only on the very node that
// was decided on, and only if nothing about it has changed since: it may have become ready.
func (a action) patch() ([]byte, error) {
	var patch struct {
		Metadata struct {
			UID             types.UID      `json:"uid"`
			ResourceVersion string         `json:"resourceVersion"`
			Annotations     map[string]any `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Taints []v1.Taint `json:"taints"`
		} `json:"spec"`
	}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = a.node.UID, a.node.ResourceVersion
	patch.Metadata.Annotations = map[string]any{Annotation: nil}
	ours := taint()
	patch.Spec.Taints = slices.DeleteFunc(slices.Clone(a.node.taints), func(t v1.Taint) bool {
		return t.MatchTaint(&ours) && t.Value == ours.Value
	})
	if a.add {
		patch.Metadata.Annotations[Annotation] = a.node.since.UTC().Format(time.RFC3339)
		patch.Spec.Taints = append(patch.Spec.Taints, ours)
	}
	return json.Marshal(patch)
}
