package bgp_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
)

// labeled has a speaker's node be in a rack from now on.
func (p *process) labeled(t *testing.T, rack string) {
	t.Helper()
	p.ask(t, request{Labels: map[string]string{"rack": rack}})
}

// only waits until a speaker shows these routers and no others, all of them up.
func only(t *testing.T, p *process, names ...string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the routers are %v", names), func(context.Context) error {
		if got := slices.Sorted(maps.Keys(p.peers(t))); !slices.Equal(got, names) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
	up(t, p, names...)
}

// TestRackPair has a router and a replica in each of two racks. Each router is served by the replica of its rack alone, and does not notice
// what becomes of the other one.
func TestRackPair(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	frr, bird := frrPeer, birdPeer
	frr.NodeSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"rack": "a"}}}
	bird.NodeSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"rack": "b"}}}
	bird.Communities = []string{"64512:7"}
	wanted := services(0, 1, 2)
	inA := startSpeaker(t, l.speaker, l.dir, section(frr, bird))
	inB := startSpeaker(t, l.otherSpeaker, l.dir, section(frr, bird))
	for speaker, rack := range map[*process]string{inA: "a", inB: "b"} {
		speaker.announce(t, wanted)
		if missing := speaker.ask(t, request{Ready: true}).Missing; missing == "" {
			t.Error("a replica is ready before it knows its node")
		}
		speaker.labeled(t, rack)
	}
	l.converges(t, "begin", wanted)
	only(t, inA, "frr")
	only(t, inB, "bird")
	inA.ready(t)
	inB.ready(t)

	monitor := l.bird.Monitor(t)
	inA.labeled(t, "none")
	l.routerConverges(t, l.frr, "its only replica leaves the rack", nil)
	only(t, inA)
	inA.labeled(t, "b")
	only(t, inA, "bird")
	inA.labeled(t, "a")
	only(t, inA, "frr")
	l.routerConverges(t, l.frr, "its replica is back", wanted)
	if err := holds(t, l.bird, wanted); err != nil {
		t.Errorf("BIRD, whose own replica was there all the while: %v", err)
	}
	if gone := monitor.Events(t, "Deleted"); len(gone) > 0 {
		t.Errorf("BIRD was without a route %d times, for example: %s", len(gone), gone[0])
	}
	inB.stop(t, bgp.Withdraw)
	l.routerConverges(t, l.bird, "its replica stops", nil)
	if err := holds(t, l.frr, wanted); err != nil {
		t.Errorf("FRR, whose own replica runs: %v", err)
	}
}

// TestSourceSubnetOfMachine has a speaker wait for its address in the subnet, and has the session come from there.
func TestSourceSubnetOfMachine(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	source := netip.MustParseAddr("10.77.9.11")
	l.frr.Configure(t, router.Config{ASN: internal, RouterID: frrAddr, Neighbors: []router.Neighbor{{Address: source, ASN: internal}}})
	l.frr.Restart(t)
	frr := frrPeer
	frr.SourceSubnet = "10.77.9.0/24"
	wanted := services(0, 1, 2)
	p := startSpeaker(t, l.speaker, l.dir, section(frr, birdPeer))
	p.announce(t, wanted)
	l.routerConverges(t, l.bird, "begin", wanted)
	if status := p.peers(t)["frr"]; !slices.Equal(status.Missing, []bgp.Problem{bgp.NoSource}) || status.Up() {
		t.Errorf("without an address there: %+v", status)
	}
	address := func(do string) {
		sandbox.Command(t, append(l.speaker.Args(), "ip", "address", do, source.String()+"/32", "dev", "lo")...)
	}
	address("add")
	up(t, p, "frr")
	l.routerConverges(t, l.frr, "from the subnet", wanted)
	begun := time.Now()
	address("del")
	poll.Until(t, "the session ends with its address", func(context.Context) error {
		if status := p.peers(t)["frr"]; status.Up() || !slices.Equal(status.Missing, []bgp.Problem{bgp.NoSource}) {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	t.Logf("the session has ended after %s", since(begun))
	address("add")
	up(t, p, "frr")
	if err := holds(t, l.bird, wanted); err != nil {
		t.Errorf("BIRD, which has nothing to do with the subnet: %v", err)
	}
}

// TestLocalASN has a speaker with another autonomous system for each router than its own: FRR takes it for internal, BIRD for external.
func TestLocalASN(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	frr, bird := frrPeer, birdPeer
	frr.LocalASN, bird.LocalASN = internal, internal
	of := section(frr, bird)
	of.ASN = 64999
	wanted := services(0, 1, 2)
	p := startSpeaker(t, l.speaker, l.dir, of)
	p.announce(t, wanted)
	l.converges(t, "begin", wanted)
	up(t, p, "frr", "bird")
}

// TestDefaultGateway has the router be the gateway of the speaker's default route, for as long as there is one.
func TestDefaultGateway(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	gateway := frrPeer
	gateway.Name, gateway.Address, gateway.DefaultGateway = "gateway", "", config.IPv4
	wanted := services(0, 1, 2)
	p := startSpeaker(t, l.speaker, l.dir, section(gateway, birdPeer))
	p.announce(t, wanted)
	l.routerConverges(t, l.bird, "begin", wanted)
	if status := p.peers(t)["gateway"]; !slices.Equal(status.Missing, []bgp.Problem{bgp.NoGateway}) || status.Up() {
		t.Errorf("without a default route: %+v", status)
	}
	sandbox.Command(t, append(l.speaker.Args(), "ip", "route", "add", "default", "via", frrAddr.String())...)
	up(t, p, "gateway")
	l.routerConverges(t, l.frr, "by the default route", wanted)
	sandbox.Command(t, append(l.speaker.Args(), "ip", "route", "del", "default")...)
	poll.Until(t, "the session ends with the default route", func(context.Context) error {
		if status := p.peers(t)["gateway"]; status.Up() || !slices.Equal(status.Missing, []bgp.Problem{bgp.NoGateway}) {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	if err := holds(t, l.bird, wanted); err != nil {
		t.Errorf("BIRD, which has nothing to do with the default route: %v", err)
	}
}
