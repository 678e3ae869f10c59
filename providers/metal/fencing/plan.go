package fencing

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/nodestate"
)

// kind is what an action does.
type kind int

const (
	// turnOff marks a node with an attempt, and turns its machine off.
	turnOff kind = iota
	// markFenced says on a node that the attempt has led to a machine that is off.
	markFenced
	// clear takes our annotations off a node whose machine is on and which is ready.
	clear
)

// action is one change of a node.
type action struct {
	kind kind
	node facts
}

// plan returns what is to be done, the nodes by name, with one machine to turn off at most; and for nodes that are concerned why
// theirs is not. The machine whose last attempt is the longest ago comes first, so that one that fails forever holds up no other.
func plan(nodes []facts, s situation, settings Settings, now time.Time) (actions []action, held map[string]hold) {
	held = map[string]hold{}
	var candidates []facts
	for _, node := range nodes {
		switch {
		case node.Deleting:
		case node.Ready && node.Power == nodestate.On && (!node.attempted.IsZero() || node.fenced):
			actions = append(actions, action{clear, node})
		case node.Power == nodestate.Off && !node.attempted.IsZero() && !node.fenced && !s.attempting:
			actions = append(actions, action{markFenced, node})
		case !settings.Enabled || !concerns(node):
		default:
			if why := holdOf(node, s, settings, now); why != notHeld {
				held[node.Name] = why
			} else {
				candidates = append(candidates, node)
			}
		}
	}
	if len(candidates) > 0 {
		slices.SortFunc(candidates, func(a, b facts) int {
			return cmp.Or(a.attempted.Compare(b.attempted), a.silentSince.Compare(b.silentSince), cmp.Compare(a.Name, b.Name))
		})
		actions = append(actions, action{turnOff, candidates[0]})
		for _, node := range candidates[1:] {
			held[node.Name] = heldOneAtATime
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return actions, held
}

// patch returns the merge patch (RFC 7386) of an action. With UID and resource version it takes effect only on the very node that
// was decided on, and only if nothing about it has changed since: its kubelet may be back.
func (a action) patch(now time.Time) ([]byte, error) {
	annotations := map[string]any{}
	switch a.kind {
	case turnOff:
		annotations[AttemptAnnotation] = now.UTC().Format(time.RFC3339)
	case markFenced:
		annotations[FencedAnnotation] = now.UTC().Format(time.RFC3339)
	case clear:
		annotations[AttemptAnnotation], annotations[FencedAnnotation] = nil, nil
	}
	var patch struct {
		Metadata struct {
			UID             types.UID      `json:"uid"`
			ResourceVersion string         `json:"resourceVersion"`
			Annotations     map[string]any `json:"annotations"`
		} `json:"metadata"`
	}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = a.node.UID, a.node.ResourceVersion
	patch.Metadata.Annotations = annotations
	return json.Marshal(patch)
}
