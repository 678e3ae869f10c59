package octavia

import (
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// memory is what was below each load balancer when it was last looked at or its members were written. It serves to write other members without
// a look: what it says of listeners, pools and whose they are is theirs for good, as long as the load balancer has the same ones. What it says
// of members is only what they were: where all of them seem to be right, the load balancer is looked at. It is safe for concurrent use.
type memory struct {
	lock sync.Mutex
	byID map[string][]observedListener
}

func newMemory() *memory { return &memory{byID: map[string][]observedListener{}} }

// keep remembers what is below a load balancer.
func (m *memory) keep(id string, listeners []observedListener) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.byID[id] = listeners
}

// forget has the load balancer looked at the next time.
func (m *memory) forget(id string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.byID, id)
}

// keepOnly forgets all load balancers but these.
func (m *memory) keepOnly(balancers []loadbalancers.LoadBalancer) {
	m.lock.Lock()
	defer m.lock.Unlock()
	kept := make(map[string][]observedListener, len(balancers))
	for i := range balancers {
		if listeners, known := m.byID[balancers[i].ID]; known {
			kept[balancers[i].ID] = listeners
		}
	}
	m.byID = kept
}

// of returns what is remembered of a load balancer, false if nothing is, or if it has other listeners or pools by now.
func (m *memory) of(lb *loadbalancers.LoadBalancer) (have observation, known bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	remembered, known := m.byID[lb.ID]
	var listeners, pools, hasListeners, hasPools []string
	for _, listener := range remembered {
		listeners = append(listeners, listener.id)
		if listener.poolID != "" {
			pools = append(pools, listener.poolID)
		}
	}
	for _, listener := range lb.Listeners {
		hasListeners = append(hasListeners, listener.ID)
	}
	for _, pool := range lb.Pools {
		hasPools = append(hasPools, pool.ID)
	}
	have = header(lb)
	have.listeners = slices.Clone(remembered)
	return have, known && sameSet(listeners, hasListeners) && sameSet(pools, hasPools)
}

// withMembers returns listeners as they are once the changes of members are made.
func withMembers(listeners []observedListener, changes []change) []observedListener {
	after := slices.Clone(listeners)
	for i := range after {
		for _, c := range changes {
			if c.verb == setMembers && c.id == after[i].poolID {
				after[i].Pool.Members = slices.Clone(c.listener.Pool.Members)
				model.SortMembers(after[i].Pool.Members)
			}
		}
	}
	return after
}
