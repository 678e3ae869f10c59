package bgp

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

const (
	// maxNextHops is how many paths of one destination are announced.
	maxNextHops = routing.MaxNextHops
	// stepDestinations bounds how many destinations change between two looks at whether the speaker is to end, and how long the
	// library is busy with it.
	stepDestinations = 256
)

// hop is a next hop of a destination as it is announced.
type hop struct {
	addr netip.Addr
	// id distinguishes the paths of one destination (RFC 7911 section 3). It stays with the next hop.
	id uint32
}

// destination is what is announced of one prefix.
type destination struct {
	// hops are sorted by address.
	hops []hop
	// own are the attributes of each of hops, in their order; nil if the pool decides.
	own []routing.Attributes
	// pool decides which attributes go with the paths, and attributes is what these are, as something to compare.
	pool, attributes string
	// uncertain makes the paths worse than those of another speaker with the same attributes.
	uncertain bool
	// leftOut is how many next hops are not announced because there are too many.
	leftOut int
}

// ownAttributes are those of a path itself, if there are any: else its pool decides.
type ownAttributes struct {
	set bool
	routing.Attributes
}

func (d *destination) ownOf(h hop) ownAttributes {
	if i := slices.Index(d.hops, h); i >= 0 && i < len(d.own) {
		return ownAttributes{true, d.own[i]}
	}
	return ownAttributes{}
}

// path is one path to announce or to withdraw.
type path struct {
	prefix netip.Prefix
	hop    hop
	// pool decides on the attributes, unless the path has its own.
	pool string
	// uncertain makes the path worse than others with the same attributes.
	uncertain bool
	own       ownAttributes
}

// step is a part of a change. Its additions come before its withdrawals, so no destination is without a path between.
type step struct {
	add, withdraw []path
	// moves says that a destination keeps none of its next hops. Then the additions have to have reached the routers before the
	// withdrawals follow.
	moves bool
	// after is what is announced of the destinations of the step when it is done. One without next hops is not announced.
	after map[netip.Prefix]destination
}

// planRoutes returns how to get from what is announced to a table, with attributes as they are now, by pool. Destinations that lose a next
// hop come first, because what is sent there may be lost. Otherwise the order is by address.
func planRoutes(announced map[netip.Prefix]destination, want routing.Table, attributes func(pool string) string) []step {
	var losing, gaining []netip.Prefix
	changed := map[netip.Prefix]destination{}
	for prefix, route := range want {
		before, found := announced[prefix]
		with := attributes(route.Pool)
		if found && asWanted(before, route, with) {
			continue
		}
		after := successor(before, route, with)
		changed[prefix] = after
		if loses(before, after) {
			losing = append(losing, prefix)
		} else {
			gaining = append(gaining, prefix)
		}
	}
	for prefix := range announced {
		if _, wanted := want[prefix]; !wanted {
			changed[prefix] = destination{}
			losing = append(losing, prefix)
		}
	}
	slices.SortFunc(losing, netip.Prefix.Compare)
	slices.SortFunc(gaining, netip.Prefix.Compare)
	var steps []step
	for prefixes := range slices.Chunk(append(losing, gaining...), stepDestinations) {
		steps = append(steps, planStep(prefixes, announced, changed))
	}
	return steps
}

func planStep(prefixes []netip.Prefix, announced, changed map[netip.Prefix]destination) step {
	s := step{after: make(map[netip.Prefix]destination, len(prefixes))}
	for _, prefix := range prefixes {
		before, after := announced[prefix], changed[prefix]
		s.after[prefix] = after
		s.moves = s.moves || moves(before, after)
		for _, hop := range after.hops {
			own := after.ownOf(hop)
			if !slices.Contains(before.hops, hop) || before.attributes != after.attributes || before.uncertain != after.uncertain ||
				before.ownOf(hop) != own {
				s.add = append(s.add, path{prefix: prefix, hop: hop, pool: after.pool, uncertain: after.uncertain, own: own})
			}
		}
		for _, hop := range before.hops {
			if !slices.Contains(after.hops, hop) {
				s.withdraw = append(s.withdraw, path{prefix: prefix, hop: hop, pool: before.pool, uncertain: before.uncertain, own: before.ownOf(hop)})
			}
		}
	}
	return s
}

// successor returns what is to be announced of a route. A next hop keeps its number; a new one gets the lowest that no next hop had before.
// So the path which it adds does not take the place of one that is yet to be withdrawn.
func successor(before destination, route routing.Route, attributes string) destination {
	kept := route.NextHops[:min(len(route.NextHops), maxNextHops)]
	after := destination{
		hops: make([]hop, 0, len(kept)), own: route.Attributes[:min(len(route.Attributes), len(kept))],
		pool: route.Pool, attributes: attributes, leftOut: len(route.NextHops) - len(kept), uncertain: route.Uncertain,
	}
	taken := make(map[uint32]bool, len(before.hops))
	for _, hop := range before.hops {
		taken[hop.id] = true
	}
	next := uint32(1)
	for _, addr := range kept {
		if i := slices.IndexFunc(before.hops, func(h hop) bool { return h.addr == addr }); i >= 0 {
			after.hops = append(after.hops, before.hops[i])
			continue
		}
		for taken[next] {
			next++
		}
		taken[next] = true
		after.hops = append(after.hops, hop{addr: addr, id: next})
	}
	return after
}

// asWanted reports whether nothing is to be done for a route.
func asWanted(d destination, route routing.Route, attributes string) bool {
	kept := route.NextHops[:min(len(route.NextHops), maxNextHops)]
	return d.pool == route.Pool && d.attributes == attributes && d.uncertain == route.Uncertain && d.leftOut == len(route.NextHops)-len(kept) &&
		slices.Equal(d.own, route.Attributes[:min(len(route.Attributes), len(kept))]) &&
		slices.EqualFunc(d.hops, kept, func(h hop, addr netip.Addr) bool { return h.addr == addr })
}

// loses reports whether a next hop goes.
func loses(before, after destination) bool {
	return slices.ContainsFunc(before.hops, func(h hop) bool { return !slices.Contains(after.hops, h) })
}

// moves reports whether all next hops are replaced by others.
func moves(before, after destination) bool {
	return len(before.hops) > 0 && len(after.hops) > 0 &&
		!slices.ContainsFunc(before.hops, func(h hop) bool { return slices.Contains(after.hops, h) })
}

// neighbor is a router as the speaker knows it: what is configured of it, with its password.
type neighbor struct {
	name string
	addr netip.Addr
	// session is what both sides agree on when the session begins: a change ends it.
	session session
	// timers change while the session goes on.
	timers timers
	// attributes is what goes with every path to this router, as something to compare.
	attributes string
}

type session struct {
	// group is the table from which the router is served.
	group string
	// asn is 0 for a router that names it itself; external says that it must not be the speaker's own.
	asn      uint32
	external bool
	// localASN is the speaker's autonomous system for this router; 0 for the speaker's own.
	localASN uint32
	port     int32
	// minTTL is the least TTL of packets from the router; 0 for any.
	minTTL     int32
	password   string
	multihop   int32
	source     netip.Addr
	ipv4, ipv6 bool
}

// timers are in seconds, but for those of BFD, which are in microseconds. The hold time is agreed on when a session begins, so
// another one waits for the next session.
type timers struct {
	hold, keepalive, connectRetry          uint64
	bfd                                    bool
	bfdTransmit, bfdReceive, bfdMultiplier uint32
}

// neighborPlan is how to get from the present routers to the wanted ones.
type neighborPlan struct {
	// remove and add end and begin sessions; a router that is in both gets a new one.
	remove, add []neighbor
	// update changes what does not need another session.
	update []neighbor
	// resend are the routers that have to be sent everything again, in the same session, with other attributes.
	resend []neighbor
	// policy says that the attributes of some router changed.
	policy bool
}

// planNeighbors compares the present routers with the wanted ones, by address. The plan is in the order of addresses.
func planNeighbors(have, want map[netip.Addr]neighbor) neighborPlan {
	var plan neighborPlan
	all := maps.Clone(want)
	maps.Copy(all, have)
	for _, addr := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		before, had := have[addr]
		after, wanted := want[addr]
		plan.policy = plan.policy || before.attributes != after.attributes
		switch {
		case !wanted:
			plan.remove = append(plan.remove, before)
		case !had:
			plan.add = append(plan.add, after)
		case before.session != after.session:
			plan.remove, plan.add = append(plan.remove, before), append(plan.add, after)
		default:
			if before.timers != after.timers {
				plan.update = append(plan.update, after)
			}
			if before.attributes != after.attributes {
				plan.resend = append(plan.resend, after)
			}
		}
	}
	return plan
}
