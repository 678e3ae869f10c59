package bgp_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// many returns 20 load balancers of each family on some nodes.
func many(nodes ...int) routing.Table {
	wanted := routing.Table{}
	for i := range 20 {
		add(wanted, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32), "public", nodes...)
		add(wanted, netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)), 128), "public", nodes...)
	}
	return wanted
}

// preferred returns the next hop with the highest hash together with the destination, by which everybody prefers the same one.
func preferred(route routing.Route) (best netip.Addr) {
	most := uint64(0)
	prefix := route.Prefix.Addr().As16()
	for _, addr := range route.NextHops {
		hop := addr.As16()
		if score := routing.Hash(string(prefix[:]) + string(byte(route.Prefix.Bits())) + string(hop[:])); score >= most {
			best, most = addr, score
		}
	}
	return best
}

// one waits until a router has one next hop of each destination, which is one of those wanted, and returns them.
func one(t *testing.T, r *router.Router, what string, wanted routing.Table) map[netip.Prefix]netip.Addr {
	t.Helper()
	var chosen map[netip.Prefix]netip.Addr
	poll.Until(t, what+": FRR has one next hop of each", func(context.Context) error {
		chosen = map[netip.Prefix]netip.Addr{}
		fib := r.FIB(t)
		for prefix, route := range wanted {
			hops := fib[prefix]
			if len(hops) != 1 {
				return fmt.Errorf("%s has %v", prefix, hops)
			}
			found := false
			for _, hop := range route.NextHops {
				found = found || hop == hops[0]
			}
			if !found {
				return fmt.Errorf("%s is sent to %s, which is none of %v", prefix, hops[0], route.NextHops)
			}
			chosen[prefix] = hops[0]
		}
		return nil
	})
	return chosen
}

// TestSpreadWithoutAddPath has a router without ADD-PATH beside one with it. The first one spreads destinations over nodes, and each replica
// chooses the same node; the second one has all next hops.
func TestSpreadWithoutAddPath(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	neighbors := []router.Neighbor{{Address: speakerAddr, ASN: internal, NoAddPath: true}, {Address: another, ASN: internal, NoAddPath: true}}
	l.frr.Configure(t, router.Config{ASN: internal, RouterID: frrAddr, Neighbors: neighbors})
	l.frr.Restart(t)
	all := many(0, 1, 2, 3, 4)
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	// The table grows, as when nodes join one after the other.
	p.announce(t, many(4))
	up(t, p, "frr", "bird")
	one(t, l.frr, "one node", many(4))
	p.announce(t, many(3, 4))
	two := many(3, 4)
	settles(t, l.frr, "two nodes", two, func(prefix netip.Prefix, hop netip.Addr) bool { return hop == preferred(two[prefix]) })
	p.announce(t, all)
	l.routerConverges(t, l.bird, "with ADD-PATH", all)
	begin := settles(t, l.frr, "all nodes", all, func(prefix netip.Prefix, hop netip.Addr) bool { return hop == preferred(all[prefix]) })
	load := map[netip.Addr]int{}
	for _, hop := range begin {
		load[hop]++
	}
	if len(load) != 10 {
		t.Errorf("40 destinations of two families are sent to %d addresses of 5 nodes: %v", len(load), load)
	}

	// Another replica prefers the same.
	second := startSpeaker(t, l.otherSpeaker, l.dir, section(frrPeer, birdPeer))
	second.announce(t, all)
	up(t, second, "frr", "bird")
	for name, speaker := range map[string]netip.Addr{"first": speakerAddr, "second": another} {
		poll.Until(t, "FRR receives the same of the "+name+" replica", func(context.Context) error {
			for prefix, hop := range begin {
				if prefix.Addr().Is6() {
					continue
				}
				if got := received(t, l.frr, prefix, speaker); got != hop.String() {
					return fmt.Errorf("%s by %q, want %s", prefix, got, hop)
				}
			}
			return nil
		})
	}

	// A node goes: only what it had moves, and comes back with it.
	without := many(0, 1, 3, 4)
	for _, replica := range []*process{p, second} {
		replica.announce(t, without)
	}
	after := settles(t, l.frr, "a node less", without, func(prefix netip.Prefix, hop netip.Addr) bool {
		return begin[prefix] == node4(2) || begin[prefix] == node6(2) || begin[prefix] == hop
	})
	moved := 0
	for prefix := range after {
		if after[prefix] != begin[prefix] {
			moved++
		}
	}
	if moved == 0 {
		t.Error("nothing was sent to the node that went")
	}
	for _, replica := range []*process{second, p} {
		replica.announce(t, all)
	}
	settles(t, l.frr, "the node is back", all, func(prefix netip.Prefix, hop netip.Addr) bool { return begin[prefix] == hop })
	l.routerConverges(t, l.bird, "with ADD-PATH in the end", all)
}

// TestRapidChangesWithoutAddPath has the best path of each destination change again and again, faster than it can be sent. A router without
// ADD-PATH has the last one in the end.
func TestRapidChangesWithoutAddPath(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	neighbors := []router.Neighbor{{Address: speakerAddr, ASN: internal, NoAddPath: true}}
	l.frr.Configure(t, router.Config{ASN: internal, RouterID: frrAddr, Neighbors: neighbors})
	l.frr.Restart(t)
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	p.announce(t, many(0))
	up(t, p, "frr", "bird")
	one(t, l.frr, "one node", many(0))
	for range 3 {
		for _, nodes := range [][]int{{0, 1, 2, 3, 4}, {1, 4}, {2, 4}, {0, 2, 3, 4}, {0, 3}, {1, 2}} {
			p.announce(t, many(nodes...))
		}
		last := many(1, 2)
		settles(t, l.frr, "the last table", last, func(prefix netip.Prefix, hop netip.Addr) bool { return hop == preferred(last[prefix]) })
		l.routerConverges(t, l.bird, "with ADD-PATH", last)
	}
}

// settles waits until the router has one next hop of each destination, as it should be, and as its best paths say.
func settles(t *testing.T, r *router.Router, what string, wanted routing.Table, right func(netip.Prefix, netip.Addr) bool) map[netip.Prefix]netip.Addr {
	t.Helper()
	var chosen map[netip.Prefix]netip.Addr
	poll.Until(t, what+": each destination is sent where it should be", func(context.Context) error {
		chosen = one(t, r, what, wanted)
		for prefix, hop := range chosen {
			if !right(prefix, hop) {
				return fmt.Errorf("%s is sent to %s", prefix, hop)
			}
		}
		return nil
	})
	return chosen
}

// received returns the next hop that FRR has from a replica for a destination.
func received(t *testing.T, r *router.Router, prefix netip.Prefix, from netip.Addr) string {
	t.Helper()
	for _, path := range pathsOf(t, r, prefix) {
		if path.Peer.PeerID == from.String() && len(path.NextHops) == 1 {
			return path.NextHops[0].IP
		}
	}
	return ""
}
