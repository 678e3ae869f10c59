package fencing

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/nodestate"
)

const (
	// ExcludeAnnotation on a Node, with any value, says that its machine is never turned off.
	ExcludeAnnotation = "metal.mooring.dev/exclude-from-fencing"
	// AttemptAnnotation on a Node says when we last began to turn its machine off. It is written before, and goes when the machine is
	// on and the node ready.
	AttemptAnnotation = "metal.mooring.dev/fencing-attempt"
	// FencedAnnotation on a Node says since when its machine is known to be off after such an attempt. It goes with the other one, and
	// until then the machine is not turned off again: somebody may be repairing it.
	FencedAnnotation = "metal.mooring.dev/fenced"
)

// Settings are what the operator decides.
type Settings struct {
	// Enabled says that machines are turned off.
	Enabled bool
	// After is how long a node has to have been silent while the API server answered.
	After time.Duration
	// MaxUnknownPercent is the share of nodes that may be silent.
	MaxUnknownPercent int
	// Interval is the time between the beginnings of two attempts.
	Interval time.Duration
	// Timeout is how long an attempt may take.
	Timeout time.Duration
	// OutsideCluster says that this replica runs on no node.
	OutsideCluster bool
}

// facts are what matters of a node and its machine.
type facts struct {
	// Node has the power that a controller says which names the machine.
	nodestate.Node
	excluded     bool
	controlPlane bool
	// own says that this replica runs on the machine.
	own bool
	// attempted is when an attempt began, zero if none is recorded; fenced says that the machine is off by it.
	attempted time.Time
	fenced    bool
	// silentSince is since when we have seen the node silent; zero if it is not.
	silentSince time.Time
	// notBefore is when the next attempt may begin after those that failed.
	notBefore time.Time
}

// situation is what matters besides single nodes.
type situation struct {
	// nodes is how many there are, and silent how many of them are.
	nodes, silent int
	// answering is since when the API server has answered without a failure in between; zero if it does not.
	answering time.Time
	// attempting says that an attempt goes on.
	attempting bool
	// ownKnown says that the node of this replica is one of the nodes, or that the operator says that it has none.
	ownKnown bool
	// lastAttempt is when any attempt began, also by another leader.
	lastAttempt time.Time
}

// factsOf reads what matters off a node.
func factsOf(node *v1.Node, power nodestate.Power, own bool) facts {
	f := facts{Node: nodestate.Of(node, power), own: own}
	_, f.excluded = node.Annotations[ExcludeAnnotation]
	_, f.controlPlane = node.Labels[nodestate.ControlPlaneLabel]
	_, f.fenced = node.Annotations[FencedAnnotation]
	if text, ok := node.Annotations[AttemptAnnotation]; ok {
		// One that cannot be read is one of long ago, so that it is seen to be there.
		f.attempted = time.Unix(0, 0)
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			f.attempted = at
		}
	}
	return f
}

// hold is why a machine is not turned off.
type hold string

// The holds, in the order in which they are looked at. The first ones stay until somebody does something.
const (
	notHeld         hold = ""
	heldExcluded    hold = "excluded"
	heldControl     hold = "control-plane"
	heldFenced      hold = "fenced-before"
	heldUnverified  hold = "unverified-bmc"
	heldUnknown     hold = "power-unknown"
	heldOwn         hold = "own-machine"
	heldOwnUnknown  hold = "own-machine-unknown"
	heldTooMany     hold = "too-many-unknown"
	heldAPIServer   hold = "api-server"
	heldNotLong     hold = "not-silent-for-long"
	heldFailed      hold = "failed-before"
	heldOneAtATime  hold = "one-at-a-time"
	heldRateLimited hold = "rate-limit"
)

// holds are all of them, for metrics.
var holds = []hold{
	heldExcluded, heldControl, heldFenced, heldUnverified, heldUnknown, heldOwn, heldOwnUnknown, heldTooMany, heldAPIServer,
	heldNotLong, heldFailed, heldOneAtATime, heldRateLimited,
}

// concerns reports whether a node is one that would be fenced at all: it is silent, and its machine is not known to be off.
func concerns(node facts) bool { return node.Silent && !node.Deleting && node.Power != nodestate.Off }

// holdOf returns why the machine of a node that is concerned is not turned off now.
func holdOf(node facts, s situation, settings Settings, now time.Time) hold {
	switch {
	case node.excluded:
		return heldExcluded
	case node.controlPlane:
		return heldControl
	case node.fenced:
		return heldFenced
	case node.Power == nodestate.Unverified:
		return heldUnverified
	case node.Power != nodestate.On:
		return heldUnknown
	case node.own:
		return heldOwn
	case !s.ownKnown:
		return heldOwnUnknown
	case s.silent*100 > s.nodes*settings.MaxUnknownPercent:
		return heldTooMany
	case s.answering.IsZero() || now.Sub(s.answering) < settings.After:
		return heldAPIServer
	case node.silentSince.IsZero() || now.Sub(node.silentSince) < settings.After:
		return heldNotLong
	case now.Before(node.notBefore):
		return heldFailed
	case s.attempting:
		return heldOneAtATime
	case now.Sub(s.lastAttempt) < max(settings.Interval, settings.Timeout): // one of another leader may go on
		return heldRateLimited
	default:
		return notHeld
	}
}
