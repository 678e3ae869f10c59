package dead

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

const (
	// OutOfServiceAnnotation on a Node says that the taint is ours, and since when the machine is off. Taints of others are left alone. It
	// stays until the machine is on and the node ready, so a taint that another writer removes is not set again meanwhile.
	OutOfServiceAnnotation = "metal.mooring.dev/out-of-service"
	// ExcludeAnnotation on a Node, with any value, says that its machine is not turned off. A kubelet may write it of its own node;
	// maintenance in the inventory is the operator's word.
	ExcludeAnnotation = "metal.mooring.dev/exclude-from-fencing"
)

// Settings are what the operator decides.
type Settings struct {
	// Enabled says that nodes get the taint. Taints of ours that are no longer right are taken off in any case.
	Enabled bool
	// After is how long a machine has to have been off.
	After time.Duration
	// Fence says whether machines are turned off. It counts only with Enabled.
	Fence Fence
}

// Fence is what the operator decides of machines to turn off.
type Fence struct {
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

// fences reports whether machines are turned off.
func (s Settings) fences() bool { return s.Enabled && s.Fence.Enabled }

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
	name            string
	uid             types.UID
	resourceVersion string
	// ready says that the condition Ready is true, and silent that it is Unknown: the kubelet has not said anything for a while. A
	// kubelet that says that it is not ready runs, and so does its machine.
	ready, silent bool
	deleting      bool
	taints        []v1.Taint
	// marked says that the node has our annotation.
	marked bool
	// trusted is the machine's power by the word of a controller that is trusted, and verified by one that names the machine. The taint
	// asks for the first, a power-off for the second.
	trusted, verified nodestate.Power
	// since is since when the machine has that power; zero if it is unknown.
	since time.Time

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

// nodeFacts reads off a node what does not depend on its machine.
func nodeFacts(node *v1.Node) facts {
	f := facts{
		name: node.Name, uid: node.UID, resourceVersion: node.ResourceVersion, deleting: !node.DeletionTimestamp.IsZero(), taints: node.Spec.Taints,
	}
	ready := nodestate.Readiness(node)
	f.ready, f.silent = ready == v1.ConditionTrue, ready == v1.ConditionUnknown
	_, f.marked = node.Annotations[OutOfServiceAnnotation]
	_, f.excluded = node.Annotations[ExcludeAnnotation]
	_, f.controlPlane = node.Labels[nodestate.ControlPlaneLabel]
	return f
}

// needsTaintLook reports whether anything could be done about the taint of a node, whatever its machine's power is.
func (f facts) needsTaintLook() bool {
	return f.marked || f.silent && f.hasTaint(cloudproviderapi.TaintNodeShutdown)
}

func (f facts) hasTaint(key string) bool {
	return slices.ContainsFunc(f.taints, func(t v1.Taint) bool { return t.Key == key })
}

func (f facts) outOfService() bool { return f.hasTaint(v1.TaintNodeOutOfService) }

// isOff reports whether a machine that its controller says is off is so by all else that is known.
func (f facts) isOff(settings Settings, now time.Time) bool {
	return settings.Enabled && now.Sub(f.since) >= settings.After && f.silent && f.hasTaint(cloudproviderapi.TaintNodeShutdown)
}

// untrusted reports whether a node is left alone only because it is not known whether the controller belongs to its machine.
func (f facts) untrusted(settings Settings, now time.Time) bool {
	return !f.deleting && !f.marked && !f.outOfService() && f.trusted == nodestate.Unverified && f.isOff(settings, now)
}

// taint is what the taint is (KEP-2268); kube-controller-manager looks at its key only.
func taint() v1.Taint {
	return v1.Taint{Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: v1.TaintEffectNoExecute}
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
func concerns(node facts) bool {
	return node.silent && !node.deleting && node.verified != nodestate.Off
}

// holdOf returns why the machine of a node that is concerned is not turned off now.
func holdOf(node facts, s situation, settings Fence, now time.Time) holdReason {
	switch {
	case node.excluded:
		return heldExcluded
	case node.controlPlane:
		return heldControl
	case node.machine == "" && node.verified != nodestate.Unknown:
		return heldUnproven
	case node.verified == nodestate.Unverified:
		return heldUnverified
	case node.verified != nodestate.On:
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
