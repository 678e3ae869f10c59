package fencing

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/nodestate"
)

// ExcludeAnnotation on a Node, with any value, says that its machine is not turned off. A kubelet may write it of its own node; maintenance in
// the inventory is the operator's word.
const ExcludeAnnotation = "metal.mooring.dev/exclude-from-fencing"

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

// Machine is what the inventory says of a machine.
type Machine struct {
	ID, ProviderID string
	// ControlPlane says that its labels make it one of the control plane, and Maintenance that it is under maintenance.
	ControlPlane, Maintenance bool
}

// minBackoff and maxBackoff are how long a machine is left alone after the beginning of one attempt, and of many.
const minBackoff, maxBackoff = time.Minute, 10 * time.Minute

// attempt is what was done to one machine since its node was ready.
type attempt struct {
	// At is when the last attempt began, and Count how many there were.
	At    time.Time `json:"at"`
	Count int       `json:"count"`
	// Fenced says that the machine was seen to be off after it.
	Fenced bool `json:"fenced,omitempty"`
}

// notBefore is when the next attempt may begin.
func (a attempt) notBefore() time.Time {
	if a.Count <= 0 {
		return time.Time{}
	}
	return a.At.Add(min(minBackoff<<min(a.Count-1, 8), maxBackoff))
}

// attempts are all that are recorded, as a value.
type attempts struct {
	// Last is when any attempt began.
	Last time.Time `json:"last,omitzero"`
	// Machines are by the IDs of machines. There are no more than the inventory has.
	Machines map[string]attempt `json:"machines,omitempty"`
}

// of returns the record of a machine's attempts.
func (a attempts) of(id string) (attempt, bool) {
	one, ok := a.Machines[id]
	return one, ok
}

// with returns the record with a change of a machine, nil for none. Machines that the inventory does not have are left out.
func (a attempts) with(id string, change *attempt, known func(id string) bool) attempts {
	next := attempts{Last: a.Last, Machines: map[string]attempt{}}
	maps.Copy(next.Machines, a.Machines)
	maps.DeleteFunc(next.Machines, func(id string, _ attempt) bool { return !known(id) })
	if change == nil {
		delete(next.Machines, id)
		return next
	}
	if next.Machines[id] = *change; change.At.After(next.Last) {
		next.Last = change.At
	}
	return next
}

// facts are what matters of a node and its machine.
type facts struct {
	// Node has the power that a controller says which names the machine.
	nodestate.Node
	// machine is the ID of the machine, if it is proven that the node is that machine's: the inventory gives the machine the node's name, which
	// is the only thing of a Node that its kubelet cannot choose, and the node has the machine's provider ID. Empty: it is not proven.
	machine string
	// twins are other nodes that are, or may be, the same machine.
	twins        []string
	excluded     bool
	controlPlane bool
	// own says that this replica runs on the machine.
	own bool
	// attempt is what was done to the machine, and attempted says that something was.
	attempt   attempt
	attempted bool
	// silentSince is since when we have seen the node silent; zero if it is not.
	silentSince time.Time
}

// situation is what matters besides single nodes.
type situation struct {
	// nodes is how many there are that are proven to be machines', and silent how many of them are.
	nodes, silent int
	// unrecorded says that the record of attempts is not known.
	unrecorded bool
	// answering is since when the API server has answered without a failure in between; zero if it does not.
	answering time.Time
	// attempting says that an attempt goes on.
	attempting bool
	// ownKnown says that the node of this replica is one of the nodes, or that the operator says that it has none.
	ownKnown bool
	// lastAttempt is when any attempt began, also by another leader.
	lastAttempt time.Time
}

// factsOf reads what matters off a node, and off the machine that the inventory calls like it, nil if there is none.
func factsOf(node *v1.Node, named *Machine, power nodestate.Power, own bool) facts {
	f := facts{Node: nodestate.Of(node, power), own: own}
	_, f.excluded = node.Annotations[ExcludeAnnotation]
	_, f.controlPlane = node.Labels[nodestate.ControlPlaneLabel]
	if named == nil {
		return f
	}
	f.controlPlane = f.controlPlane || named.ControlPlane
	f.excluded = f.excluded || named.Maintenance
	if node.Spec.ProviderID == named.ProviderID {
		f.machine = named.ID
	}
	return f
}

// twinsOf returns, by the names of nodes, the other nodes that are, or may be, the same machine. Claims are the IDs of machines by the names
// of nodes.
func twinsOf(claims map[string][]string) map[string][]string {
	claimants := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(claims)) {
		for _, id := range claims[node] {
			claimants[id] = append(claimants[id], node)
		}
	}
	twins := map[string][]string{}
	for node, ids := range claims {
		for _, id := range ids {
			for _, other := range claimants[id] {
				if other != node && !slices.Contains(twins[node], other) {
					twins[node] = append(twins[node], other)
				}
			}
		}
	}
	return twins
}

// holdReason is why a machine is not turned off.
type holdReason string

// The holds, in the order in which they are looked at. The first ones stay until the operator acts.
const (
	notHeld         holdReason = ""
	heldExcluded    holdReason = "excluded"
	heldControl     holdReason = "control-plane"
	heldUnproven    holdReason = "unproven-machine"
	heldTwins       holdReason = "several-nodes"
	heldUnrecorded  holdReason = "no-record"
	heldFenced      holdReason = "fenced-before"
	heldUnverified  holdReason = "unverified-bmc"
	heldUnknown     holdReason = "power-unknown"
	heldOwn         holdReason = "own-machine"
	heldOwnUnknown  holdReason = "own-machine-unknown"
	heldTooMany     holdReason = "too-many-unknown"
	heldAPIServer   holdReason = "api-server"
	heldNotLong     holdReason = "not-silent-for-long"
	heldFailed      holdReason = "failed-before"
	heldOneAtATime  holdReason = "one-at-a-time"
	heldRateLimited holdReason = "rate-limit"
)

// holds are all of them, for metrics.
var holds = []holdReason{
	heldExcluded, heldControl, heldUnproven, heldTwins, heldUnrecorded, heldFenced, heldUnverified, heldUnknown, heldOwn, heldOwnUnknown, heldTooMany, heldAPIServer,
	heldNotLong, heldFailed, heldOneAtATime, heldRateLimited,
}

// concerns reports whether a node is one that would be fenced at all: it is silent, and its machine is not known to be off.
func concerns(node facts) bool { return node.Silent && !node.Deleting && node.Power != nodestate.Off }

// holdOf returns why the machine of a node that is concerned is not turned off now.
func holdOf(node facts, s situation, settings Settings, now time.Time) holdReason {
	switch {
	case node.excluded:
		return heldExcluded
	case node.controlPlane:
		return heldControl
	case node.machine == "" && node.Power != nodestate.Unknown:
		return heldUnproven
	case node.Power == nodestate.Unverified:
		return heldUnverified
	case node.Power != nodestate.On:
		return heldUnknown
	case len(node.twins) > 0:
		return heldTwins
	case s.unrecorded:
		return heldUnrecorded
	case node.attempt.Fenced:
		return heldFenced
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
	case now.Before(node.attempt.notBefore()):
		return heldFailed
	case s.attempting:
		return heldOneAtATime
	case now.Sub(s.lastAttempt) < max(settings.Interval, settings.Timeout): // one of another leader may go on
		return heldRateLimited
	default:
		return notHeld
	}
}
