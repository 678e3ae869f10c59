package instances

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// hostnameKey is the key of a server's metadata whose value is an address of the type Hostname, as upstream has it.
const hostnameKey = "hostname"

// addressesOf returns the addresses of a node, chosen and ordered as upstream's manager does:
//
//  1. the fixed addresses of ports that are ACTIVE, as InternalIP;
//  2. the server's access addresses, as ExternalIP, and the host name in its metadata;
//  3. the addresses that Nova and trunks have, by the names of networks: floating ones, and those of public-network-name, as
//     ExternalIP, others as InternalIP.
//
// An address of a public network is not internal, and one of neither a public nor an internal network is not there at all, if
// internal-network-name is set. Address-sort-order comes last. Where upstream keeps the order of answers, which is not always the
// same, ports are ordered by their IDs and the addresses of one with IPv4 first.
func addressesOf(of server, known ports, networking config.Networking) []v1.NodeAddress {
	chosen := &choice{noIPv6: networking.IPv6SupportDisabled}
	attached := slices.SortedFunc(slices.Values(known.byServer[of.ID]), func(a, b port) int { return cmp.Compare(a.ID, b.ID) })
	for _, one := range attached {
		if one.Status != "ACTIVE" {
			continue
		}
		for _, address := range sorted(one) {
			chosen.add(v1.NodeInternalIP, address)
		}
	}
	chosen.add(v1.NodeExternalIP, of.AccessIPv4)
	chosen.add(v1.NodeExternalIP, of.AccessIPv6)
	if name := of.Metadata[hostnameKey]; name != "" {
		chosen.all = append(chosen.all, v1.NodeAddress{Type: v1.NodeHostName, Address: name})
	}
	networks := byNetwork(of, known)
	for _, network := range slices.Sorted(maps.Keys(networks)) {
		for _, address := range networks[network] {
			switch {
			case address.Type == "floating":
				chosen.add(v1.NodeExternalIP, address.Address)
			case slices.Contains(networking.PublicNetworkName, network):
				chosen.remove(address.Address)
				chosen.add(v1.NodeExternalIP, address.Address)
			case len(networking.InternalNetworkName) == 0 || slices.Contains(networking.InternalNetworkName, network):
				chosen.add(v1.NodeInternalIP, address.Address)
			default:
				chosen.remove(address.Address)
			}
		}
	}
	return prioritized(chosen.all, networking.AddressSortOrder)
}

// byNetwork are the addresses that Nova remembers, IPv4 first, and behind them those of the ports that trunks carry.
func byNetwork(of server, known ports) map[string][]serverAddress {
	networks := map[string][]serverAddress{}
	for name, addresses := range of.Addresses {
		networks[name] = slices.SortedStableFunc(slices.Values(addresses), func(a, b serverAddress) int { return compare(a.Address, b.Address) })
	}
	for _, sub := range known.subPorts(of.ID) {
		name, found := known.networks[sub.NetworkID]
		if !found {
			continue
		}
		for _, address := range sorted(sub) {
			networks[name] = append(networks[name], serverAddress{Address: address, Type: "fixed"})
		}
	}
	return networks
}

func sorted(of port) []string {
	var addresses []string
	for _, fixed := range of.FixedIPs {
		addresses = append(addresses, fixed.Address)
	}
	slices.SortStableFunc(addresses, compare)
	return addresses
}

// compare orders addresses by their numbers, IPv4 before IPv6, and what is no address last.
func compare(a, b string) int {
	left, leftErr := netip.ParseAddr(a)
	right, rightErr := netip.ParseAddr(b)
	if leftErr != nil || rightErr != nil {
		return cmp.Compare(a, b)
	}
	return left.Unmap().Compare(right.Unmap())
}

// choice is what has been chosen so far.
type choice struct {
	noIPv6 bool
	all    []v1.NodeAddress
}

// add appends an IP address that is not there with that type. What is no IP address is left out.
func (c *choice) add(kind v1.NodeAddressType, address string) {
	parsed, err := netip.ParseAddr(address)
	if err != nil || c.noIPv6 && !parsed.Unmap().Is4() {
		return
	}
	if added := (v1.NodeAddress{Type: kind, Address: address}); !slices.Contains(c.all, added) {
		c.all = append(c.all, added)
	}
}

// remove takes an address out, whatever its type.
func (c *choice) remove(address string) {
	c.all = slices.DeleteFunc(c.all, func(one v1.NodeAddress) bool { return one.Address == address })
}

// prioritized puts addresses in the first of some CIDRs first, and so on, those of one CIDR by their numbers. All others keep their
// order behind them.
func prioritized(addresses []v1.NodeAddress, order []netip.Prefix) []v1.NodeAddress {
	place := func(address v1.NodeAddress) int {
		parsed, err := netip.ParseAddr(address.Address)
		if err != nil {
			return len(order)
		}
		if at := slices.IndexFunc(order, func(prefix netip.Prefix) bool { return prefix.Contains(parsed.Unmap()) }); at >= 0 {
			return at
		}
		return len(order)
	}
	slices.SortStableFunc(addresses, func(a, b v1.NodeAddress) int {
		left, right := place(a), place(b)
		if left != right || left == len(order) {
			return cmp.Compare(left, right)
		}
		return compare(a.Address, b.Address)
	})
	return addresses
}
