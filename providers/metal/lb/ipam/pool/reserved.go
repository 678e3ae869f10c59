package pool

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reserve says which addresses are those of other hosts, such as nodes, and of which: no Service gets one of them. It takes the place
// of what was said before. A Service that has such an address gives it up when it is next asked for.
func (s *State) Reserve(owners map[netip.Addr]string) {
	before := s.reserved
	s.reserved = maps.Clone(owners)
	for addr := range s.reserved {
		if _, was := before[addr]; !was && len(s.byAddr[addr]) == 0 {
			s.freeOf(addr, (*free).take)
		}
	}
	for addr := range before {
		if _, still := s.reserved[addr]; !still && len(s.byAddr[addr]) == 0 {
			s.freeOf(addr, (*free).give)
		}
	}
}

// IsReserved reports whether an address is another host's.
func (s *State) IsReserved(addr netip.Addr) bool {
	_, is := s.reserved[addr]
	return is
}

// Reserved returns, for each address of a pool that is another host's, whose it is.
func (s *State) Reserved() map[netip.Addr]string {
	inPools := map[netip.Addr]string{}
	for addr, owner := range s.reserved {
		if s.pools.of(addr) != nil {
			inPools[addr] = owner
		}
	}
	return inPools
}

// unusable returns how many addresses of each pool and family are another host's, and no Service's.
func (s *State) unusable() map[*free]int {
	counts := map[*free]int{}
	for addr := range s.reserved {
		if pool := s.pools.of(addr); pool != nil && len(s.byAddr[addr]) == 0 {
			counts[s.free[pool.Name][FamilyOf(addr)]]++
		}
	}
	return counts
}

// reservedIn says, for a message, how many addresses of a pool are other hosts', and which host has most of them.
func (s *State) reservedIn(pool *compiled, family corev1.IPFamily) string {
	counts, all := map[string]int{}, 0
	for addr, owner := range s.reserved {
		if s.pools.of(addr) == pool && FamilyOf(addr) == family {
			counts[owner]++
			all++
		}
	}
	if all == 0 {
		return ""
	}
	most := slices.MinFunc(slices.Collect(maps.Keys(counts)), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	return fmt.Sprintf(", %d of them by nodes (%s says that it has %d),", all, most, counts[most])
}

// refusesReserved returns why a Service does not get the address of another host, or nil if no host has the address.
func (s *State) refusesReserved(addr netip.Addr) *RefusedError {
	if owner, is := s.reserved[addr]; is {
		return refuse(Conflict, FamilyOf(addr), "%s is the address of %s", addr, owner)
	}
	return nil
}

// withoutReserved returns the addresses that a Service has without those of other hosts, which it gives up, and a note of these.
func (s *State) withoutReserved(held []netip.Addr) (own []netip.Addr, notes []Note) {
	var given []netip.Addr
	for _, addr := range held {
		if _, is := s.reserved[addr]; is {
			given = append(given, addr)
		} else {
			own = append(own, addr)
		}
	}
	if len(given) == 0 {
		return held, nil
	}
	text := fmt.Sprintf("The Service gives up %s, which is the address of %s", given[0], s.reserved[given[0]])
	if more := len(given) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more that nodes have", more)
	}
	return own, []Note{{OfNode, text}}
}
