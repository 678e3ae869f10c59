package bgp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

var (
	one   = netip.MustParseAddr("10.0.0.1")
	two   = netip.MustParseAddr("10.0.0.2")
	three = netip.MustParseAddr("10.0.0.3")
	// service is the address of a load balancer.
	service = netip.MustParsePrefix("192.0.2.1/32")
)

func route(prefix netip.Prefix, pool string, nextHops ...netip.Addr) routing.Route {
	return routing.Route{Prefix: prefix, NextHops: nextHops, Kind: routing.ServiceAddress, Pool: pool}
}

func plain(string) string { return "" }

// addresses compares netip types, whose fields are not exported.
var addresses = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})}

// run does to a router's table what a plan says, path by path, and fails when a destination that has paths before and after
// has none in between.
func run(t rapid.TB, paths map[netip.Prefix]map[uint32]netip.Addr, announced map[netip.Prefix]destination, steps []step) {
	for _, s := range steps {
		for _, p := range s.add {
			if paths[p.prefix] == nil {
				paths[p.prefix] = map[uint32]netip.Addr{}
			}
			if was, taken := paths[p.prefix][p.hop.id]; taken && was != p.hop.addr {
				t.Fatalf("%s: the path to %s takes the number of the one to %s", p.prefix, p.hop.addr, was)
			}
			paths[p.prefix][p.hop.id] = p.hop.addr
		}
		for _, p := range s.withdraw {
			if paths[p.prefix][p.hop.id] != p.hop.addr {
				t.Fatalf("%s: withdraws %d to %s, of %v", p.prefix, p.hop.id, p.hop.addr, paths[p.prefix])
			}
			delete(paths[p.prefix], p.hop.id)
			if len(paths[p.prefix]) == 0 {
				if len(s.after[p.prefix].hops) > 0 {
					t.Fatalf("%s: is without a path on the way to %v", p.prefix, s.after[p.prefix])
				}
				delete(paths, p.prefix)
			}
		}
		for prefix, after := range s.after {
			if len(after.hops) == 0 {
				delete(announced, prefix)
			} else {
				announced[prefix] = after
			}
		}
	}
}

// drawTable draws tables of a few destinations and next hops, so they meet.
func drawTable(t *rapid.T, label string) routing.Table {
	drawn := routing.Table{}
	for i := range rapid.IntRange(0, 6).Draw(t, label+" destinations") {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32)
		hops := rapid.SliceOfNDistinct(rapid.IntRange(1, 9), 1, 6, rapid.ID).Draw(t, label+" next hops")
		slices.Sort(hops)
		r := route(prefix, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, label+" pool"))
		for _, hop := range hops {
			r.NextHops = append(r.NextHops, netip.AddrFrom4([4]byte{10, 0, 0, byte(hop)}))
		}
		r.Uncertain = rapid.Bool().Draw(t, label+" uncertain")
		drawn[prefix] = r
	}
	return drawn
}

func TestPlanRoutesReachesTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		announced := map[netip.Prefix]destination{}
		paths := map[netip.Prefix]map[uint32]netip.Addr{}
		for i := range 4 {
			want := drawTable(t, fmt.Sprint(i))
			policy := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "attributes")
			attributes := func(pool string) string { return pool + policy }
			ids := map[netip.Prefix]map[netip.Addr]uint32{}
			for prefix, d := range announced {
				ids[prefix] = map[netip.Addr]uint32{}
				for _, hop := range d.hops {
					ids[prefix][hop.addr] = hop.id
				}
			}
			run(t, paths, announced, planRoutes(announced, want, attributes))
			got := map[netip.Prefix][]netip.Addr{}
			for prefix, byID := range paths {
				got[prefix] = slices.SortedFunc(maps.Values(byID), netip.Addr.Compare)
				for _, hop := range announced[prefix].hops {
					if before, had := ids[prefix][hop.addr]; had && before != hop.id {
						t.Fatalf("%s: the number of the path to %s was %d and is %d", prefix, hop.addr, before, hop.id)
					}
				}
			}
			wanted := map[netip.Prefix][]netip.Addr{}
			for prefix, r := range want {
				wanted[prefix] = r.NextHops
			}
			if diff := cmp.Diff(wanted, got, addresses); diff != "" {
				t.Fatalf("the router's table (-want +got):\n%s", diff)
			}
			if again := planRoutes(announced, want, attributes); len(again) != 0 {
				t.Fatalf("planning over the result plans %v", again)
			}
		}
	})
}

func TestPlanRoutes(t *testing.T) {
	announced := map[netip.Prefix]destination{service: {hops: []hop{{one, 1}, {two, 2}}}}
	other := netip.MustParsePrefix("192.0.2.0/32")
	for name, test := range map[string]struct {
		want       routing.Table
		attributes func(string) string
		steps      []step
	}{
		"nothing new": {want: routing.Table{service: route(service, "", one, two)}, attributes: plain},
		"a next hop moves": {
			want: routing.Table{service: route(service, "", one, three)}, attributes: plain,
			steps: []step{{
				add:      []path{{prefix: service, hop: hop{three, 3}}},
				withdraw: []path{{prefix: service, hop: hop{two, 2}}},
				after:    map[netip.Prefix]destination{service: {hops: []hop{{one, 1}, {three, 3}}}},
			}},
		},
		"the only next hops move": {
			want: routing.Table{service: route(service, "", three)}, attributes: plain,
			steps: []step{{
				add:      []path{{prefix: service, hop: hop{three, 3}}},
				withdraw: []path{{prefix: service, hop: hop{one, 1}}, {prefix: service, hop: hop{two, 2}}},
				moves:    true,
				after:    map[netip.Prefix]destination{service: {hops: []hop{{three, 3}}}},
			}},
		},
		"no replica checks whether the next hops work": {
			want: func() routing.Table {
				r := route(service, "", one, three)
				r.Uncertain = true
				return routing.Table{service: r}
			}(), attributes: plain,
			steps: []step{{
				add:      []path{{prefix: service, hop: hop{one, 1}, uncertain: true}, {prefix: service, hop: hop{three, 3}, uncertain: true}},
				withdraw: []path{{prefix: service, hop: hop{two, 2}}},
				after:    map[netip.Prefix]destination{service: {hops: []hop{{one, 1}, {three, 3}}, uncertain: true}},
			}},
		},
		"other attributes": {
			want: routing.Table{service: route(service, "", one, two)}, attributes: func(string) string { return "x" },
			steps: []step{{
				add:   []path{{prefix: service, hop: hop{one, 1}}, {prefix: service, hop: hop{two, 2}}},
				after: map[netip.Prefix]destination{service: {hops: []hop{{one, 1}, {two, 2}}, attributes: "x"}},
			}},
		},
		"who loses a next hop comes first": {
			want: routing.Table{service: route(service, "", one), other: route(other, "", two)}, attributes: plain,
			steps: []step{{
				add:      []path{{prefix: other, hop: hop{two, 1}}},
				withdraw: []path{{prefix: service, hop: hop{two, 2}}},
				after:    map[netip.Prefix]destination{service: {hops: []hop{{one, 1}}}, other: {hops: []hop{{two, 1}}}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := planRoutes(announced, test.want, test.attributes)
			if diff := cmp.Diff(test.steps, got, cmp.AllowUnexported(step{}, path{}, hop{}, destination{}, ownAttributes{}), addresses); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanRoutesLosersInTheFirstStep(t *testing.T) {
	announced := map[netip.Prefix]destination{service: {hops: []hop{{one, 1}, {two, 2}}}}
	want := routing.Table{service: route(service, "", one)}
	for i := range 2 * stepDestinations {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)}), 32)
		want[prefix] = route(prefix, "", one)
	}
	steps := planRoutes(announced, want, plain)
	if len(steps) != 3 || len(steps[0].withdraw) != 1 {
		t.Errorf("%d steps, of which the first withdraws %v; want 3, and the loss in the first", len(steps), steps[0].withdraw)
	}
}

func TestPlanRoutesLeavesOut(t *testing.T) {
	r := route(service, "")
	for i := range 200 {
		r.NextHops = append(r.NextHops, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}))
	}
	after := planRoutes(nil, routing.Table{service: r}, plain)[0].after[service]
	if len(after.hops) != maxNextHops || after.leftOut != 200-maxNextHops {
		t.Errorf("%d next hops are announced and %d left out", len(after.hops), after.leftOut)
	}
	if moved := 2 * maxNextHops; moved > sendMax {
		t.Errorf("while all next hops move there are %d, and the library sends %d", moved, sendMax)
	}
}

func TestPlanNeighbors(t *testing.T) {
	n := func(addr netip.Addr, change func(*neighbor)) neighbor {
		made := neighbor{name: addr.String(), addr: addr, session: session{asn: 64512, port: 179}, timers: timers{hold: 9}}
		change(&made)
		return made
	}
	first, second := n(one, func(*neighbor) {}), n(two, func(*neighbor) {})
	password := n(one, func(n *neighbor) { n.session.password = "another" })
	slower := n(one, func(n *neighbor) { n.timers.hold = 90 })
	marked := n(one, func(n *neighbor) { n.attributes = "65000:1" })
	for name, test := range map[string]struct {
		have, want []neighbor
		plan       neighborPlan
	}{
		"nothing new": {have: []neighbor{first}, want: []neighbor{first}},
		"another router": {
			have: []neighbor{first}, want: []neighbor{first, second}, plan: neighborPlan{add: []neighbor{second}},
		},
		"one fewer": {
			have: []neighbor{first, second}, want: []neighbor{first}, plan: neighborPlan{remove: []neighbor{second}},
		},
		"other password": {
			have: []neighbor{first}, want: []neighbor{password}, plan: neighborPlan{remove: []neighbor{first}, add: []neighbor{password}},
		},
		"timers": {have: []neighbor{first}, want: []neighbor{slower}, plan: neighborPlan{update: []neighbor{slower}}},
		"attributes": {
			have: []neighbor{first}, want: []neighbor{marked}, plan: neighborPlan{resend: []neighbor{marked}, policy: true},
		},
		"marked and new":  {want: []neighbor{marked}, plan: neighborPlan{add: []neighbor{marked}, policy: true}},
		"marked and gone": {have: []neighbor{marked}, plan: neighborPlan{remove: []neighbor{marked}, policy: true}},
	} {
		t.Run(name, func(t *testing.T) {
			byAddr := func(neighbors []neighbor) map[netip.Addr]neighbor {
				all := map[netip.Addr]neighbor{}
				for _, n := range neighbors {
					all[n.addr] = n
				}
				return all
			}
			got := planNeighbors(byAddr(test.have), byAddr(test.want))
			fields := cmp.AllowUnexported(neighborPlan{}, neighbor{}, session{}, timers{})
			if diff := cmp.Diff(test.plan, got, fields, addresses); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func BenchmarkPlanOneChange(b *testing.B) {
	want := routing.Table{}
	for i := range 10_000 {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)}), 32)
		want[prefix] = route(prefix, "", one, two, three)
	}
	announced := map[netip.Prefix]destination{}
	for _, s := range planRoutes(nil, want, plain) {
		maps.Copy(announced, s.after)
	}
	changed := netip.MustParsePrefix("100.64.7.7/32")
	want[changed] = route(changed, "", one, two)
	for b.Loop() {
		if steps := planRoutes(announced, want, plain); len(steps) != 1 {
			b.Fatal(len(steps))
		}
	}
}
