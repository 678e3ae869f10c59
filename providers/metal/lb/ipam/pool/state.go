package pool

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Port is a port on which a Service is reached.
type Port struct {
	Protocol corev1.Protocol
	Port     int32
}

// String returns the port as people write it: TCP/80.
func (p Port) String() string { return fmt.Sprintf("%s/%d", p.Protocol, p.Port) }

// Holder is a Service, as far as it matters to others that hold the same address.
type Holder struct {
	// UID identifies the Service, Service names it, and Created is when it was.
	UID     types.UID
	Service types.NamespacedName
	Created time.Time
	// SharingKey is the key of Services that may share addresses. A Service with an empty key shares with no other.
	SharingKey string
	// Backend is where traffic to an address may be delivered: empty for every node, or else what selects the pods whose nodes may get it
	// (externalTrafficPolicy Local). An address is announced by nodes as a whole, so Services that share it agree.
	Backend string
	// External are the addresses in spec.externalIPs, by which the Service itself says that it is reached: no Service is given one of them, where its
	// pool is open to the namespace of this one.
	External []netip.Addr
	// Ports are those on which the Service is reached, and Granted those with which its status shows its addresses.
	Ports, Granted []Port
}

// compare orders Services by which one keeps an address that both claim. A Service whose ports are the ones that it was granted comes
// first, then the older one. Otherwise the author of an older Service could take the port of another one by an edit.
func (h *Holder) compare(other *Holder) int {
	unsettled := func(h *Holder) int {
		if h.settled() {
			return 0
		}
		return 1
	}
	return cmp.Or(unsettled(h)-unsettled(other), h.Created.Compare(other.Created), strings.Compare(string(h.UID), string(other.UID)))
}

// settled reports whether a Service does not share, or was granted the ports that it has. A status without ports says nothing.
func (h *Holder) settled() bool {
	return h.SharingKey == "" || len(h.Granted) == 0 || !slices.ContainsFunc(h.Ports, func(port Port) bool { return !slices.Contains(h.Granted, port) })
}

// obstacle says why two Services cannot share an address, empty if they can. Two of different namespaces that have it both had one key once: that
// the author of one chose another since costs the other nothing.
func (h *Holder) obstacle(other *Holder, haveIt bool) string {
	switch {
	case h.SharingKey == "" || other.SharingKey == "":
		return "it does not share"
	case h.SharingKey != other.SharingKey && (!haveIt || h.Service.Namespace == other.Service.Namespace):
		return "its sharing key is another"
	case h.Backend != other.Backend:
		return "its external traffic policy is another, or Local with another selector"
	}
	for _, port := range h.Ports {
		if slices.Contains(other.Ports, port) {
			return "it has the port " + port.String() + " too"
		}
	}
	return ""
}

// holding is what is known of one Service.
type holding struct {
	Holder
	// claimed are the addresses that the Service has, and shown the addresses that others may think it has.
	claimed, shown []netip.Addr
	// external are those of External that count.
	external []netip.Addr
}

// holds returns all addresses that the Service keeps others from.
func (h *holding) holds() []netip.Addr {
	return set(slices.Concat(h.claimed, h.shown, h.external))
}

// shares returns the addresses that the Service may share.
func (h *holding) shares() []netip.Addr {
	if h.SharingKey == "" {
		return nil
	}
	return set(slices.Concat(h.claimed, h.shown))
}

func set(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

// State is which Services hold which addresses. It is not safe for concurrent use.
type State struct {
	pools *Pools
	// services are by UID, and those of an address too.
	services map[types.UID]*holding
	byAddr   map[netip.Addr]map[types.UID]*holding
	// byKey are the addresses held by Services with a sharing key, and by how many.
	byKey map[string]map[netip.Addr]int
	// free are the free addresses of each pool, by name and family.
	free map[string]map[corev1.IPFamily]*free
	// reserved are the addresses of other hosts, and whose they are.
	reserved map[netip.Addr]string
}

// NewState returns the state in which no Service holds an address.
func NewState(pools *Pools) *State {
	s := &State{
		pools: pools, services: map[types.UID]*holding{}, byAddr: map[netip.Addr]map[types.UID]*holding{},
		byKey: map[string]map[netip.Addr]int{}, free: map[string]map[corev1.IPFamily]*free{},
	}
	for _, pool := range pools.ordered {
		s.free[pool.Name] = map[corev1.IPFamily]*free{}
		for family, ranges := range pool.ranges {
			s.free[pool.Name][family] = newFree()
			for _, r := range ranges {
				s.free[pool.Name][family].add(r)
			}
		}
	}
	return s
}

// WithPools returns the same Services holding the same addresses, with other pools.
func (s *State) WithPools(pools *Pools) *State {
	next := NewState(pools)
	next.Reserve(s.reserved)
	for _, one := range s.services {
		next.Set(one.Holder, one.claimed, one.shown)
	}
	return next
}

// Pools returns the pools of the state.
func (s *State) Pools() *Pools { return s.pools }

// Set replaces what is known of a Service. Claimed are the addresses that it has: it was granted them, or shows them if no grant is known.
// Shown are further addresses, such as one that it has just given up. It may still be reached by them, so no other Service gets them.
// Without any the Service is forgotten.
func (s *State) Set(holder Holder, claimed, shown []netip.Addr) {
	s.Remove(holder.UID)
	one := &holding{holder, claimed, shown, s.pools.openTo(holder.Service.Namespace, holder.External)}
	if len(one.holds()) == 0 {
		return
	}
	s.services[holder.UID] = one
	for _, addr := range one.holds() {
		if s.byAddr[addr] == nil {
			s.byAddr[addr] = map[types.UID]*holding{}
		}
		if _, reserved := s.reserved[addr]; !reserved && len(s.byAddr[addr]) == 0 {
			s.freeOf(addr, (*free).take)
		}
		s.byAddr[addr][holder.UID] = one
	}
	for _, addr := range one.shares() {
		if s.byKey[holder.SharingKey] == nil {
			s.byKey[holder.SharingKey] = map[netip.Addr]int{}
		}
		s.byKey[holder.SharingKey][addr]++
	}
}

// Remove forgets a Service.
func (s *State) Remove(uid types.UID) {
	one, found := s.services[uid]
	if !found {
		return
	}
	delete(s.services, uid)
	for _, addr := range one.holds() {
		delete(s.byAddr[addr], uid)
		if len(s.byAddr[addr]) == 0 {
			delete(s.byAddr, addr)
			if _, reserved := s.reserved[addr]; !reserved {
				s.freeOf(addr, (*free).give)
			}
		}
	}
	for _, addr := range one.shares() {
		keyed := s.byKey[one.SharingKey]
		if keyed[addr]--; keyed[addr] == 0 {
			delete(keyed, addr)
		}
		if len(keyed) == 0 {
			delete(s.byKey, one.SharingKey)
		}
	}
}

// freeOf does something with an address to the pool that has it.
func (s *State) freeOf(addr netip.Addr, do func(*free, netip.Addr)) {
	if pool := s.pools.of(addr); pool != nil {
		do(s.free[pool.Name][FamilyOf(addr)], addr)
	}
}

// Usage is how many addresses of one family a pool has.
type Usage struct {
	Pool   string
	Family corev1.IPFamily
	// Size is how many there are for Services, and Taken how many of them are held.
	Size, Taken float64
}

// Usage returns how much of each pool is held, in the order of preference, IPv4 first.
func (s *State) Usage() []Usage {
	var usage []Usage
	unusable := s.unusable()
	for _, pool := range s.pools.ordered {
		for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			if f := s.free[pool.Name][family]; f != nil {
				less := float64(unusable[f])
				usage = append(usage, Usage{pool.Name, family, f.size - less, float64(f.taken) - less})
			}
		}
	}
	return usage
}

// Outside returns how many addresses are claimed that belong to no pool.
func (s *State) Outside() int {
	count := 0
	for addr := range s.byAddr {
		if s.pools.of(addr) == nil && len(s.claimants(addr)) > 0 {
			count++
		}
	}
	return count
}

// Loser is a Service that claims an address which another one keeps.
type Loser struct {
	Holder
	// Winner is who keeps the address, and Obstacle why they cannot share it.
	Winner   Holder
	Obstacle string
	// Turned says that the loser has given up what it needs to share with the other namespaces that have the address.
	Turned bool
}

// Losers returns the Services that claim an address and may not have it, in order. The oldest that has what it was granted keeps it, and so
// do the Services that may share it with all who keep it. The rule does not depend on who looks, or when.
func (s *State) Losers(addr netip.Addr) []Loser {
	return resolve(s.claimants(addr))
}

// claimants returns the Services that claim an address, in no order.
func (s *State) claimants(addr netip.Addr) []*Holder {
	var claimants []*Holder
	for _, one := range s.byAddr[addr] {
		if slices.Contains(one.claimed, addr) {
			claimants = append(claimants, &one.Holder)
		}
	}
	return claimants
}

// loses returns how a Service would lose an address that it claims, nil if it keeps it. What the State knows of the Service
// itself does not count: its ports may have changed since.
func (s *State) loses(addr netip.Addr, holder *Holder) *Loser {
	others := slices.DeleteFunc(s.claimants(addr), func(one *Holder) bool { return one.UID == holder.UID })
	losers := resolve(append(others, holder))
	if at := slices.IndexFunc(losers, func(one Loser) bool { return one.UID == holder.UID }); at >= 0 {
		return &losers[at]
	}
	return nil
}

// turned reports whether a Service no longer shares with other namespaces: that takes a key, and the policy Cluster.
func (h *Holder) turned() bool { return h.SharingKey == "" || h.Backend != "" }

// resolve returns those of the claimants of one address that do not keep it. Claimants of several namespaces could share it when they got it:
// who has turned since comes last, as who takes a port.
func resolve(claimants []*Holder) []Loser {
	across := slices.ContainsFunc(claimants, func(one *Holder) bool { return one.Service.Namespace != claimants[0].Service.Namespace })
	rank := func(h *Holder) int {
		if across && h.turned() {
			return 1
		}
		return 0
	}
	slices.SortFunc(claimants, func(a, b *Holder) int { return cmp.Or(rank(a)-rank(b), a.compare(b)) })
	var keepers []*Holder
	var losers []Loser
	for _, one := range claimants {
		if winner, obstacle := firstObstacle(keepers, one, true); winner != nil {
			losers = append(losers, Loser{*one, *winner, obstacle, across && one.turned() && !winner.turned()})
			continue
		}
		keepers = append(keepers, one)
	}
	return losers
}

// bars returns the Service that keeps another one from an address that it does not have yet, and why; nil if there is none. A Service that
// may still be reached by the address counts.
func (s *State) bars(addr netip.Addr, holder *Holder) (*Holder, string) {
	var present []*Holder
	for one := range maps.Values(s.byAddr[addr]) {
		if one.UID != holder.UID {
			present = append(present, &one.Holder)
		}
	}
	slices.SortFunc(present, (*Holder).compare)
	return firstObstacle(present, holder, false)
}

// firstObstacle returns the first of some Services that another one cannot share with, and why. HaveIt says that they all have the address.
func firstObstacle(among []*Holder, with *Holder, haveIt bool) (*Holder, string) {
	for _, one := range among {
		if obstacle := one.obstacle(with, haveIt); obstacle != "" {
			return one, obstacle
		}
	}
	return nil, ""
}
