package outofservice

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/providers/metal/nodestate"
)

// Annotation on a Node says that the taint is ours, and since when the machine is off. Taints of others are left alone. It stays
// until the machine is on and the node ready, so a taint that another writer removes is not set again meanwhile.
const Annotation = "metal.mooring.dev/out-of-service"

// Settings are what the operator decides.
type Settings struct {
	// Enabled says that nodes get the taint. Taints of ours that are no longer right are taken off in any case.
	Enabled bool
	// After is how long a machine has to have been off.
	After time.Duration
}

// facts are what matters of a node and its machine.
type facts struct {
	nodestate.Node
	taints []v1.Taint
	// marked says that the node has our annotation.
	marked bool
	// since is since when the machine has that power; zero if it is unknown.
	since time.Time
}

// factsOf reads what matters off a node.
func factsOf(node *v1.Node, power nodestate.Power, since time.Time) facts {
	f := facts{Node: nodestate.Of(node, power), taints: node.Spec.Taints, since: since}
	_, f.marked = node.Annotations[Annotation]
	return f
}

// needsLook reports whether anything could be done about a node, whatever its machine's power is.
func needsLook(node *v1.Node) bool {
	f := factsOf(node, nodestate.Unknown, time.Time{})
	return f.marked || f.Silent && f.shutDown()
}

// taint is what the taint is (KEP-2268); kube-controller-manager looks at its key only.
func taint() v1.Taint {
	return v1.Taint{Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: v1.TaintEffectNoExecute}
}

func (f facts) shutDown() bool {
	return slices.ContainsFunc(f.taints, func(t v1.Taint) bool { return t.Key == cloudproviderapi.TaintNodeShutdown })
}

func (f facts) outOfService() bool {
	return slices.ContainsFunc(f.taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

// wanted is what a node shall be.
type wanted int

const (
	// asIs leaves a node as it is.
	asIs wanted = iota
	// away says that its machine is off and its pods shall go elsewhere.
	away
	// back says that its machine is on and its kubelet lives.
	back
)

// desire returns what a node shall be. A machine that is on and a node that is not ready is a machine that boots: the taint stays
// until its kubelet has seen which of its pods are gone.
func desire(node facts, settings Settings, now time.Time) wanted {
	switch {
	case node.Deleting:
		return asIs
	case node.Power == nodestate.On && node.Ready:
		return back
	case node.Power == nodestate.Off && node.isOff(settings, now):
		return away
	default:
		return asIs
	}
}

// isOff reports whether a machine that its controller says is off is so by all else that is known.
func (f facts) isOff(settings Settings, now time.Time) bool {
	return settings.Enabled && now.Sub(f.since) >= settings.After && f.Silent && f.shutDown()
}

// untrusted reports whether a node is left alone only because it is not known whether the controller belongs to its machine.
func untrusted(node facts, settings Settings, now time.Time) bool {
	return !node.Deleting && !node.marked && !node.outOfService() && node.Power == nodestate.Unverified && node.isOff(settings, now)
}
