package bgp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// The kernel of a router may accept the connection, and drops what comes over it. What came before the router set the TTL for the
	// connection may even have been answered, so the speaker takes the session for up until the hold time is over.
	inVain := []bgp.Problem{bgp.NoAnswer, bgp.HoldTimeOver, bgp.OpenRefused, bgp.ConnectionClosed}
	poll.Until(t, "the routers drop what a speaker sends that does not know of it", func(context.Context) error {
		for _, status := range p.peers(t) {
			if waits := status.State == "OpenSent" || status.State == "OpenConfirm"; !waits && !slices.Contains(inVain, status.LastProblem) {
				return fmt.Errorf("%+v", status)
			}
		}
		return nil
	})
	l.neighborGone(t)
	l.converges(t, "and have no route", nil)
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

// TestBFDFollowsRouter has a router whose BFD is ten times slower than the speaker's: the speaker waits for it by the router's interval and
// multiplier (RFC 5880 section 6.8.4).
func TestBFDFollowsRouter(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	l.frr.Configure(t, router.Config{Neighbors: []router.Neighbor{{Address: speakerAddr, ASN: internal, BFD: true}}, Text: fmt.Sprintf(`log stdout informational
router bgp 64512
 bgp router-id %s
 neighbor %[2]s remote-as 64512
 neighbor %[2]s passive
 neighbor %[2]s bfd 3 1000 1000
`, frrAddr, speakerAddr)})
	l.frr.Restart(t)
	slow := frrPeer
	slow.HoldTime, slow.KeepaliveTime, slow.Families = seconds(90), seconds(30), []config.AddressFamily{config.IPv4}
	interval := metav1.Duration{Duration: 100 * time.Millisecond}
	// FRR waits for the speaker by this multiplier. The speaker waits for FRR by the multiplier of FRR.
	slow.BFD = &config.BFD{TransmitInterval: interval, ReceiveInterval: interval, Multiplier: 10}
	p := startSpeaker(t, l.speaker, l.dir, section(slow))
	p.announce(t, services(0))
	up(t, p, "frr")
	sent := func() int {
		var counters []struct {
			Output int `json:"control-packet-output"`
		}
		if err := json.Unmarshal([]byte(l.frr.Show(t, "show bfd peers counters json")), &counters); err != nil || len(counters) != 1 {
			return 0
		}
		return counters[0].Output
	}
	begun := 0
	poll.Until(t, "BFD is up on FRR", func(context.Context) error {
		if shown := l.frr.Show(t, "show bfd peers brief"); !strings.Contains(strings.ToLower(shown), " up") {
			return errors.New(shown)
		}
		begun = sent()
		return nil
	})
	flaps := p.peers(t)["frr"].Flaps
	poll.Until(t, "FRR sends a packet a second", func(context.Context) error {
		if now := sent(); now < begun+5 {
			return fmt.Errorf("%d packets, %d of them before", now, begun)
		}
		return nil
	})
	if status := p.peers(t)["frr"]; !status.Up() || status.Flaps != flaps {
		t.Errorf("the speaker does not wait for the router: %+v", status)
	}
	sandbox.Command(t, "ip", "link", "set", "vethspeaker", "nomaster")
	cut := time.Now()
	says(t, p, "frr", "BFD")
	if took := since(cut); took < 1500*time.Millisecond || took > 10*time.Second {
		t.Errorf("the silence was noticed after %s, want three times the router's second", took)
	}
}
