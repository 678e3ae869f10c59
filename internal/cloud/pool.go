package cloud

import (
	"cmp"
	"slices"

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

// pools is how many calls of each pool may be under way at once. A pool that is missing has no bound of its own.
type pools map[string]int

// poolsOf returns the bounds: what the operator says, or else what the provider declares, or else the reference's numbers. Where calls at
// the same time are declared, that is for reads; writes have declarations of their own.
func poolsOf(flags Concurrency, declared int, capabilities provider.Capabilities) pools {
	one := func(sizes ...int) int { return max(cmp.Or(sizes...), 1) }
	services := one(flags.ServiceSyncs, capabilities.LoadBalancerWrites)
	bounds := pools{
		poolNewNodes:      one(flags.NodeSyncs, declared),
		poolNodeStatus:    one(flags.NodeStatusUpdates, flags.NodeSyncs, declared),
		poolNodeLifecycle: one(flags.NodeLifecycleSyncs, declared),
		poolServices:      services,
		poolTargets:       services,
		poolRouteList:     1,
	}
	if declared > 0 {
		bounds[poolBalancerReads] = declared
	}
	return bounds
}

// of returns the pool of a call.
func (l pools) of(about subject, priority Priority) string {
	switch {
	case about.pool == poolNodeStatus && priority == PriorityNewNode:
		return poolNewNodes
	case about.pool == poolNewNodes && priority == PriorityDeletion: // the old interfaces ask by InstanceID for a silent node, too
		return poolNodeLifecycle
	case about.pool == poolBalancerReads && l[poolBalancerReads] == 0: // the reference looks them up where it writes them
		return poolServices
	case about.pool == "":
		return about.name
	default:
		return about.pool
	}
}

// pool are the calls of one pool of a group.
type pool struct {
	name string
	size int // 0: no bound of its own
	// waiting are the waiting calls, by rank and then by arrival.
	waiting [ranks][]*waiter
	// running are the calls that count as under way.
	running []*waiter
}

// full reports whether no call may be let in.
func (l *pool) full() bool { return l.size > 0 && len(l.running) >= l.size }

// insert adds a call in its place.
func (l *pool) insert(w *waiter) {
	list := &l.waiting[w.rank]
	at, _ := slices.BinarySearchFunc(*list, w, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	*list = slices.Insert(*list, at, w)
}

// remove takes a call out of the waiting ones, and reports whether it was there.
func (l *pool) remove(w *waiter) bool {
	list := &l.waiting[w.rank]
	at := slices.Index(*list, w)
	switch {
	case at < 0:
		return false
	case at == 0:
		(*list)[0] = nil
		*list = (*list)[1:]
	default:
		*list = slices.Delete(*list, at, at+1)
	}
	return true
}

// release takes a call out of the running ones.
func (l *pool) release(w *waiter) {
	if at := slices.Index(l.running, w); at >= 0 {
		l.running = slices.Delete(l.running, at, at+1)
	}
}

// first returns the call that may be let in first, and the one of them that has waited longest.
func (l *pool) first(may func(*waiter) bool) (first, oldest *waiter) {
	for rank := ranks - 1; rank >= 0; rank-- {
		at := slices.IndexFunc(l.waiting[rank], may)
		if at < 0 {
			continue
		}
		w := l.waiting[rank][at]
		if first == nil {
			first = w
		}
		if oldest == nil || w.arrival < oldest.arrival {
			oldest = w
		}
	}
	return first, oldest
}

// count returns how many wait.
func (l *pool) count() int {
	count := 0
	for rank := range ranks {
		count += len(l.waiting[rank])
	}
	return count
}
