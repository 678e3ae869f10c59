package layer2

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// network is an interface of this machine with its addresses, each with the length of its network's prefix.
type network struct {
	name  string
	addrs []netip.Prefix
}

// contains reports whether an address is on the network, and not the machine's own.
func (n network) contains(addr netip.Addr) bool {
	return slices.ContainsFunc(n.addrs, func(own netip.Prefix) bool {
		return own.Contains(addr) && !own.IsSingleIP() && !addr.IsLinkLocalUnicast()
	})
}

// owns reports whether an address is the machine's own.
func (n network) owns(addr netip.Addr) bool {
	return slices.ContainsFunc(n.addrs, func(own netip.Prefix) bool { return own.Addr() == addr })
}

// source4 returns the own address that is on one network with another one.
func (n network) source4(other netip.Addr) netip.Addr {
	for _, own := range n.addrs {
		if own.Contains(other) {
			return own.Addr()
		}
	}
	return netip.IPv4Unspecified()
}

// source6 returns the own link-local address, or else any IPv6 address, or an invalid one if there is no IPv6 address.
func (n network) source6() netip.Addr {
	var source netip.Addr
	for _, own := range n.addrs {
		if addr := own.Addr(); addr.Is6() && (!source.IsValid() || addr.IsLinkLocalUnicast()) {
			source = addr
		}
	}
	return source
}

// assignment says on which network an address is answered for, and which next hop the answer names.
type assignment struct {
	network string
	nextHop netip.Addr
}

// The problems of addresses, each as the end of a sentence.
const (
	problemNoNetwork = "it is on no network of the replica that answers ARP and NDP"
	problemNoNextHop = "no next hop of it is on its own network, to which ARP and NDP do not lead"
	problemOwn       = "it is an address of the machine of the replica itself"
)

// plan assigns each address of a load balancer to the first network that it and one of its next hops are on. All traffic of an
// address goes to one next hop, chosen so that many addresses are spread over many, and so that it stays when others come and go.
// Addresses that cannot be answered for have a problem. Pools restricts to addresses of pools of these names; none means all.
func plan(announced routing.Table, networks []network, pools []string) (map[netip.Addr]assignment, map[netip.Addr]string) {
	networks = slices.SortedFunc(slices.Values(networks), func(a, b network) int { return strings.Compare(a.name, b.name) })
	assigned, problems := map[netip.Addr]assignment{}, map[netip.Addr]string{}
	for _, route := range announced {
		if route.Kind != routing.ServiceAddress || len(pools) > 0 && !slices.Contains(pools, route.Pool) {
			continue
		}
		addr := route.Prefix.Addr()
		problem := problemNoNetwork
		for _, network := range networks {
			if network.owns(addr) {
				problem = problemOwn
				break
			}
			if !network.contains(addr) {
				continue
			}
			nextHop, found := choose(addr, route, network)
			if !found {
				problem = problemNoNextHop
				continue
			}
			assigned[addr], problem = assignment{network.name, nextHop}, ""
			break
		}
		if problem != "" {
			problems[addr] = problem
		}
	}
	return assigned, problems
}

// choose returns one of the next hops that are on the network, by the names of their nodes: an address could be chosen so that it wins.
func choose(addr netip.Addr, route routing.Route, network network) (netip.Addr, bool) {
	var candidates []netip.Addr
	var hashes []uint64
	for i, hop := range route.NextHops {
		if hop.Is4() == addr.Is4() && (network.contains(hop) || network.owns(hop)) {
			name := hop.String()
			if i < len(route.Nodes) {
				name = route.Nodes[i]
			}
			candidates, hashes = append(candidates, hop), append(hashes, routing.Hash(name))
		}
	}
	chosen := routing.Rendezvous(routing.Hash(addr.String()), hashes, 1)
	if len(chosen) == 0 {
		return netip.Addr{}, false
	}
	return candidates[chosen[0]], true
}
