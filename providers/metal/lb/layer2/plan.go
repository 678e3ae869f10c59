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
	problemNotChosen = "no node that may be its next hop and that l2.advertisements select has an InternalIP on its network"
	problemOwn       = "it is an address of the machine of the replica itself"
)

// restriction says which addresses are answered for, by their pools, and on which interfaces. None: all.
type restriction struct {
	pools          []string
	advertisements []rule
}

// rule selects pools, and interfaces for their addresses. None: all.
type rule struct{ pools, interfaces []string }

// plan assigns each address of a load balancer to the first network that it and its next hop on a segment are on. Addresses that cannot
// be answered for have a problem. Only some pools and interfaces may be meant.
func plan(announced routing.Table, networks []network, only restriction) (map[netip.Addr]assignment, map[netip.Addr]string) {
	networks = slices.SortedFunc(slices.Values(networks), func(a, b network) int { return strings.Compare(a.name, b.name) })
	assigned, problems := map[netip.Addr]assignment{}, map[netip.Addr]string{}
	for _, route := range announced {
		if route.Kind != routing.ServiceAddress || len(only.pools) > 0 && !slices.Contains(only.pools, route.Pool) {
			continue
		}
		interfaces, selected := interfacesOf(only.advertisements, route.Pool)
		if !selected {
			continue
		}
		addr := route.Prefix.Addr()
		problem := problemNoNetwork
		for _, network := range networks {
			if network.owns(addr) {
				problem = problemOwn
				break
			}
			if !network.contains(addr) || len(interfaces) > 0 && !slices.Contains(interfaces, network.name) {
				continue
			}
			if hop := route.Segment; network.contains(hop) || network.owns(hop) {
				assigned[addr], problem = assignment{network.name, hop}, ""
				break
			}
			if problem = problemNoNextHop; len(only.advertisements) > 0 {
				problem = problemNotChosen
			}
		}
		if problem != "" {
			problems[addr] = problem
		}
	}
	return assigned, problems
}

// interfacesOf returns the interfaces on which addresses of a pool are answered for, none for all, and whether they are at all.
func interfacesOf(advertisements []rule, pool string) (interfaces []string, selected bool) {
	every := false
	for i := range advertisements {
		one := &advertisements[i]
		if len(one.pools) > 0 && !slices.Contains(one.pools, pool) {
			continue
		}
		selected, every = true, every || len(one.interfaces) == 0
		interfaces = append(interfaces, one.interfaces...)
	}
	if every {
		interfaces = nil
	}
	return interfaces, selected || len(advertisements) == 0
}
