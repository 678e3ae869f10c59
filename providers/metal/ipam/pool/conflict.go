package pool

import (
	"maps"
	"net/netip"
	"slices"
)

// Loser is a Service that claims an address which another one keeps.
type Loser struct {
	Holder
	// Winner is who keeps the address, and Obstacle why they cannot share it.
	Winner   Holder
	Obstacle string
}

// Losers returns the Services that claim an address and may not have it, in order. The oldest keeps it, and with it those that
// may share it with all who keep it: a rule that does not depend on who looks, or when.
func (s *State) Losers(addr netip.Addr) []Loser {
	return judge(s.claimants(addr))
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
	losers := judge(append(others, holder))
	if at := slices.IndexFunc(losers, func(one Loser) bool { return one.UID == holder.UID }); at >= 0 {
		return &losers[at]
	}
	return nil
}

// judge returns those of the claimants of one address that do not keep it.
func judge(claimants []*Holder) []Loser {
	slices.SortFunc(claimants, (*Holder).compare)
	var keepers []*Holder
	var losers []Loser
	for _, one := range claimants {
		if winner, obstacle := firstObstacle(keepers, one); winner != nil {
			losers = append(losers, Loser{*one, *winner, obstacle})
			continue
		}
		keepers = append(keepers, one)
	}
	return losers
}

// bars returns who keeps a Service from an address that it does not have yet, and why; nil if nobody does. Whoever may still be
// reached by the address counts.
func (s *State) bars(addr netip.Addr, holder *Holder) (*Holder, string) {
	var present []*Holder
	for one := range maps.Values(s.byAddr[addr]) {
		if one.UID != holder.UID {
			present = append(present, &one.Holder)
		}
	}
	slices.SortFunc(present, (*Holder).compare)
	return firstObstacle(present, holder)
}

// firstObstacle returns the first of some Services that another one cannot share with, and why.
func firstObstacle(among []*Holder, with *Holder) (*Holder, string) {
	for _, one := range among {
		if obstacle := one.obstacle(with); obstacle != "" {
			return one, obstacle
		}
	}
	return nil, ""
}
