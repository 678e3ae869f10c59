package fencing

import (
	"cmp"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/nodestate"
)

// kind is what an action does.
type kind int

const (
	// turnOff records an attempt, and turns the machine of a node off.
	turnOff kind = iota
	// markFenced records that the attempt has led to a machine that is off.
	markFenced
	// clear takes a machine out of the record that is on and whose node is ready.
	clear
)

// action is one change of the record.
type action struct {
	kind kind
	node facts
}

// plan returns what is to be done, the nodes by name, with one machine to turn off at most; and for nodes that are concerned why
// theirs is not. The machine whose last attempt is the longest ago comes first, so one that fails forever holds up no other.
func plan(nodes []facts, s situation, settings Settings, now time.Time) (actions []action, held map[string]holdReason) {
	held = map[string]holdReason{}
	var candidates []facts
	for _, node := range nodes {
		switch {
		case node.Deleting || !settings.Enabled:
		case node.Ready && node.Power == nodestate.On && node.attempted:
			actions = append(actions, action{clear, node})
		case node.Power == nodestate.Off && node.attempted && !node.attempt.Fenced && !s.attempting:
			actions = append(actions, action{markFenced, node})
		case !concerns(node):
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
			return cmp.Or(a.attempt.At.Compare(b.attempt.At), a.silentSince.Compare(b.silentSince), cmp.Compare(a.Name, b.Name))
		})
		actions = append(actions, action{turnOff, candidates[0]})
		for _, node := range candidates[1:] {
			held[node.Name] = heldOneAtATime
		}
	}
	slices.SortStableFunc(actions, func(a, b action) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return actions, held
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
