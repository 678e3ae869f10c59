package bgp_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// scaleVariable says how many load balancers the tests have that can be large.
const scaleVariable = "MOORING_BGP_SCALE"

// fleet is a large table.
type fleet struct {
	services, nodes int
}

// nextHops is how many each load balancer has.
const nextHops = 8

// table returns load balancers with eight next hops each, and an IPv4 and an IPv6 range of pod addresses for each node.
func (f fleet) table() routing.Table {
	wanted := routing.Table{}
	for i := range f.services {
		add(wanted, f.service(i), "public", f.hops(i)...)
	}
	for i := range f.nodes {
		add(wanted, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(200 + i>>8), byte(i), 0}), 24), "", i)
		add(wanted, netip.MustParsePrefix(fmt.Sprintf("2001:db8:1:%x::/64", i)), "", i)
	}
	return wanted
}

func (f fleet) service(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)}), 32)
}

func (f fleet) hops(i int) []int {
	hops := make([]int, nextHops)
	for n := range hops {
		hops[n] = (i*7 + n*f.nodes/nextHops) % f.nodes
	}
	return hops
}

// scale returns the fleet that the variable asks for, or else the one of every run.
func scale(t *testing.T, usual fleet) fleet {
	t.Helper()
	asked := os.Getenv(scaleVariable)
	if asked == "" {
		return usual
	}
	services, err := strconv.Atoi(asked)
	if err != nil {
		t.Fatal(err)
	}
	return fleet{services: services, nodes: services / 5}
}

// TestScale measures a large table, and asserts what does not depend on the machine: everything arrives, and a single change
// is a few messages.
func TestScale(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	f := scale(t, fleet{services: 500, nodes: 100})
	wanted := f.table()
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	p.announce(t, wanted)
	t.Logf("%d load balancers with %d next hops each, %d ranges of pod addresses, to two routers", f.services, nextHops, 2*f.nodes)
	begun := time.Now()
	up(t, p, "frr", "bird")
	t.Logf("sessions up %s after the table was handed over", since(begun))
	received := time.Now()
	l.both(t, "all paths received", received, func(r *router.Router) error { return l.received(t, r, f) })
	l.both(t, "all in the kernel", received, func(r *router.Router) error { return holds(t, r, wanted) })
	t.Logf("processor time of the speaker until then: %s", cpu(t, p.cmd.Process.Pid))
	f.oneChange(t, l, p, wanted)
	f.nodeFails(t, l, p)
	t.Logf("processor time of the speaker in all: %s", cpu(t, p.cmd.Process.Pid))
	t.Logf("memory in use by the speaker: %d MiB heap, %s resident", p.peersAnswer(t).Heap>>20, resident(t, p.cmd.Process.Pid))
	p.stop(t, bgp.Withdraw)
}

// received says what a router is still to receive. FRR counts paths, BIRD counts both families in one line each.
func (l *fixture) received(t *testing.T, r *router.Router, f fleet) error {
	t.Helper()
	v4, v6 := f.services*nextHops+f.nodes, f.nodes
	if r.Kind == router.FRR {
		for family, want := range map[string]int{"ipv4": v4, "ipv6": v6} {
			if shown := r.Show(t, "show bgp "+family+" unicast summary json"); !strings.Contains(shown, fmt.Sprintf(`"pfxRcd":%d,`, want)) {
				return fmt.Errorf("%s: want %d paths", family, want)
			}
		}
		return nil
	}
	shown := r.Show(t, "show protocols all neighbor0")
	for _, want := range []int{v4, v6} {
		if !strings.Contains(shown, fmt.Sprintf(" %d imported", want)) {
			return fmt.Errorf("want %d routes: %s", want, shown)
		}
	}
	return nil
}

// oneChange moves one next hop of one load balancer.
func (f fleet) oneChange(t *testing.T, l *fixture, p *process, wanted routing.Table) {
	t.Helper()
	before := p.peers(t)["frr"].UpdatesSent
	hops := f.hops(3)
	hops[0]++
	add(wanted, f.service(3), "public", hops...)
	begun := time.Now()
	took := p.announce(t, wanted).Took
	l.both(t, "one next hop moved", begun, func(r *router.Router) error {
		if shown := r.Route(t, f.service(3)); !strings.Contains(shown, node4(hops[0]).String()) {
			return errors.New(shown)
		}
		return nil
	})
	t.Logf("of which the speaker took %s", took.Round(time.Microsecond))
	if sent := p.peers(t)["frr"].UpdatesSent - before; sent > 2 {
		t.Errorf("one next hop moved, and %d messages were sent", sent)
	}
}

// nodeFails takes a node out of everything.
func (f fleet) nodeFails(t *testing.T, l *fixture, p *process) {
	t.Helper()
	const failed = 0
	wanted, changed := f.table(), 0
	for i := range f.services {
		var hops []int
		for _, hop := range f.hops(i) {
			if hop != failed {
				hops = append(hops, hop)
			}
		}
		if len(hops) < nextHops {
			changed++
			add(wanted, f.service(i), "public", hops...)
		}
	}
	before := p.peers(t)["frr"].UpdatesSent
	begun := time.Now()
	p.announce(t, wanted)
	l.both(t, fmt.Sprintf("a node gone from %d load balancers", changed), begun, func(r *router.Router) error {
		return holds(t, r, wanted)
	})
	t.Logf("a node gone from %d load balancers took %d messages", changed, p.peers(t)["frr"].UpdatesSent-before)
}

func (p *process) peersAnswer(t *testing.T) answer {
	t.Helper()
	return p.ask(t, request{Peers: true})
}

// cpu returns how much processor time a process has had, which does not depend on who else wants the processors.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	const ticks = 100 // a second, as the kernel reports to everybody
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name in parentheses may have spaces; utime and stime are the 14th and 15th field of all.
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	var total int
	for _, field := range fields[11:13] {
		spent, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		total += spent
	}
	return time.Duration(total) * time.Second / ticks
}

// resident returns how much memory a process has.
func resident(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "VmRSS:"); found {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
