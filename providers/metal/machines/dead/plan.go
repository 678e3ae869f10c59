package dead

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

// kind is what an action does.
type kind int

const (
	// putTaint puts the taint out-of-service on a node, and takeTaint takes it off.
	putTaint kind = iota
	takeTaint
	// turnOff records an attempt, and turns the machine of a node off.
	turnOff
	// markFenced records that the attempt has led to a machine that is off.
	markFenced
	// clear takes a machine out of the record that is on and whose node is ready.
	clear
)

// action is one change of a node's taint or of the record.
type action struct {
	kind kind
	node facts
}

// String names the action in errors and metrics.
func (a action) String() string {
	return map[kind]string{putTaint: "taint", takeTaint: "untaint", turnOff: "off", markFenced: "fenced", clear: "clear"}[a.kind]
}

// planTaints returns the changes of taints, in the order of the nodes' names. It does not touch a taint that another client has put on, and
// does not make it ours. It does not put our taint on again after an operator has taken it off. A machine that is on and a node that is not
// ready is a machine that boots: the taint stays until its kubelet has seen which of its pods are gone.
func planTaints(nodes []facts, settings Settings, now time.Time) (actions []action) {
	for _, node := range nodes {
		switch {
		case node.deleting:
		case node.trusted == nodestate.On && node.ready && node.marked:
			actions = append(actions, action{takeTaint, node})
		case node.trusted == nodestate.Off && node.isOff(settings, now) && !node.marked && !node.outOfService():
			actions = append(actions, action{putTaint, node})
		}
	}
	return byName(actions)
}

// byName sorts actions by the names of their nodes.
func byName(actions []action) []action {
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.node.name, b.node.name) })
	return actions
}

// patch returns the merge patch (RFC 7386) of a change of the taint. With UID and resource version it takes effect only on the very node that
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
	patch.Metadata.UID, patch.Metadata.ResourceVersion = a.node.uid, a.node.resourceVersion
	patch.Metadata.Annotations = map[string]any{OutOfServiceAnnotation: nil}
	ours := taint()
	patch.Spec.Taints = slices.DeleteFunc(slices.Clone(a.node.taints), func(t v1.Taint) bool {
		return t.MatchTaint(&ours) && t.Value == ours.Value
	})
	if a.kind == putTaint {
		patch.Metadata.Annotations[OutOfServiceAnnotation] = a.node.since.UTC().Format(time.RFC3339)
		patch.Spec.Taints = append(patch.Spec.Taints, ours)
	}
	return json.Marshal(patch)
}

// planFences returns what is to be done about machines and their record, the nodes by name, with one machine to turn off at most; and for nodes that are concerned why
// theirs is not. The machine whose last attempt is the longest ago comes first, so one that fails forever holds up no other.
func planFences(nodes []facts, s situation, settings Settings, now time.Time) (actions []action, held map[string]holdReason) {
	held = map[string]holdReason{}
	var candidates []facts
	for _, node := range nodes {
		switch {
		case node.deleting || !settings.fences():
		case node.ready && node.verified == nodestate.On && node.attempted:
			actions = append(actions, action{clear, node})
		case node.verified == nodestate.Off && node.attempted && !node.attempt.Fenced && !s.attempting:
			actions = append(actions, action{markFenced, node})
		case !concerns(node):
		default:
			if why := holdOf(node, s, settings.Fence, now); why != notHeld {
				held[node.name] = why
			} else {
				candidates = append(candidates, node)
			}
		}
	}
	if len(candidates) > 0 {
		slices.SortFunc(candidates, func(a, b facts) int {
			return cmp.Or(a.attempt.At.Compare(b.attempt.At), a.silentSince.Compare(b.silentSince), cmp.Compare(a.name, b.name))
		})
		actions = append(actions, action{turnOff, candidates[0]})
		for _, node := range candidates[1:] {
			held[node.name] = heldOneAtATime
		}
	}
	return byName(actions), held
}

// of returns the record with the change of an action.
func (a action) of(record attempts, now time.Time, known func(id string) bool) attempts {
	one := a.node.attempt
	switch a.kind {
	case turnOff:
		one.At, one.Count = now.UTC().Truncate(time.Second), one.Count+1
	case markFenced:
		one.Fenced = true
	case clear:
		return record.with(a.node.machine, nil, known)
	}
	return record.with(a.node.machine, &one, known)
}
