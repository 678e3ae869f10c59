package bgp

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

func addrs(texts ...string) func() ([]netip.Addr, error) {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return func() ([]netip.Addr, error) { return list, nil }
}

// TestSourceSubnet follows one router through the addresses that a machine has one after the other.
func TestSourceSubnet(t *testing.T) {
	unlisted := func() ([]netip.Addr, error) { return nil, errors.New("netlink is away") }
	type look struct {
		addresses func() ([]netip.Addr, error)
		// source is that of the session; empty for no session, which problem explains.
		source, problem string
	}
	for name, looks := range map[string][]look{
		"the one in the subnet":                {{addrs("10.0.0.1", "10.1.0.1", "fd00::1"), "10.1.0.1", ""}},
		"the first that the kernel lists":      {{addrs("10.1.0.9", "10.1.0.1"), "10.1.0.9", ""}},
		"one that comes later ends no session": {{addrs("10.1.0.9"), "10.1.0.9", ""}, {addrs("10.1.0.1", "10.1.0.9"), "10.1.0.9", ""}},
		"none, and then one":                   {{addrs("10.0.0.1"), "", "no address there"}, {addrs("10.0.0.1", "10.1.0.1"), "10.1.0.1", ""}},
		"one that goes":                        {{addrs("10.1.0.1"), "10.1.0.1", ""}, {addrs(), "", "no address there"}},
		"one that becomes another one":         {{addrs("10.1.0.1"), "10.1.0.1", ""}, {addrs("10.1.0.2"), "10.1.0.2", ""}},
		"cannot be listed":                     {{unlisted, "", "netlink is away"}},
		"cannot be listed any more":            {{addrs("10.1.0.1"), "10.1.0.1", ""}, {unlisted, "10.1.0.1", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			peer, plain := router, router
			peer.SourceSubnet = "10.1.0.0/16"
			plain.Name, plain.Address = "rack-2", "10.0.0.2"
			is := settings{}
			for i, look := range looks {
				var err error
				if is, err = newSettings(configured(peer, plain), is, Machine{Addresses: look.addresses}); err != nil {
					t.Fatal(err)
				}
				session, has := is.neighbors[peer.Addr()]
				if has != (look.source != "") || has && session.session.source.String() != look.source {
					t.Errorf("look %d: session %t from %s, want %q", i+1, has, session.session.source, look.source)
				}
				missing := is.missing[peer.Addr()]
				if (len(missing) > 0) != (look.problem != "") || len(missing) > 0 &&
					(missing[0].problem != NoSource || !strings.Contains(missing[0].words, look.problem)) {
					t.Errorf("look %d: it lacks %v, want %q", i+1, missing, look.problem)
				}
				if other, has := is.neighbors[plain.Addr()]; !has || other.session.source.IsValid() {
					t.Errorf("look %d: the other router: %t, %+v", i+1, has, other)
				}
			}
		})
	}
}

// TestMissingParts names all that a replica lacks for one session, each by its own name.
func TestMissingParts(t *testing.T) {
	peer := router
	peer.SourceSubnet, peer.PasswordFile = "10.1.0.0/16", t.TempDir()+"/absent"
	speaker, err := New(Options{Config: configured(peer), Machine: Machine{Addresses: addrs("10.0.0.1")}})
	if err != nil {
		t.Fatal(err)
	}
	status := speaker.Sessions()[0]
	if want := []Problem{NoSource, NoPassword}; !slices.Equal(status.Missing, want) || len(status.Problems) != 2 {
		t.Errorf("it lacks %v (%q), want %v", status.Missing, status.Problems, want)
	}
	if why, wanted := status.Delivery(config.IPv4); why != NoSource || !wanted {
		t.Errorf("nothing is announced for %q", why)
	}
	if got, want := status.FamilyProblems(), []FamilyProblem{{Problem: NoSource}, {Problem: NoPassword}}; !slices.Equal(got, want) {
		t.Errorf("problems %v, want %v", got, want)
	}
}

// TestRouterIDOfSource derives the identifier from the address that the sessions come from.
func TestRouterIDOfSource(t *testing.T) {
	peer := router
	peer.SourceSubnet = "10.1.0.0/16"
	is, err := newSettings(configured(peer), settings{}, Machine{Addresses: addrs("10.0.0.1", "10.1.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := is.identify(func(from []netip.Addr) netip.Addr {
		if want := netip.MustParseAddr("10.1.0.1"); !slices.Equal(from, []netip.Addr{want}) {
			t.Errorf("derived from %v", from)
		}
		return one
	}); err != nil {
		t.Error(err)
	}
}
