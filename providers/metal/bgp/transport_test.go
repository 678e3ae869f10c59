package bgp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-ccm/mooring/localcluster/poll"
	"github.com/mooring-ccm/mooring/providers/metal/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/test/e2e/router"
)

// TestTTLSecurity has routers that drop what may come from another network. Only a speaker that does as they do has sessions.
func TestTTLSecurity(t *testing.T) {
	l := enter(t, func(n *router.Neighbor) { n.TTLSecurity = true })
	if l == nil {
		return
	}
	secured := func(p config.BGPPeer) config.BGPPeer {
		p.TTLSecurityHops = 1
		return p
	}
	p := startSpeaker(t, l.speaker, l.dir, section(secured(frrPeer), secured(birdPeer)))
	p.announce(t, services(0, 1))
	up(t, p, "frr", "bird")
	l.converges(t, "both sides drop what comes from afar", services(0, 1))
	p.change(t, section(frrPeer, birdPeer))
	// The kernel of a router may accept the connection, and drops what comes over it.
	poll.Until(t, "the routers drop what a speaker sends that does not know of it", func(context.Context) error {
		for _, status := range p.peers(t) {
			if waits := status.State == "OpenSent" || status.State == "OpenConfirm"; !waits && status.LastProblem != bgp.NoAnswer {
				return fmt.Errorf("%+v", status)
			}
		}
		return nil
	})
	l.routerConverges(t, l.bird, "and have no route", nil)
}

// TestDynamicASN has routers whose AS the speaker learns when the session begins.
func TestDynamicASN(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	dynamic := func(p config.BGPPeer) config.BGPPeer {
		p.ASN, p.DynamicASN = 0, config.ExternalASN
		return p
	}
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, dynamic(birdPeer)))
	p.announce(t, services(0, 1))
	if status := up(t, p, "frr", "bird")["bird"]; status.ASN != external || len(status.FamilyProblems()) > 0 {
		t.Errorf("%+v", status)
	}
	l.converges(t, "an external router", services(0, 1))
	p.change(t, section(dynamic(frrPeer), dynamic(birdPeer)))
	status := up(t, p, "frr", "bird")["frr"]
	if problems := status.FamilyProblems(); status.ASN != internal || len(problems) != 1 || problems[0].Problem != bgp.WrongASN {
		t.Errorf("a router that is to be external is internal: %+v", status)
	}
	p.announce(t, services(0, 1, 2))
	l.converges(t, "served nevertheless", services(0, 1, 2))
}
