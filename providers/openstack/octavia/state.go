package octavia

import (
	"maps"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// state is what was below each load balancer when it was created, last looked at or its members were written, and which load balancer a
// Service was found to have. It serves to write other members without a look: what it says of listeners, pools and whose they are is theirs for
// good, as long as the load balancer has the same ones. What it says of members is only what they were: where all of them seem to be right, the
// load balancer is looked at. And it serves the first Ensure after a creation, which needs no look at what octavia has just answered. Nothing is
// taken from it without a look of that moment at the load balancer itself. It is safe for concurrent use.
type state struct {
	lock   sync.Mutex
	byID   map[string]remembered
	places map[serviceKey]place
}

// remembered is what is below a load balancer. Made says that this is octavia's answer to the creation, without a look since.
type remembered struct {
	listeners []observedListener
	made      bool
}

// serviceKey is a Service of a cluster; its UID tells it from one of the same name.
type serviceKey struct{ name, uid string }

func (r request) serviceKey() serviceKey { return serviceKey{r.name(), string(r.service.UID)} }

// place is the load balancer of a Service that has one only. Deleted says that octavia has taken its deletion.
type place struct {
	id      string
	deleted bool
}

func newState() *state {
	return &state{byID: map[string]remembered{}, places: map[serviceKey]place{}}
}

// clear forgets all.
func (s *state) clear() {
	s.lock.Lock()
	defer s.lock.Unlock()
	clear(s.byID)
	clear(s.places)
}

// keep remembers what is below a load balancer.
func (s *state) keep(id string, listeners []observedListener) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.byID[id] = remembered{listeners: listeners}
}

// keepMade remembers what is below a load balancer by the answer to its creation.
func (s *state) keepMade(id string, listeners []observedListener) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.byID[id] = remembered{listeners: listeners, made: true}
}

// forget has the load balancer looked at the next time.
func (s *state) forget(id string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.byID, id)
}

// keepOnly forgets all load balancers but these.
func (s *state) keepOnly(balancers []loadbalancers.LoadBalancer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	exists := map[string]bool{}
	for i := range balancers {
		exists[balancers[i].ID] = true
	}
	maps.DeleteFunc(s.byID, func(id string, _ remembered) bool { return !exists[id] })
	maps.DeleteFunc(s.places, func(_ serviceKey, at place) bool { return !exists[at.id] })
}

// place remembers the only load balancer of a Service.
func (s *state) place(r request, id string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.places[r.serviceKey()] = place{id: id}
}

// placeDeleted remembers that octavia has taken the deletion of a Service's load balancer, if it is known to be the only one.
func (s *state) placeDeleted(r request, id string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.places[r.serviceKey()].id == id {
		s.places[r.serviceKey()] = place{id: id, deleted: true}
	}
}

// unplace forgets which load balancer a Service has.
func (s *state) unplace(r request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.places, r.serviceKey())
}

// placed returns the load balancer of a Service, false if it is not known.
func (s *state) placed(r request) (place, bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	at, known := s.places[r.serviceKey()]
	return at, known
}

// made returns what octavia's answer to the creation of a load balancer says is below it, false if the load balancer was looked at since, or has
// other listeners or pools by now. It returns it once.
func (s *state) made(lb *loadbalancers.LoadBalancer) (have observation, known bool) {
	have, known = s.of(lb)
	s.lock.Lock()
	defer s.lock.Unlock()
	was, remains := s.byID[lb.ID]
	if remains {
		s.byID[lb.ID] = remembered{listeners: was.listeners}
	}
	return have, known && was.made
}

// of returns what is remembered of a load balancer, false if nothing is, or if it has other listeners or pools by now.
func (s *state) of(lb *loadbalancers.LoadBalancer) (have observation, known bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	was, known := s.byID[lb.ID]
	var listeners, pools, hasListeners, hasPools []string
	for _, listener := range was.listeners {
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
	have.listeners = slices.Clone(was.listeners)
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
