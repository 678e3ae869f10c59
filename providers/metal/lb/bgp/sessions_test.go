package bgp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
)

// says waits until the status of a router has these words in what went wrong last.
func says(t *testing.T, p *process, name, words string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the status of %s says %q", name, words), func(context.Context) error {
		if status := p.peers(t)[name]; status.Up() || !strings.Contains(status.LastError, words) {
			return fmt.Errorf("it is %s and says %q", status.State, status.LastError)
		}
		return nil
	})
}

func TestPasswords(t *testing.T) {
	const secret = "in-the-right-place"
	l := enter(t, func(n *router.Neighbor) { n.Password = secret })
	if l == nil {
		return
	}
	write := func(name, password string) string {
		file := filepath.Join(l.dir, name)
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	right, wrong := frrPeer, birdPeer
	right.PasswordFile, wrong.PasswordFile = write("right", secret+"\n"), write("wrong", "another\n")
	p := startSpeaker(t, l.speaker, l.dir, section(right, wrong))
	p.announce(t, services(0, 1))
	up(t, p, "frr")
	says(t, p, "bird", "password")

	write("wrong", secret)
	up(t, p, "bird")
	if flaps := p.peers(t)["frr"].Flaps; flaps != 0 {
		t.Errorf("the session with the other router was reset %d times", flaps)
	}
	l.converges(t, "both passwords are right", services(0, 1))

	if err := os.Remove(right.PasswordFile); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a file that went is a problem, and no reason to end the session", func(context.Context) error {
		if status := p.peers(t)["frr"]; !status.Up() || status.Flaps != 0 || len(status.Problems) != 1 {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	if log, err := os.ReadFile(p.log); err != nil || strings.Contains(string(log), secret) {
		t.Errorf("the password is in the log, or %v", err)
	}
}

func TestRouterWithoutAddPath(t *testing.T) {
	l := enter(t, func(n *router.Neighbor) { n.NoAddPath = true })
	if l == nil {
		return
	}
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	p.announce(t, services(0, 1, 2))
	poll.Until(t, "the speaker knows what the routers take, and what they have", func(context.Context) error {
		for name, status := range up(t, p, "frr", "bird") {
			if len(status.Problems) != 2 || !strings.Contains(status.Problems[0], "ADD-PATH") {
				return fmt.Errorf("the problems of %s are %q, want one for each family", name, status.Problems)
			}
			if v4 := status.Families[0]; v4.AddPath || v4.Prefixes != 2 || v4.Paths != 2 {
				return fmt.Errorf("%s has %+v", name, v4)
			}
		}
		return nil
	})
	for _, r := range []*router.Router{l.frr, l.bird} {
		poll.Until(t, string(r.Kind)+" has one next hop for each destination", func(context.Context) error {
			routes := r.FIB(t)
			if len(routes) != 3 || len(routes[v4Service]) != 1 || len(routes[v6Service]) != 1 {
				return fmt.Errorf("%v", routes)
			}
			return nil
		})
	}
	// The only next hop that the router has goes: it gets another one.
	p.announce(t, services(3, 4))
	for _, r := range []*router.Router{l.frr, l.bird} {
		poll.Until(t, string(r.Kind)+" has another next hop", func(context.Context) error {
			if hops := r.FIB(t)[v4Service]; len(hops) != 1 || !slices.Contains([]netip.Addr{node4(3), node4(4)}, hops[0]) {
				return fmt.Errorf("%v", hops)
			}
			return nil
		})
	}
}

func TestRouterRestarts(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	wanted := services(0, 1)
	p.announce(t, wanted)
	l.converges(t, "begin", wanted)
	for _, r := range []*router.Router{l.frr, l.bird} {
		name := strings.ToLower(string(r.Kind))
		up(t, p, name)
		r.Close()
		poll.Until(t, "the session with "+name+" is down", func(context.Context) error {
			if status := p.peers(t)[name]; status.Up() || status.Flaps != 1 || status.LastError == "" || status.Families[0].Paths != 0 {
				return fmt.Errorf("%+v", status)
			}
			return nil
		})
	}
	// The routes are in the kernels still, as a router leaves them that crashes.
	changed := services(1, 2)
	p.announce(t, changed)
	l.frr.Restart(t)
	l.bird.Restart(t)
	l.converges(t, "restarted", changed)
}

func TestRefusals(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	wrongAS := peer("frr", frrAddr, 65000)
	silent := peer("silent", netip.MustParseAddr("10.77.0.99"), external)
	closed := peer("closed", birdAddr, external)
	closed.Port = 1790
	p := startSpeaker(t, l.speaker, l.dir, section(wrongAS, silent, closed))
	p.announce(t, services(0))
	says(t, p, "frr", "the AS of the router")
	says(t, p, "closed", "refused")
	says(t, p, "silent", "no answer")
	right := section(frrPeer, birdPeer)
	right.ASN = 64999
	p.change(t, right)
	says(t, p, "bird", "expect another AS")
}

func TestMultihop(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	// A speaker on another network, behind FRR, which is one hop away and BIRD two.
	far, err := l.frr.Host.Attach(t.Context(), "far",
		[]netip.Prefix{netip.MustParsePrefix("10.78.0.1/24")}, []netip.Prefix{netip.MustParsePrefix("10.78.0.2/24")})
	if err != nil {
		t.Fatal(err)
	}
	sandbox.Command(t, append(l.bird.Host.Args(), "ip", "route", "add", "10.78.0.0/24", "via", frrAddr.String())...)
	const asn = 64600
	neighbors := []router.Neighbor{{Address: netip.MustParseAddr("10.78.0.2"), ASN: asn, Multihop: 5}}
	l.frr.Configure(t, router.Config{ASN: internal, RouterID: frrAddr, Neighbors: neighbors})
	l.bird.Configure(t, router.Config{ASN: external, RouterID: birdAddr, Neighbors: neighbors})
	l.frr.Restart(t)
	l.bird.Restart(t)

	here, there := frrPeer, birdPeer
	here.Address, here.SourceAddress = "10.78.0.1", "10.78.0.2"
	multihop := section(here, there)
	multihop.ASN = asn
	p := startSpeaker(t, far, l.dir, multihop)
	p.announce(t, services(0, 1))
	l.routerConverges(t, l.frr, "external, with next hops on another network", services(0, 1))
	if status := p.peers(t)["bird"]; status.Up() {
		t.Errorf("a router two hops away is reached without ebgpMultihop: %+v", status)
	}
	multihop.Peers = slices.Clone(multihop.Peers)
	multihop.Peers[1].EBGPMultihop = 5
	p.change(t, multihop)
	l.routerConverges(t, l.bird, "two hops away", services(0, 1))
	if flaps := p.peers(t)["frr"].Flaps; flaps != 0 {
		t.Errorf("the session with the other router was reset %d times", flaps)
	}
}

// fast has BFD notice within 3 s, which a busy machine may not stand still for, and the hold time is far beyond.
func fast(p config.BGPPeer) config.BGPPeer {
	interval := metav1.Duration{Duration: time.Second}
	p.HoldTime, p.KeepaliveTime = seconds(90), seconds(30)
	p.BFD = &config.BFD{TransmitInterval: interval, ReceiveInterval: interval, Multiplier: 3}
	return p
}

// watched waits until a router says that BFD is up.
func watched(t *testing.T, r *router.Router) {
	t.Helper()
	command := map[router.Kind]string{router.FRR: "show bfd peers brief", router.BIRD: "show bfd sessions"}[r.Kind]
	poll.Until(t, "BFD is up on "+string(r.Kind), func(context.Context) error {
		if shown := r.Show(t, command); !strings.Contains(strings.ToLower(shown), " up") {
			return errors.New(shown)
		}
		return nil
	})
}

func TestBFD(t *testing.T) {
	l := enter(t, func(n *router.Neighbor) { n.BFD = true })
	if l == nil {
		return
	}
	p := startSpeaker(t, l.speaker, l.dir, section(fast(frrPeer), fast(birdPeer)))
	p.announce(t, services(0, 1))
	up(t, p, "frr", "bird")
	l.converges(t, "begin", services(0, 1))
	watched(t, l.frr)
	watched(t, l.bird)
	// Packets no longer get through, and no link goes down.
	sandbox.Command(t, "ip", "link", "set", "vethspeaker", "nomaster")
	l.converges(t, "cut off, long before the hold time", nil)
	says(t, p, "frr", "BFD")
	sandbox.Command(t, "ip", "link", "set", "vethspeaker", "master", "segment")
	l.converges(t, "connected again", services(0, 1))
}

// TestBFDFailsWithoutASession has the packets of BFD lost for a while, and nothing else. The router notices first, and ends the session and its side of BFD.
// The speaker's side fails while there is no session, see part 6 of gobgp.go.
func TestBFDFailsWithoutASession(t *testing.T) {
	sandbox.Require(t, "iptables")
	l := enter(t, func(n *router.Neighbor) { n.BFD = true })
	if l == nil {
		return
	}
	slower := fast(birdPeer)
	slower.BFD.ReceiveInterval = seconds(2)
	p := startSpeaker(t, l.speaker, l.dir, section(slower))
	p.announce(t, services(0, 1))
	up(t, p, "bird")
	watched(t, l.bird)
	lose := func(change string) {
		for _, chain := range []string{"INPUT", "OUTPUT"} {
			sandbox.Command(t, append(l.bird.Host.Args(), "iptables", change, chain, "-p", "udp", "--dport", "3784", "-j", "DROP")...)
		}
	}
	lose("-I")
	says(t, p, "bird", "BFD: the router is silent")
	lose("-D")
	p.change(t, section(fast(birdPeer))) // BFD fails again before the session is back, if anything still ends it
	watched(t, l.bird)
	l.routerConverges(t, l.bird, "BFD is well again", services(0, 1))
}

// frrPath is what FRR says of one path.
type frrPath struct {
	LocPrf   uint32
	NextHops []struct{ IP string }
	Peer     struct {
		PeerID string `json:"peerId"`
	}
	Community struct{ String string }
	Large     struct{ String string } `json:"largeCommunity"`
}

func pathsOf(t *testing.T, r *router.Router, prefix netip.Prefix) []frrPath {
	t.Helper()
	var shown struct{ Paths []frrPath }
	if err := json.Unmarshal([]byte(r.Show(t, fmt.Sprintf("show bgp ipv4 unicast %s json", prefix))), &shown); err != nil {
		t.Fatal(err)
	}
	return shown.Paths
}

func TestAttributes(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	marked := section(frrPeer, birdPeer)
	marked.Communities = []string{"64512:1"}
	marked.Pools = []config.BGPPool{{Name: "public", BGPAttributes: config.BGPAttributes{
		Communities: []string{"64512:100", "64512:7:8", "no-export"}, LocalPreference: ptr.To(uint32(200)),
	}}}
	p := startSpeaker(t, l.speaker, l.dir, marked)
	wanted := services(0, 1)
	p.announce(t, wanted)
	l.converges(t, "begin", wanted)
	expect := func(what string, prefix netip.Prefix, community, large string, preference uint32) {
		t.Helper()
		poll.Until(t, what, func(context.Context) error {
			for _, path := range pathsOf(t, l.frr, prefix) {
				if path.Community.String != community || path.Large.String != large || path.LocPrf != preference {
					return fmt.Errorf("%s: %+v", prefix, path)
				}
			}
			return nil
		})
	}
	expect("the pool's attributes", v4Service, "64512:100 no-export", "64512:7:8", 200)
	expect("the section's attributes", podCIDR, "64512:1", "", 100)
	if shown := l.bird.Show(t, "show route all for "+v4Service.Addr().String()); !strings.Contains(shown, "(64512,100)") ||
		!strings.Contains(shown, "(64512, 7, 8)") {
		t.Errorf("BIRD has other communities:\n%s", shown)
	}

	marked.Pools = []config.BGPPool{{Name: "public", BGPAttributes: config.BGPAttributes{Communities: []string{"64512:101"}}}}
	p.change(t, marked)
	expect("the pool's other attributes", v4Service, "64512:101", "", 100)

	marked.Peers = slices.Clone(marked.Peers)
	marked.Peers[0].BGPAttributes = config.BGPAttributes{
		Communities: []string{"64512:9", "64512:9:9"}, LocalPreference: ptr.To(uint32(50)),
	}
	p.change(t, marked)
	expect("the router's attributes besides", v4Service, "64512:9 64512:101", "64512:9:9", 50)
	if shown := l.bird.Show(t, "show route all for "+v4Service.Addr().String()); strings.Contains(shown, "(64512,9)") {
		t.Errorf("BIRD has communities for FRR:\n%s", shown)
	}
	for name, status := range p.peers(t) {
		if !status.Up() || status.Flaps != 0 {
			t.Errorf("attributes changed, and the session with %s was reset: %+v", name, status)
		}
	}
	l.converges(t, "end", wanted)
}

func TestReconfigure(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	wanted := services(0, 1)
	p := startSpeaker(t, l.speaker, l.dir, section(frrPeer))
	p.announce(t, wanted)
	up(t, p, "frr")
	p.change(t, section(frrPeer, birdPeer))
	l.converges(t, "another router", wanted)

	slower := frrPeer
	slower.Name, slower.HoldTime, slower.KeepaliveTime, slower.ConnectRetry = "frr renamed", seconds(30), seconds(10), seconds(4)
	p.change(t, section(slower, birdPeer))
	peers := up(t, p, "frr renamed", "bird")
	if peers["frr renamed"].Flaps+peers["bird"].Flaps != 0 {
		t.Errorf("timers changed, and sessions were reset: %+v", peers)
	}

	p.change(t, section(slower))
	took := l.routerConverges(t, l.bird, "a removed router", nil)
	t.Logf("gone after %s", took)
	if status := p.peers(t); status["frr renamed"].Flaps != 0 || len(status) != 1 {
		t.Errorf("%+v", status)
	}

	another := section(slower, birdPeer)
	another.RouterID = "192.0.2.200"
	p.change(t, another)
	poll.Until(t, "FRR knows the other router ID", func(context.Context) error {
		if shown := l.frr.Show(t, "show bgp neighbors "+speakerAddr.String()); !strings.Contains(shown, "remote router ID 192.0.2.200") {
			return errors.New(shown)
		}
		return nil
	})
	l.converges(t, "another speaker", wanted)
	p.stop(t, bgp.Withdraw)
}
