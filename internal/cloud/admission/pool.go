package admission

import (
	"cmp"

	"github.com/mooring-ccm/mooring/provider"
)

// Concurrency is how many calls may be under way at once, by the flags of the reference that say so. Zero: the operator says nothing.
type Concurrency struct {
	// NodeSyncs is for lookups of nodes that join: --concurrent-node-syncs.
	NodeSyncs int
	// NodeStatusUpdates is for lookups of all other nodes: --concurrent-node-status-updates. Zero: NodeSyncs.
	NodeStatusUpdates int
	// NodeLifecycleSyncs is for the questions whether an instance exists and runs: --concurrent-node-lifecycle-syncs.
	NodeLifecycleSyncs int
	// ServiceSyncs is for load balancers of Services, and as many again for their targets: --concurrent-service-syncs.
	ServiceSyncs int
}

// The pools. A pool has the calls that one loop of the reference makes, or as many of them as its workers. Calls of different pools
// run side by side.
const (
	poolNewNodes      = "lookups of new nodes"
	poolNodeStatus    = "lookups of nodes"
	poolNodeLifecycle = "questions whether instances exist and run"
	poolServices      = "load balancers of Services"
	poolBalancerReads = "lookups of load balancers"
	poolTargets       = "targets of load balancers"
	poolRouteList     = "listings of routes"
	poolRouteWrites   = "changes of routes" // of which the route controller bounds the number
)

// Bounds is how many calls of each pool may be under way at once. A pool that is missing has no bound of its own.
type Bounds map[string]int

// BoundsOf returns the bounds: what the operator says, or else what the provider declares, or else the reference's numbers. Where calls at
// the same time are declared, that is for reads; writes have declarations of their own.
func BoundsOf(flags Concurrency, declared int, capabilities provider.Capabilities) Bounds {
	one := func(sizes ...int) int { return max(cmp.Or(sizes...), 1) }
	services := one(flags.ServiceSyncs, capabilities.LoadBalancerWrites)
	return Bounds{
		poolNewNodes:      one(flags.NodeSyncs, declared),
		poolNodeStatus:    one(flags.NodeStatusUpdates, flags.NodeSyncs, declared),
		poolNodeLifecycle: one(flags.NodeLifecycleSyncs, declared),
		poolServices:      services,
		poolBalancerReads: max(declared, 0), // 0: they are in other pools
		poolTargets:       services,
		poolRouteList:     1,
	}
}

// of returns the pool of a call.
func (b Bounds) of(about Subject, priority Priority) string {
	switch {
	case about.pool == poolNodeStatus && priority == PriorityNewNode:
		return poolNewNodes
	case about.pool == poolNewNodes && priority == PriorityDeletion: // the old interfaces ask by InstanceID for a silent node, too
		return poolNodeLifecycle
	case about.pool == poolBalancerReads && b[poolBalancerReads] == 0 && priority == PriorityUpdate: // a change of targets has failed
		return poolTargets
	case about.pool == poolBalancerReads && b[poolBalancerReads] == 0: // the reference looks them up where it writes them
		return poolServices
	case about.pool == "":
		return about.Method
	default:
		return about.pool
	}
}
