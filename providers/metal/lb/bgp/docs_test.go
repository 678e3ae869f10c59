package bgp_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
)

const (
	guide  = "../../../../docs/how-to/metal-routers.md"
	beside = "../../../../docs/how-to/metal-network-plugins.md"
)

// documented returns the configuration in a guide that is marked as tested.
func documented(t *testing.T, guide, name string) string {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "<!-- tested: "+name+" -->\n```\n")
	block, _, ended := strings.Cut(after, "```\n")
	if !found || !ended {
		t.Fatalf("%s has no configuration that is marked as tested: %s", guide, name)
	}
	return block
}

// TestGuide runs the routers with what the guide says of them.
func TestGuide(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	l.frr.Configure(t, router.Config{Text: documented(t, guide, "frr")})
	l.bird.Configure(t, router.Config{Text: documented(t, guide, "bird")})
	l.frr.Restart(t)
	l.bird.Restart(t)
	wanted := services(0, 1, 2)
	announced := services(0, 1, 2)
	// What the guide's filters are to keep out.
	add(announced, netip.MustParsePrefix("203.0.113.1/32"), "public", 0)
	add(announced, netip.MustParsePrefix("10.200.0.0/16"), "", 0)
	add(announced, netip.MustParsePrefix("2001:db8:2::1/128"), "public", 0)
	first := startSpeaker(t, l.speaker, l.dir, section(frrPeer, birdPeer))
	other := startSpeaker(t, l.otherSpeaker, l.dir, section(frrPeer, birdPeer))
	first.announce(t, announced)
	other.announce(t, announced)
	for name, status := range up(t, first, "frr", "bird") {
		if len(status.Problems) > 0 {
			t.Errorf("%s: %q", name, status.Problems)
		}
	}
	up(t, other, "frr", "bird")
	l.converges(t, "as in the guide", wanted)
}

// TestRouterOnNode has FRR on the speaker's own machine as its only peer. FRR announces all next hops to BIRD as they are, but for its own
// machine, and writes nothing into its machine's kernel.
func TestRouterOnNode(t *testing.T) {
	l := enter(t, plainly)
	if l == nil {
		return
	}
	sandbox.Command(t, append(l.speaker.Args(), "ip", "address", "add", "10.255.255.1/32", "dev", "lo")...)
	node := router.Start(t, router.FRR, l.speaker, l.dir, router.Config{Text: "log stdout\n" + documented(t, beside, "frr-on-node")})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("FRR on the node:\n%s\n%s", node.Show(t, "show running-config"), node.Show(t, "show bgp summary"))
			t.Logf("%s", node.Log())
		}
	})
	local := section(peer("node", netip.MustParseAddr("10.255.255.1"), internal))
	local.ASN = 64600
	p := startSpeaker(t, l.speaker, l.dir, local)
	for _, nodes := range [][]int{{0, 1, 2}, {0, 2}, {0, 2, 3}} {
		wanted, announced := services(nodes...), services(nodes...)
		own := announced[v4Service]
		own.NextHops = append([]netip.Addr{speakerAddr}, own.NextHops...)
		announced[v4Service] = own
		p.announce(t, announced)
		l.routerConverges(t, l.bird, "by FRR on the node", wanted)
	}
	if status := up(t, p, "node")["node"]; len(status.Problems) > 0 {
		t.Errorf("%q", status.Problems)
	}
	if fib := node.FIB(t); len(fib) > 0 {
		t.Errorf("the node's own kernel has %v", fib)
	}
	p.stop(t, bgp.Withdraw)
	l.routerConverges(t, l.bird, "without a speaker", nil)
}
