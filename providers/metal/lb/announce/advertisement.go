package announce

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// Advertising is what of the config decides which group of BGP peers is announced what. Nil announces everything to all peers, by the
// first address of each node. It is not changed.
//
// See ADR 69.
type Advertising struct {
	section *config.BGP
	groups  []config.PeerGroup
	// selectors are those of the advertisements, in their order.
	selectors []selectors
	// segment says that addresses are answered for on a segment, too, whatever is announced to peers.
	segment bool
}

// selectors are what an advertisement selects; nil selects all.
type selectors struct {
	pools           map[string]bool
	services, nodes []labels.Selector
}

// NewAdvertising returns what a section says, which has its defaults and is valid; nil may be. Segment says that the addresses are
// answered for on a segment as well.
func NewAdvertising(section *config.BGP, segment bool) *Advertising {
	if section == nil {
		return nil
	}
	groups := section.Groups()
	if groups == nil {
		return nil
	}
	a := &Advertising{section: section, groups: groups, segment: segment}
	for i := range section.Advertisements {
		advertisement := &section.Advertisements[i]
		one := selectors{services: compiled(advertisement.ServiceSelectors), nodes: compiled(advertisement.NodeSelectors)}
		for _, pool := range advertisement.Pools {
			if one.pools == nil {
				one.pools = map[string]bool{}
			}
			one.pools[pool] = true
		}
		a.selectors = append(a.selectors, one)
	}
	return a
}

func compiled(selectors []metav1.LabelSelector) []labels.Selector {
	var result []labels.Selector
	for i := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(&selectors[i])
		if err != nil {
			selector = labels.Nothing() // which none of a config that was loaded is
		}
		result = append(result, selector)
	}
	return result
}

// segmentRules returns what the advertisements of a section select. A pool that the section leaves out is left to the responder.
func segmentRules(section *config.L2) []SegmentRule {
	if section == nil {
		return nil
	}
	var rules []SegmentRule
	for i := range section.Advertisements {
		one := &section.Advertisements[i]
		rule := SegmentRule{Services: compiled(one.ServiceSelectors), Nodes: compiled(one.NodeSelectors)}
		for _, pool := range one.Pools {
			if rule.Pools == nil {
				rule.Pools = map[string]bool{}
			}
			rule.Pools[pool] = true
		}
		rules = append(rules, rule)
	}
	return rules
}

// selecting returns the advertisements that select an address of a pool that these Services have, in their order.
func (a *Advertising) selecting(pool string, services []model.Service) []int {
	var selected []int
	for i, one := range a.selectors {
		if one.pools != nil && !one.pools[pool] {
			continue
		}
		if slices.ContainsFunc(services, func(service model.Service) bool { return matchAny(one.services, service.Labels) }) {
			selected = append(selected, i)
		}
	}
	return selected
}

// needsOwnNode reports whether it matters on which node this replica runs.
func (a *Advertising) needsOwnNode() bool {
	return a != nil && slices.ContainsFunc(a.groups, func(group config.PeerGroup) bool { return group.OwnNode })
}

// leadsTo reports whether a node may be a next hop for a group.
func (in Input) leadsTo(node string, group *config.PeerGroup) bool {
	return !group.OwnNode || node == in.OwnNode
}

// nextHop returns the address of a node that is its next hop for a group of peers, or an invalid one if there is no such address.
func nextHop(node model.Node, group *config.PeerGroup, family model.Family) netip.Addr {
	for _, addr := range node.Addresses {
		if model.FamilyOf(addr) == family && group.Contains(addr) {
			return addr
		}
	}
	return netip.Addr{}
}

// probed returns the address at which a node is probed: one at which traffic arrives. That is the first one that is in a subnet of next
// hops, of the first group that has any, or else the first InternalIP. It is invalid if there is no such address.
func (a *Advertising) probed(node model.Node) netip.Addr {
	if a != nil {
		for i := range a.groups {
			for _, addr := range node.Addresses {
				if slices.ContainsFunc(a.groups[i].Subnets, func(subnet netip.Prefix) bool { return subnet.Contains(addr) }) {
					return addr
				}
			}
		}
	}
	if len(node.Addresses) == 0 {
		return netip.Addr{}
	}
	return node.Addresses[0]
}

// view is a part of the nodes, each at one of its addresses. Advertisements and groups that see the same nodes at the same addresses
// share one, since the next hops of an address have to be chosen once for all of them.
type view struct {
	// subnets are those of the group.
	subnets string
	// advertisement is the one that restricts the nodes, or everyNode.
	advertisement int
	// own says that the group sees the node of this replica only.
	own bool
}

const everyNode = -1

// seen are the next hops of a view, of one family.
type seen struct {
	hops
	// byAddr are the names of the nodes, the first one of those with one address.
	byAddr map[netip.Addr]string
}

// advertiser says what is announced to the groups of peers, from what is announced at all.
type advertiser struct {
	*Advertising
	in    Input
	nodes map[string]model.NodeState
	// views are the next hops that there are.
	views map[view][model.Families]seen
	// attributes are what goes with paths, by what they follow from.
	attributes map[attributed]routing.Attributes
	// aggregates are the Services that have addresses in a prefix, and the advertisements by which it is announced to groups.
	aggregates map[netip.Prefix]*aggregate
}

type attributed struct {
	group, pool, advertisements string
}

type aggregate struct {
	pool     string
	services map[string]model.Service
	// by are the advertisements, by the place of the group.
	by map[int]map[int]bool
}

// advertise completes what Desired derived from an input by what is announced to groups of peers, and says of each address to
// which. Like Desired it depends on nothing but that.
func (a *Advertising) advertise(in Input, out *Output) {
	if a == nil {
		return
	}
	run := &advertiser{
		Advertising: a, in: in, nodes: out.Nodes, views: map[view][model.Families]seen{},
		attributes: map[attributed]routing.Attributes{}, aggregates: map[netip.Prefix]*aggregate{},
	}
	sharing, states := map[netip.Addr][]model.Service{}, map[netip.Addr]model.AddressState{}
	for key, service := range in.Services {
		for i, addr := range service.Addresses {
			sharing[addr.Unmap()] = append(sharing[addr.Unmap()], service)
			states[addr.Unmap()] = out.Services[key].Addresses[i]
		}
	}
	for addr, services := range sharing {
		states[addr] = run.address(out.Table, states[addr], deciding(services))
	}
	for key, service := range in.Services {
		for i, addr := range service.Addresses {
			out.Services[key].Addresses[i] = states[addr.Unmap()]
		}
	}
	for prefix, of := range run.aggregates {
		run.aggregate(out.Table, prefix, of)
	}
	run.pods(out)
}

// pods announces the routes to pods to every group, by the node's address that is for it.
func (a *advertiser) pods(out *Output) {
	for name, state := range out.Nodes {
		for _, cidr := range state.PodCIDRs {
			route := out.Table[cidr]
			route.Groups = map[string]routing.Hops{}
			for i := range a.groups {
				group := &a.groups[i]
				if hop := nextHop(a.in.Nodes[name], group, model.FamilyOf(cidr.Addr())); hop.IsValid() && a.in.leadsTo(name, group) {
					with := a.with(group, "", nil)
					route.Groups[group.Name] = routing.Hops{NextHops: []netip.Addr{hop}, Attributes: []routing.Attributes{with}}
				}
			}
			out.Table[cidr] = route
		}
	}
}

// address announces an address that has next hops to the groups for which an advertisement selects it.
func (a *advertiser) address(table routing.Table, state model.AddressState, services []model.Service) model.AddressState {
	if len(state.NextHops) == 0 {
		return state
	}
	prefix := netip.PrefixFrom(state.Addr, state.Addr.BitLen())
	selecting := a.selecting(state.Pool, services)
	local := slices.ContainsFunc(services, func(service model.Service) bool { return service.Local })
	groups, why := map[string]routing.Hops{}, model.AddressState{Reason: model.NoAdvertisement}
	state.Peers = []string{}
	for i := range a.groups {
		group := &a.groups[i]
		single, selected := a.split(i, prefix, state.Pool, selecting, services)
		if !selected {
			continue
		}
		if len(single) == 0 {
			state.Peers = append(state.Peers, group.Peers...)
			if local {
				state.InPrefix = append(state.InPrefix, group.Peers...)
			}
			continue
		}
		bound := unlimited
		if !group.HashesBySource {
			bound = mostFor(services)
		}
		hops, one := a.choose(group, state.Addr, state.Pool, single, services, bound)
		if len(hops.NextHops) == 0 {
			state.Without, why = append(state.Without, group.Peers...), one
			continue
		}
		groups[group.Name] = hops
		state.Peers = append(state.Peers, group.Peers...)
	}
	slices.Sort(state.Peers)
	slices.Sort(state.Without)
	slices.Sort(state.InPrefix)
	return a.conclude(table, prefix, state, groups, why)
}

// conclude puts a route into the table, and says of its address what became of it.
func (a *advertiser) conclude(table routing.Table, prefix netip.Prefix, state model.AddressState, groups map[string]routing.Hops,
	why model.AddressState) model.AddressState {
	route := table[prefix]
	route.Groups = groups
	table[prefix] = route
	state.Unadvertised = len(state.Peers)+len(state.Without) == 0
	switch {
	case a.segment: // it is answered for all the same
	case len(groups) > 0:
		state.NextHops = nil
		for _, hops := range groups {
			state.NextHops = append(state.NextHops, hops.NextHops...)
		}
		slices.SortFunc(state.NextHops, netip.Addr.Compare)
		state.NextHops = slices.Compact(state.NextHops)
	case len(state.Peers) == 0:
		state.NextHops, state.Reason, state.Out = nil, why.Reason, why.Out
		delete(table, prefix)
	}
	return state
}

// split returns the advertisements that announce an address to a group by itself, and whether any does so, if only as a part of a prefix.
// It remembers the advertisements of a prefix for that prefix. A section without advertisements has one for all: everyNode.
func (a *advertiser) split(group int, prefix netip.Prefix, pool string, selecting []int, services []model.Service) ([]int, bool) {
	if a.groups[group].Advertisements == nil {
		return []int{everyNode}, true
	}
	var single []int
	selected := false
	for _, i := range selecting {
		if !slices.Contains(a.groups[group].Advertisements, i) {
			continue
		}
		selected = true
		length := a.section.Advertisements[i].Length(prefix.Addr())
		if length == prefix.Bits() {
			single = append(single, i)
			continue
		}
		whole := netip.PrefixFrom(prefix.Addr(), length).Masked()
		of := a.aggregates[whole]
		if of == nil {
			of = &aggregate{pool: pool, services: map[string]model.Service{}, by: map[int]map[int]bool{}}
			a.aggregates[whole] = of
		}
		if of.by[group] == nil {
			of.by[group] = map[int]bool{}
		}
		of.by[group][i] = true
		for _, service := range services {
			of.services[service.Key.String()] = service
		}
	}
	return single, selected
}

// aggregate announces a prefix in the place of addresses. Its next hops are chosen as those of one address that all Services share.
func (a *advertiser) aggregate(table routing.Table, prefix netip.Prefix, of *aggregate) {
	if _, taken := table[prefix]; taken {
		return // by the pods of a node
	}
	groups := map[string]routing.Hops{}
	for i, by := range of.by {
		group := &a.groups[i]
		services := slices.Collect(maps.Values(of.services))
		if hops, _ := a.choose(group, prefix.Addr(), of.pool, slices.Sorted(maps.Keys(by)), services, unlimited); len(hops.NextHops) > 0 {
			groups[group.Name] = hops
		}
	}
	if len(groups) > 0 {
		table[prefix] = routing.Route{Prefix: prefix, Kind: routing.Aggregate, Pool: of.pool, Groups: groups}
	}
}

// choose returns the next hops of an address, or of a prefix that begins with it, by these advertisements to a group, or else why
// there are none. A node has the attributes of all of them that select it. Each advertisement chooses as many as most; if that is one, one
// of them all is chosen.
func (a *advertiser) choose(group *config.PeerGroup, addr netip.Addr, pool string, advertisements []int,
	services []model.Service, most int) (routing.Hops, model.AddressState) {
	family := model.FamilyOf(addr)
	chosen, done := map[netip.Addr]string{}, map[view]bool{}
	var why model.AddressState
	for _, i := range advertisements {
		key := a.viewOf(group, i)
		if done[key] {
			continue
		}
		done[key] = true
		see := a.see(group, key)[family]
		state := a.in.announce(addr, services, &see.hops, most)
		if len(state.NextHops) == 0 {
			why = state
		}
		for _, hop := range state.NextHops {
			chosen[hop] = see.byAddr[hop]
		}
	}
	result := routing.Hops{NextHops: slices.SortedFunc(maps.Keys(chosen), netip.Addr.Compare)}
	if most == 1 && len(result.NextHops) > 1 {
		var hashes []uint64
		for _, hop := range result.NextHops {
			hashes = append(hashes, routing.Hash(chosen[hop]))
		}
		best := routing.Rendezvous(routing.Hash(addr.String()), hashes, 1)[0]
		result.NextHops = result.NextHops[best : best+1]
	}
	for _, hop := range result.NextHops {
		result.Attributes = append(result.Attributes, a.with(group, pool, a.selectingNode(advertisements, chosen[hop])))
	}
	return result, why
}

// selectingNode returns those of advertisements that select a node.
func (a *advertiser) selectingNode(advertisements []int, node string) []int {
	return slices.DeleteFunc(slices.Clone(advertisements), func(i int) bool {
		return i == everyNode || !matchAny(a.selectors[i].nodes, a.in.Nodes[node].Labels)
	})
}

// with returns what goes with a path to addresses of a pool by these advertisements.
func (a *advertiser) with(group *config.PeerGroup, pool string, advertisements []int) routing.Attributes {
	var places []byte
	for _, i := range advertisements {
		places = append(strconv.AppendInt(places, int64(i), 10), ' ')
	}
	key := attributed{group.Name, pool, string(places)}
	attributes, known := a.attributes[key]
	if !known {
		merged := a.section.PathAttributes(group, pool, advertisements)
		attributes = routing.Attributes{LocalPreference: *merged.LocalPreference, Communities: strings.Join(merged.Communities, " ")}
		a.attributes[key] = attributes
	}
	return attributes
}

// viewOf returns which nodes an advertisement sees for a group.
func (a *advertiser) viewOf(group *config.PeerGroup, advertisement int) view {
	if advertisement != everyNode && a.selectors[advertisement].nodes == nil {
		advertisement = everyNode
	}
	var subnets strings.Builder
	for _, subnet := range group.Subnets {
		subnets.WriteString(subnet.String() + " ")
	}
	return view{subnets.String(), advertisement, group.OwnNode}
}

// see returns the nodes of a view that may be next hops.
func (a *advertiser) see(group *config.PeerGroup, key view) [model.Families]seen {
	made, known := a.views[key]
	if known {
		return made
	}
	hops := a.in.hops(a.nodes, func(node model.Node, family model.Family) (netip.Addr, model.Reason) {
		if !node.Address(family).IsValid() {
			return netip.Addr{}, model.NodeWithoutFamily
		}
		if key.advertisement != everyNode && !matchAny(a.selectors[key.advertisement].nodes, node.Labels) {
			return netip.Addr{}, model.NodeNotAdvertised
		}
		if !a.in.leadsTo(node.Name, group) {
			return netip.Addr{}, model.NodeNotAdvertised
		}
		return nextHop(node, group, family), model.NodeNotAdvertised
	})
	for family := range hops {
		made[family] = seen{hops[family], map[netip.Addr]string{}}
		for name, hop := range hops[family].byName {
			if other, twice := made[family].byAddr[hop.addr]; !twice || name < other {
				made[family].byAddr[hop.addr] = name
			}
		}
	}
	a.views[key] = made
	return made
}
