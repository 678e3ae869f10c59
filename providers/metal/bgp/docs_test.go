package bgp_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/test/e2e/router"
)

const guide = "../../../docs/how-to/metal-routers.md"

// documented returns the configuration in the guide that is marked as tested.
func documented(t *testing.T, name string) string {
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
	l.frr.Configure(t, router.Config{Text: documented(t, "frr")})
	l.bird.Configure(t, router.Config{Text: documented(t, "bird")})
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
