package bgp_test

import (
	"net/netip"
	"testing"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// later is a destination that only the blind replica announces, for a while.
var later = netip.MustParsePrefix("192.0.2.78/32")

// uncertain returns a table as a replica announces it whose probes are not answered.
func uncertain(wanted routing.Table) routing.Table {
	marked := routing.Table{}
	for prefix, r := range wanted {
		r.Uncertain = r.Kind == routing.ServiceAddress
		marked[prefix] = r
	}
	return marked
}

// TestBlindReplica has one of two replicas lose sight of the nodes, of which one dies then: routers follow the replica that sees,
// internal ones and external ones alike, and fall back to the other when that is all there is.
func TestBlindReplica(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	wanted := services(0, 1, 2)
	add(wanted, extra, "public", 1)
	blind := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	sees := startSpeaker(t, l.otherSpeaker, l.dir, section(frrPeer, birdPeer))
	blind.announce(t, wanted)
	sees.announce(t, wanted)
	up(t, blind, "frr", "bird")
	up(t, sees, "frr", "bird")
	l.converges(t, "begin", wanted)

	// Both routers write IPv6 routes anew here, with the same next hops.
	unchanged := l.watchFor(t, "blindness", v4Service.Addr(), podCIDR.Addr(), extra.Addr())
	blind.announce(t, uncertain(wanted))
	marked := services(0, 1, 2)
	add(marked, extra, "public", 1)
	add(marked, later, "public", 0)
	blind.announce(t, uncertain(marked)) // what comes last says that all before has come
	l.converges(t, "blind", marked)
	unchanged()
	blind.announce(t, uncertain(wanted))

	// Node 1 dies. The replica that sees it announces nothing of the destination that only node 1 serves; there the blind one's word
	// is the only one.
	left := services(0, 2)
	sees.announce(t, left)
	add(left, extra, "public", 1)
	l.converges(t, "a node dies", left)

	sees.kill(t)
	l.converges(t, "no replica sees", wanted)
	blind.announce(t, wanted)
	l.converges(t, "it sees again", wanted)
}
