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
	problemNoNextHop = "no node that may be its next hop has an InternalIP on its network, beyond which ARP and NDP do not lead"
	problemOwn       = "it is an address of the machine of the replica itself"
)

// plan assigns each address of a load balancer to the first network that it and its next hop on a segment are on. Addresses that cannot
// be answered for have a problem. Pools restricts to addresses of pools of these names; none means all.
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
			if hop := route.Segment; network.contains(hop) || network.owns(hop) {
				assigned[addr], problem = assignment{network.name, hop}, ""
				break
			}
			problem = problemNoNextHop
		}
		if problem != "" {
			problems[addr] = problem
		}
	}
	return assigned, problems
}
