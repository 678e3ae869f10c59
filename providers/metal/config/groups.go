package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// PeerGroup is the peers that are announced the same: the same addresses, by the same nodes, at the same of their addresses, with
// the same attributes. See ADR 69.
type PeerGroup struct {
	// Name is empty for the peers that no advertisement names, that have no subnets of next hops of their own, that hash by more than
	// the source address, and that have an address. Any other group is named after the lowest address of its peers, and stays so when other groups come. If another
	// peer has that address too, the name of the peer follows.
	Name string
	// Peers are their names, in the order of the section.
	Peers []string
	// Subnets are where their next hops are. Of a family that has none there any address will do.
	Subnets []netip.Prefix
	// Advertisements are the advertisements for the group, by their place in the section. Nil means that everything is announced.
	Advertisements []int
	// OwnNode says that the peers are at the other ends of links, beyond which a replica leads traffic to its own node only.
	OwnNode bool
	// HashesBySource says that the peers choose among next hops by the source address alone.
	HashesBySource bool
	// Attributes are those of the peers. They are not set in the group without a name, whose peers may differ in them.
	Attributes BGPAttributes
}

// Contains reports whether an address of a node may be a next hop for the group.
func (g *PeerGroup) Contains(addr netip.Addr) bool {
	restricted := false
	for _, subnet := range g.Subnets {
		if subnet.Contains(addr) {
			return true
		}
		restricted = restricted || subnet.Addr().Is4() == addr.Is4()
	}
	return !restricted
}

// Groups returns the groups of peers, that without a name first and then by name. It returns nil if the section says nothing by
// which peers, addresses or next hops could differ: then everything goes to all by the first address of each node.
func (b *BGP) Groups() []PeerGroup {
	if len(b.Advertisements) == 0 && len(b.NextHopSubnets) == 0 &&
		!slices.ContainsFunc(b.Peers, func(p BGPPeer) bool { return len(p.NextHopSubnets) > 0 || p.HashesBySource || p.Interface != "" }) {
		return nil
	}
	byKey := map[string]*PeerGroup{}
	lowest, named := map[*PeerGroup]*BGPPeer{}, map[netip.Addr]int{}
	for i := range b.Peers {
		peer := &b.Peers[i]
		one := b.groupOf(peer)
		key := one.key()
		group, known := byKey[key]
		if !known {
			group = &one
			byKey[key] = group
		}
		group.Peers = append(group.Peers, peer.Name)
		named[peer.place()]++
		if first := lowest[group]; first == nil || cmp.Or(peer.place().Compare(first.place()), strings.Compare(peer.Name, first.Name)) < 0 {
			lowest[group] = peer
		}
	}
	groups := make([]PeerGroup, 0, len(byKey))
	for _, group := range byKey {
		if group.Name != "" {
			switch addr := lowest[group].place(); {
			case !addr.IsValid(): // a default gateway, which is found later
				group.Name = lowest[group].Name
			case named[addr] > 1:
				group.Name = addr.String() + "/" + lowest[group].Name
			default:
				group.Name = addr.String()
			}
		}
		groups = append(groups, *group)
	}
	slices.SortFunc(groups, func(a, b PeerGroup) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// ownGroup stands for the name of a group that has one, until all its peers are known.
const ownGroup = "?"

// groupOf returns the group of a peer, without the others.
func (b *BGP) groupOf(peer *BGPPeer) PeerGroup {
	group := PeerGroup{HashesBySource: peer.HashesBySource, OwnNode: peer.Interface != ""}
	named := false
	for i := range b.Advertisements {
		peers := b.Advertisements[i].Peers
		if len(peers) == 0 || slices.Contains(peers, peer.Name) {
			group.Advertisements = append(group.Advertisements, i)
			named = named || len(peers) > 0
		}
	}
	if group.Advertisements == nil && len(b.Advertisements) > 0 {
		group.Advertisements = []int{}
	}
	subnets := b.NextHopSubnets
	if len(peer.NextHopSubnets) > 0 {
		subnets = peer.NextHopSubnets
	}
	for _, text := range subnets {
		if prefix, err := parseSubnet(text); err == nil {
			group.Subnets = append(group.Subnets, prefix)
		}
	}
	if named || len(peer.NextHopSubnets) > 0 || peer.HashesBySource || group.OwnNode {
		group.Name, group.Attributes = ownGroup, peer.BGPAttributes
	}
	return group
}

// key returns what two peers of one group have in common.
func (g *PeerGroup) key() string {
	preference := "none"
	if g.Attributes.LocalPreference != nil {
		preference = fmt.Sprint(*g.Attributes.LocalPreference)
	}
	return fmt.Sprint(g.Name, g.Subnets, g.Advertisements, g.OwnNode, g.HashesBySource, g.Attributes.Communities, preference)
}

// PathAttributes returns what goes with a path to addresses of a pool that these advertisements select for a group, by their
// places: the communities of all, sorted and each of them once, and the highest local preference. Attributes of the group's peers
// are added as BGPPeer says. Without any advertisement it is what the pool has.
func (b *BGP) PathAttributes(group *PeerGroup, pool string, advertisements []int) BGPAttributes {
	merged := b.Attributes(pool)
	if len(advertisements) > 0 {
		pooled := merged
		merged = BGPAttributes{}
		for _, i := range advertisements {
			one := pooled
			if own := b.Advertisements[i].BGPAttributes; own.Communities != nil {
				one.Communities = own.Communities
			}
			if own := b.Advertisements[i].LocalPreference; own != nil {
				one.LocalPreference = own
			}
			merged.Communities = append(merged.Communities, one.Communities...)
			if merged.LocalPreference == nil || *one.LocalPreference > *merged.LocalPreference {
				merged.LocalPreference = one.LocalPreference
			}
		}
	}
	merged.Communities = append(slices.Clone(merged.Communities), group.Attributes.Communities...)
	slices.Sort(merged.Communities)
	merged.Communities = slices.Compact(merged.Communities)
	if group.Attributes.LocalPreference != nil {
		merged.LocalPreference = group.Attributes.LocalPreference
	}
	return merged
}
