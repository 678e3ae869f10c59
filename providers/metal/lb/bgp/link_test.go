package bgp

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// The router of a link stays while it is one, is replaced by another one, and is none where two say that they are.
func TestRouterOfLink(t *testing.T) {
	first, second := netip.MustParseAddr("fe80::1%rack"), netip.MustParseAddr("fe80::2%rack")
	for _, test := range []struct {
		before  netip.Addr
		routers []netip.Addr
		want    netip.Addr
		wrong   string
	}{
		{routers: []netip.Addr{first}, want: first},
		{before: config.Link("rack"), routers: []netip.Addr{first}, want: first},
		{before: first, routers: []netip.Addr{first, second}, want: first},
		{before: first, want: first},
		{before: first, routers: []netip.Addr{second}, want: second},
		{wrong: "no router has advertised itself on rack"},
		{before: config.Link("rack"), wrong: "no router has advertised itself on rack"},
		{routers: []netip.Addr{first, second}, wrong: "2 routers have advertised themselves on rack, fe80::1 and fe80::2"},
	} {
		got, err := Link{Routers: test.routers}.router("rack", test.before)
		if got != test.want || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: %s, %v", test, got, err)
		}
	}
}

// A router that is not found yet says nothing about the identity of the speaker, and is on a link to be greeted.
func TestRouterOfLinkIsMissing(t *testing.T) {
	found := Link{Own: netip.MustParseAddr("fe80::9%rack")}
	machine := Machine{Link: func(string) (Link, error) { return found, nil }}.withDefaults()
	section := config.BGP{ASN: 64512, Mode: config.ActiveActive, Peers: []config.BGPPeer{{Name: "tor", Interface: "rack", ASN: 64513}}}
	made, err := newSettings(section, settings{}, machine)
	if err != nil || len(made.neighbors) > 0 || len(made.missing[config.Link("rack")]) != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	asked := []netip.Addr{}
	_, _ = made.identify(func(peers []netip.Addr) netip.Addr {
		asked = peers
		return netip.Addr{}
	})
	if len(asked) > 0 {
		t.Errorf("the identity is derived from %s", asked)
	}
	sessions := newSessions(time.Now)
	sessions.expect(made)
	if quiet := sessions.quietLinks(); !slices.Equal(quiet, []string{"rack"}) {
		t.Errorf("%q are greeted", quiet)
	}
	found.Routers = []netip.Addr{netip.MustParseAddr("fe80::1%rack")}
	if made, err = newSettings(section, made, machine); err != nil || made.neighbors[found.Routers[0]].session.source != found.Own {
		t.Errorf("%+v, %v", made, err)
	}
}
