package bgp_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
)

// watchFor returns a function that fails the test when one of the tables' destinations has changed in a kernel since, of those
// with these addresses.
func (l *fixture) watchFor(t *testing.T, what string, addrs ...netip.Addr) func() {
	t.Helper()
	texts := make([]string, len(addrs))
	for i, addr := range addrs {
		texts[i] = addr.String()
	}
	monitors := map[router.Kind]*router.Monitor{router.FRR: l.frr.Monitor(t), router.BIRD: l.bird.Monitor(t)}
	return func() {
		t.Helper()
		for kind, monitor := range monitors {
			if events := monitor.Events(t, texts...); len(events) > 0 {
				t.Errorf("%s: %d routes of %s changed, among them %q", what, len(events), kind, events[:min(len(events), 10)])
			}
		}
	}
}

// extra is a destination that comes after a restart.
var extra = netip.MustParsePrefix("192.0.2.77/32")

// neighborGone waits until both routers know that the first speaker is gone.
func (l *fixture) neighborGone(t *testing.T) {
	t.Helper()
	poll.Until(t, "FRR and BIRD know that the speaker is gone", func(context.Context) error {
		if shown := l.frr.Show(t, "show bgp neighbors "+speakerAddr.String()); strings.Contains(shown, "BGP state = Established") {
			return errors.New(shown)
		}
		if shown := l.bird.Show(t, "show protocols neighbor0"); strings.Contains(shown, "Established") {
			return errors.New(shown)
		}
		return nil
	})
}

func TestGracefulRestart(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	graceful := section(frrPeer, birdPeer)
	graceful.Mode, graceful.RestartTime = config.GracefulRestart, seconds(60)
	wanted := services(0, 1, 2)
	p := startSpeaker(t, l.speaker, l.dir, graceful)
	p.announce(t, wanted)
	l.converges(t, "begin", wanted)
	up(t, p, "frr", "bird")
	for _, end := range []struct {
		what string
		how  func()
	}{
		{"killed", func() { p.kill(t) }},
		{"stopped gracefully", func() { p.stop(t, bgp.Graceful) }},
	} {
		unchanged := l.watchFor(t, end.what, v4Service.Addr(), v6Service.Addr(), podCIDR.Addr())
		end.how()
		p = startSpeaker(t, l.speaker, l.dir, graceful)
		p.announce(t, wanted)
		up(t, p, "frr", "bird")
		// What the new process says after its beginning comes after End-of-RIB, at which the routers drop what is stale.
		added := services(0, 1, 2)
		add(added, extra, "public", 0)
		p.announce(t, added)
		l.converges(t, end.what+" and back", added)
		unchanged()
		p.announce(t, wanted)
		l.converges(t, end.what+" and settled", wanted)
	}
	p.stop(t, bgp.Withdraw)
	l.converges(t, "withdrawn", nil)
}

func TestActiveActive(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	wanted := services(0, 1, 2)
	start := func() *process {
		p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
		p.announce(t, wanted)
		up(t, p, "frr", "bird")
		return p
	}
	first := start()
	other := startSpeaker(t, l.otherSpeaker, l.dir, section(frrPeer, birdPeer))
	other.announce(t, wanted)
	up(t, other, "frr", "bird")
	l.converges(t, "begin", wanted)
	for _, end := range []struct {
		what string
		how  func()
	}{
		{"killed", func() { first.kill(t) }},
		{"stopped", func() { first.stop(t, bgp.Withdraw) }},
	} {
		// IPv6 routes both routers write again, with the same next hops, when the best of several equal paths goes; FRR deletes
		// them for that moment. What they hold is compared below.
		unchanged := l.watchFor(t, "one of two "+end.what, v4Service.Addr(), podCIDR.Addr())
		end.how()
		l.neighborGone(t)
		l.converges(t, "without the one that was "+end.what, wanted)
		first = start()
		unchanged()
		l.converges(t, end.what, wanted)
	}
	// What one of them does not announce, the other one's announcement keeps; what neither does is gone.
	fewer := services(1, 2)
	first.announce(t, fewer)
	other.announce(t, fewer)
	l.converges(t, "both withdraw a next hop", fewer)
	first.stop(t, bgp.Graceful)
	l.converges(t, "one leaves", fewer)
	other.stop(t, bgp.Graceful)
	l.converges(t, "both have left", nil)
}

// TestReplacedWhenReady replaces the only speaker as a rolling update does: its successor starts, and when that is ready, it ends.
// The routers never have fewer routes. It runs at another scale by MOORING_BGP_SCALE.
func TestReplacedWhenReady(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	f := scale(t, fleet{services: 500, nodes: 100})
	wanted := f.table()
	first := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	first.announce(t, wanted)
	first.ready(t)
	l.converges(t, "begin", wanted)
	var watched []netip.Addr
	for i := range f.services {
		watched = append(watched, f.service(i).Addr())
	}
	unchanged := l.watchFor(t, "the speaker was replaced", watched...)
	begun := time.Now()
	second := startSpeaker(t, l.otherSpeaker, l.dir, section(frrPeer, birdPeer))
	second.announce(t, wanted)
	second.ready(t)
	t.Logf("%d load balancers with %d next hops each: the successor is ready after %s", f.services, nextHops, since(begun))
	ended := time.Now()
	first.stop(t, bgp.Withdraw)
	l.neighborGone(t)
	t.Logf("the first speaker has ended, and both routers know it after %s", since(ended))
	l.converges(t, "the second alone", wanted)
	unchanged()
	t.Logf("processor time of the successor in all: %s", cpu(t, second.cmd.Process.Pid))
	second.stop(t, bgp.Withdraw)
}
