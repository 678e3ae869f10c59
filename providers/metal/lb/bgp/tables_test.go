package bgp_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

var (
	onlyFRR, onlyBIRD = netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("198.51.100.0/24")
	forFRR            = routing.Attributes{LocalPreference: 150, Communities: "64512:1 64512:7:8"}
	forBIRD           = routing.Attributes{LocalPreference: 100, Communities: "64512:2"}
)

// apart returns a configuration in which BIRD is in a group of its own, and FRR in that without a name.
func apart() config.BGP {
	bird := birdPeer
	bird.NextHopSubnets = []string{"10.77.0.0/16"}
	return section(frrPeer, bird)
}

// grouped returns a table that says other things to FRR than to BIRD.
func grouped(frr, bird routing.Table) routing.Table {
	wanted := routing.Table{}
	for group, part := range map[string]routing.Table{"": frr, birdAddr.String(): bird} {
		for prefix, route := range part {
			one, known := wanted[prefix]
			if !known {
				one = routing.Route{Prefix: prefix, Kind: route.Kind, Pool: route.Pool, Groups: map[string]routing.Hops{}}
			}
			with := forFRR
			if group != "" {
				with = forBIRD
			}
			one.Groups[group] = routing.Hops{NextHops: route.NextHops, Attributes: slices.Repeat([]routing.Attributes{with}, len(route.NextHops))}
			wanted[prefix] = one
		}
	}
	return wanted
}

// of returns a table of services on some nodes with one more destination.
func of(more netip.Prefix, nodes ...int) routing.Table {
	wanted := services(nodes...)
	add(wanted, more, "public", nodes...)
	return wanted
}

func TestRoutersOfTwoGroups(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	frr, bird := of(onlyFRR, 0, 1, 2), of(onlyBIRD, 5, 6)
	p := startSpeaker(t, l.speaker, l.dir, apart())
	p.announce(t, grouped(frr, bird))
	l.routerConverges(t, l.frr, "begin", frr)
	l.routerConverges(t, l.bird, "begin", bird)
	l.haveAttributes(t)
	for name, paths := range map[string]int{"frr": 7, "bird": 5} {
		if v4 := up(t, p, "frr", "bird")[name].Families[0]; v4.Prefixes != 3 || v4.Paths != paths || !v4.AddPath {
			t.Errorf("%s was announced %+v, want 3 prefixes and %d paths", name, v4, paths)
		}
	}
	events := l.frr.Monitor(t)
	for _, nodes := range [][]int{{5, 7}, {8}, {9, 10, 11}, {9}} {
		bird = of(onlyBIRD, nodes...)
		p.announce(t, grouped(frr, bird))
		l.routerConverges(t, l.bird, fmt.Sprint("BIRD by ", nodes), bird)
	}
	l.haveAttributes(t)
	if changed := events.Events(t, "192.0.2.", "2001:db8"); len(changed) > 0 {
		t.Errorf("what BIRD is announced has changed, and so did the routes of FRR: %v", changed)
	}

	bird = services()
	delete(bird, v4Service)
	delete(bird, v6Service)
	frr = of(onlyFRR, 3)
	p.announce(t, grouped(frr, bird))
	l.routerConverges(t, l.frr, "all next hops of FRR move", frr)
	l.routerConverges(t, l.bird, "only pods", bird)
	p.stop(t, bgp.Withdraw)
	l.converges(t, "stopped", nil)
}

// haveAttributes waits until each router has the attributes that are for it, and not those for the other one.
func (l *fixture) haveAttributes(t *testing.T) {
	t.Helper()
	poll.Until(t, "each router has its attributes", func(context.Context) error {
		for _, path := range pathsOf(t, l.frr, v4Service) {
			if path.Community.String != "64512:1" || path.Large.String != "64512:7:8" || path.LocPrf != 150 {
				return fmt.Errorf("FRR: %+v", path)
			}
		}
		for _, prefix := range []netip.Prefix{v4Service, v6Service} {
			shown := l.bird.Show(t, "show route all for "+prefix.Addr().String())
			if !strings.Contains(shown, "(64512,2)") || strings.Contains(shown, "(64512,1)") || strings.Contains(shown, "ext_community") {
				return fmt.Errorf("BIRD: %s", shown)
			}
		}
		return nil
	})
}

// TestGroupsWithoutAddPath is why groups have tables of their own: the best of all paths is of one group, and the routers of the
// others get the best one of theirs.
func TestGroupsWithoutAddPath(t *testing.T) {
	l := enter(t, func(n *router.Neighbor) { n.NoAddPath = true })
	if l == nil {
		return
	}
	p := startSpeaker(t, l.speaker, l.dir, apart())
	has := func(r *router.Router, nodes ...int) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("%s has one of %v", r.Kind, nodes), func(context.Context) error {
			for _, prefix := range []netip.Prefix{v4Service, v6Service} {
				hops := r.FIB(t)[prefix]
				if len(hops) != 1 || !slices.ContainsFunc(nodes, func(i int) bool { return hops[0] == node4(i) || hops[0] == node6(i) }) {
					return fmt.Errorf("%s: %v", prefix, hops)
				}
			}
			return nil
		})
	}
	for _, step := range []struct{ frr, bird []int }{
		{[]int{0, 1}, []int{5, 6}}, {[]int{7, 8}, []int{2, 3}}, {[]int{7}, []int{2}}, {[]int{4}, []int{2}}, {[]int{4}, []int{9}},
	} {
		p.announce(t, grouped(services(step.frr...), services(step.bird...)))
		has(l.frr, step.frr...)
		has(l.bird, step.bird...)
	}
	if bird := services(); len(bird) > 0 {
		bird = routing.Table{podCIDR: bird[podCIDR]}
		p.announce(t, grouped(services(4), bird))
		l.routerConverges(t, l.bird, "only pods", bird)
		has(l.frr, 4)
	}
}

// TestRouterChangesItsGroup moves BIRD to a group of its own and back, and to other attributes within it.
func TestRouterChangesItsGroup(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	wanted := services(0, 1)
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	p.announce(t, wanted)
	l.converges(t, "one group", wanted)
	begun := time.Now()
	events := l.frr.Monitor(t)

	bird := of(onlyBIRD, 5, 6)
	parted := grouped(wanted, bird)
	for prefix := range wanted { // FRR is announced what it was
		plain := slices.Repeat([]routing.Attributes{{LocalPreference: 100}}, len(wanted[prefix].NextHops))
		parted[prefix].Groups[""] = routing.Hops{NextHops: wanted[prefix].NextHops, Attributes: plain}
	}
	p.change(t, apart())
	p.announce(t, parted)
	l.routerConverges(t, l.bird, "a group of its own", bird)
	marked := apart()
	marked.Peers[1].LocalPreference = ptr.To(uint32(7))
	p.change(t, marked)
	if flaps := up(t, p, "frr", "bird")["bird"].Flaps; flaps != 1 {
		t.Errorf("the session with BIRD was reset %d times, want once, for the other table", flaps)
	}
	l.routerConverges(t, l.bird, "other attributes", bird)

	p.change(t, section(frrPeer, birdPeer))
	p.announce(t, wanted)
	l.converges(t, "one group again", wanted)
	if changed := events.Changes(t, begun, "Deleted"); len(changed) > 0 {
		t.Errorf("BIRD changed its group, and FRR was without routes %d times", len(changed))
	}
	if status := up(t, p, "frr", "bird"); status["frr"].Flaps != 0 {
		t.Errorf("BIRD changed its group, and the session with FRR was reset: %+v", status["frr"])
	}
	p.stop(t, bgp.Withdraw)
}
