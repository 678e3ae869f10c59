package bgp_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

const (
	// internal is the autonomous system of the speakers and of FRR. BIRD has external.
	internal, external = 64512, 64513
)

var (
	frrAddr, birdAddr    = netip.MustParseAddr("10.77.0.1"), netip.MustParseAddr("10.77.0.2")
	speakerAddr, another = netip.MustParseAddr("10.77.0.11"), netip.MustParseAddr("10.77.0.12")
	v4Service, v6Service = netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::1/128")
	podCIDR              = netip.MustParsePrefix("10.200.1.0/24")
)

// node returns the address of a node.
func node4(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(1 + i/250), byte(1 + i%250)})
}
func node6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:77::1:%x", i+1)) }

// add adds a destination with next hops in this order of their numbers.
func add(t routing.Table, prefix netip.Prefix, pool string, nodes ...int) {
	r := routing.Route{Prefix: prefix, Kind: routing.ServiceAddress, Pool: pool}
	if pool == "" {
		r.Kind = routing.PodCIDR
	}
	for _, i := range nodes {
		if prefix.Addr().Is4() {
			r.NextHops = append(r.NextHops, node4(i))
		} else {
			r.NextHops = append(r.NextHops, node6(i))
		}
	}
	slices.SortFunc(r.NextHops, netip.Addr.Compare)
	t[prefix] = r
}

// services returns a table with a load balancer of both families on some nodes, and the pods of one.
func services(nodes ...int) routing.Table {
	wanted := routing.Table{}
	add(wanted, v4Service, "public", nodes...)
	add(wanted, v6Service, "public", nodes...)
	add(wanted, podCIDR, "", 0)
	return wanted
}

// fib returns what a table is in a router's kernel.
func fib(wanted routing.Table) router.FIB {
	routes := router.FIB{}
	for prefix, r := range wanted {
		routes[prefix] = r.NextHops
	}
	return routes
}

// section returns a configuration with its defaults.
func section(peers ...config.BGPPeer) config.BGP {
	return config.BGP{ASN: internal, ListenPort: -1, Mode: config.ActiveActive, Peers: peers}
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

// peer returns the configuration of a router with its defaults.
func peer(name string, addr netip.Addr, asn uint32) config.BGPPeer {
	return config.BGPPeer{
		Name: name, Address: addr.String(), ASN: asn, Port: 179,
		HoldTime: seconds(9), KeepaliveTime: seconds(3), ConnectRetry: seconds(2),
		Families: []config.AddressFamily{config.IPv4, config.IPv6},
	}
}

var frrPeer, birdPeer = peer("frr", frrAddr, internal), peer("bird", birdAddr, external)

// fixture is a segment with a host for each router and for each speaker.
type fixture struct {
	dir                   string
	segment               *sandbox.Segment
	frr, bird             *router.Router
	speaker, otherSpeaker *sandbox.Host
}

// enter runs the test in a sandbox with both routers, and returns nil outside. The routers have both speakers as neighbors.
func enter(t *testing.T, change func(*router.Neighbor)) *fixture {
	t.Helper()
	if !sandbox.Inside() {
		t.Parallel()
		sandbox.Require(t, router.Programs(router.FRR, router.BIRD)...)
		sandbox.Run(t, sandbox.Options{Timeout: 4 * time.Minute, Dirs: router.Dirs()})
		return nil
	}
	l := &fixture{dir: sandbox.Furnish(t)}
	l.segment = sandbox.NewSegment(t)
	host := func(name string, addr netip.Addr) *sandbox.Host {
		bytes := addr.As4()
		return l.segment.NewHost(t, name, netip.PrefixFrom(addr, 16), netip.MustParsePrefix(fmt.Sprintf("fd00:77::%d/64", bytes[3])))
	}
	l.speaker, l.otherSpeaker = host("speaker", speakerAddr), host("other", another)
	neighbors := []router.Neighbor{{Address: speakerAddr, ASN: internal}, {Address: another, ASN: internal}}
	for i := range neighbors {
		change(&neighbors[i])
	}
	l.frr = router.Start(t, router.FRR, host("frr", frrAddr), l.dir,
		router.Config{ASN: internal, RouterID: frrAddr, Neighbors: neighbors})
	l.bird = router.Start(t, router.BIRD, host("bird", birdAddr), l.dir,
		router.Config{ASN: external, RouterID: birdAddr, Neighbors: neighbors})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("FRR:\n%s\nBIRD:\n%s", tail(l.frr.Log()), tail(l.bird.Log()))
		}
	})
	return l
}

func tail(log string) string { return log[max(0, len(log)-4000):] }

// plainly leaves a neighbor as it is.
func plainly(*router.Neighbor) {}

// converges waits until both routers have a table in their kernels, and logs how long each took.
func (l *fixture) converges(t *testing.T, what string, wanted routing.Table) {
	t.Helper()
	l.both(t, what+": in the kernel", time.Now(), func(r *router.Router) error { return holds(t, r, wanted) })
}

// routerConverges waits until one router has a table in its kernel.
func (l *fixture) routerConverges(t *testing.T, r *router.Router, what string, wanted routing.Table) time.Duration {
	t.Helper()
	return poll.Until(t, fmt.Sprintf("%s: %s has the routes", what, r.Kind), func(context.Context) error {
		return holds(t, r, wanted)
	})
}

// holds says what else than a table a router has in its kernel.
func holds(t *testing.T, r *router.Router, wanted routing.Table) error {
	t.Helper()
	if got := r.FIB(t); !got.Equal(fib(wanted)) {
		return fmt.Errorf("its kernel has %v, want %v", got, fib(wanted))
	}
	return nil
}

// both waits until check returns nil for both routers, and logs how long after begun that was for each. They are looked at in
// turn, so neither waits for the other one.
func (l *fixture) both(t *testing.T, what string, begun time.Time, check func(*router.Router) error) {
	t.Helper()
	took := map[router.Kind]time.Duration{}
	poll.Until(t, what+", of both routers", func(context.Context) error {
		var waits error
		for _, r := range []*router.Router{l.frr, l.bird} {
			if _, done := took[r.Kind]; done {
				continue
			}
			if err := check(r); err != nil {
				waits = fmt.Errorf("%s: %w", r.Kind, err)
				continue
			}
			took[r.Kind] = since(begun)
		}
		return waits
	})
	t.Logf("%s: FRR after %s, BIRD after %s", what, took[router.FRR], took[router.BIRD])
}

func since(begun time.Time) time.Duration { return time.Since(begun).Round(time.Millisecond) }

// up waits until the sessions with these routers are up.
func up(t *testing.T, p *process, names ...string) map[string]bgp.PeerStatus {
	t.Helper()
	var peers map[string]bgp.PeerStatus
	poll.Until(t, fmt.Sprintf("the sessions with %v are up", names), func(context.Context) error {
		peers = p.peers(t)
		for _, name := range names {
			if !peers[name].Up() {
				return fmt.Errorf("%+v", peers[name])
			}
		}
		return nil
	})
	return peers
}

func TestRoutes(t *testing.T) {
	l := enter(t, func(n *router.Neighbor) { n.Announce = true })
	if l == nil {
		return
	}
	// FRR tells the speaker of a network of its own. BIRD would hear of it, did the speaker learn anything.
	sandbox.Command(t, append(l.frr.Host.Args(), "ip", "address", "add", "203.0.113.1/32", "dev", "lo")...)
	wanted := services(0, 1, 2)
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	p.announce(t, wanted)
	l.converges(t, "begin", wanted)
	poll.Until(t, "FRR tells the speaker of its network", func(context.Context) error {
		shown := l.frr.Show(t, "show bgp ipv4 unicast neighbors "+speakerAddr.String()+" advertised-routes")
		if !strings.Contains(shown, "203.0.113.1/32") {
			return errors.New(shown)
		}
		return nil
	})
	for name, status := range up(t, p, "frr", "bird") {
		want := []bgp.FamilyStatus{
			{Family: config.IPv4, Negotiated: true, AddPath: true, Prefixes: 2, Paths: 4},
			{Family: config.IPv6, Negotiated: true, AddPath: true, Prefixes: 1, Paths: 3},
		}
		if !slices.Equal(status.Families, want) || len(status.Problems) > 0 || status.Flaps != 0 {
			t.Errorf("%s: %+v", name, status)
		}
	}
	for _, step := range []struct {
		what   string
		wanted routing.Table
	}{
		{"a next hop less", services(0, 2)},
		{"a next hop moves", services(0, 3)},
		{"all move", services(4, 5, 6)},
		{"eight", services(0, 1, 2, 3, 4, 5, 6, 7)},
	} {
		p.announce(t, step.wanted)
		l.converges(t, step.what, step.wanted)
	}
	before := p.peers(t)["frr"].UpdatesSent
	p.announce(t, services(0, 1, 2, 3, 4, 5, 6, 8))
	l.converges(t, "one of eight", services(0, 1, 2, 3, 4, 5, 6, 8))
	if sent := p.peers(t)["frr"].UpdatesSent - before; sent > 4 {
		t.Errorf("one next hop of two destinations moved, and %d messages were sent; want an addition and a withdrawal for each", sent)
	}
	p.announce(t, routing.Table{})
	l.converges(t, "nothing", routing.Table{})
	p.announce(t, wanted)
	l.converges(t, "again", wanted)
	p.stop(t, bgp.Withdraw)
	l.converges(t, "stopped", routing.Table{})
}

// TestMakeBeforeBreak moves the only next hop of destinations to and fro: no kernel is without a route to them in between.
func TestMakeBeforeBreak(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	only := func(node int) routing.Table {
		wanted := routing.Table{}
		for i := range 20 {
			add(wanted, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32), "public", node)
		}
		return wanted
	}
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	p.announce(t, only(0))
	l.converges(t, "begin", only(0))
	monitors := map[router.Kind]*router.Monitor{router.FRR: l.frr.Monitor(t), router.BIRD: l.bird.Monitor(t)}
	for i := range 20 {
		p.announce(t, only(i%2+1))
		l.converges(t, "moved", only(i%2+1))
	}
	for kind, monitor := range monitors {
		if events := monitor.Events(t, "192.0.2."); len(events) < 20*20 {
			t.Errorf("%s: %d events, and 400 routes changed", kind, len(events))
		}
		if gone := monitor.Events(t, "Deleted"); len(gone) > 0 {
			t.Errorf("%s: destinations were without a route %d times, for example: %s", kind, len(gone), gone[0])
		}
	}
}
