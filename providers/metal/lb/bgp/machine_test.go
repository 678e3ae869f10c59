package bgp

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
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
		// source is the session's own address; empty for no session, which problem explains.
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
		"can no longer be listed":              {{addrs("10.1.0.1"), "10.1.0.1", ""}, {unlisted, "10.1.0.1", ""}},
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

// rack returns selectors of the nodes of a rack.
func rack(name string) []metav1.LabelSelector {
	return []metav1.LabelSelector{{MatchLabels: map[string]string{"rack": name}}}
}

// selected returns a section with a router for each of two racks, and one for all.
func selected() config.BGP {
	a, b, all := router, router, router
	a.Name, a.Address, a.NodeSelectors = "a", "10.0.0.1", rack("a")
	b.Name, b.Address, b.NodeSelectors = "b", "10.0.0.2", append(rack("b"), rack("c")...)
	all.Name, all.Address = "all", "10.0.0.3"
	return configured(a, b, all)
}

// TestNodeSelectors follows the sessions of one replica through what is known of its node.
func TestNodeSelectors(t *testing.T) {
	in := func(name string) func() (map[string]string, error) {
		return func() (map[string]string, error) { return map[string]string{"rack": name}, nil }
	}
	listing := func() (map[string]string, error) { return nil, nil }
	unknown := func() (map[string]string, error) { return nil, errors.New("no node has this name") }
	type look struct {
		labels func() (map[string]string, error)
		// sessions are the sessions of the replica, listed are all that the status shows, and missing are the routers with a problem.
		sessions, listed, missing string
	}
	for name, looks := range map[string][]look{
		"one rack":                      {{in("a"), "a all", "a all", ""}},
		"the other one":                 {{in("c"), "b all", "b all", ""}},
		"none":                          {{in("d"), "all", "all", ""}},
		"moves":                         {{in("a"), "a all", "a all", ""}, {in("b"), "b all", "b all", ""}},
		"nodes are being listed":        {{listing, "all", "a b all", ""}, {in("a"), "a all", "a all", ""}},
		"the node is not found":         {{unknown, "all", "a b all", "a b"}, {in("b"), "b all", "b all", ""}},
		"the node is not found anymore": {{in("a"), "a all", "a all", ""}, {unknown, "a all", "a all", "a"}, {listing, "a all", "a all", ""}},
		"a node without labels":         {{func() (map[string]string, error) { return map[string]string{}, nil }, "all", "all", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			labels := looks[0].labels
			speaker, err := New(Options{Config: selected(), Machine: Machine{
				NodeLabels: func() (map[string]string, error) { return labels() },
			}})
			if err != nil {
				t.Fatal(err)
			}
			for i, look := range looks {
				labels = look.labels
				speaker.refresh(t.Context())
				var sessions, listed, missing []string
				for _, status := range speaker.Sessions() {
					listed = append(listed, status.Name)
					if _, has := speaker.settings.neighbors[status.Address]; has {
						sessions = append(sessions, status.Name)
					}
					if slices.Contains(status.Missing, NoNode) {
						missing = append(missing, status.Name)
					}
				}
				for _, one := range []struct {
					what string
					got  []string
					want string
				}{{"sessions", sessions, look.sessions}, {"listed", listed, look.listed}, {"missing", missing, look.missing}} {
					if strings.Join(one.got, " ") != one.want {
						t.Errorf("look %d: %s %v, want %q", i+1, one.what, one.got, one.want)
					}
				}
				if others := speaker.Elsewhere(); len(others)+len(listed) != 3 {
					t.Errorf("look %d: %v are elsewhere, and %v are not", i+1, others, listed)
				}
			}
		})
	}
}

// TestRoutersOfOneAddress has the router of each rack at the same address: a replica has a session with the router of its own rack.
func TestRoutersOfOneAddress(t *testing.T) {
	section := selected()
	section.Peers[1].Address, section.Peers[1].ASN = section.Peers[0].Address, section.Peers[0].ASN+1
	section.Peers[1].BGPAttributes = config.BGPAttributes{Communities: []string{"64512:7"}}
	var labels map[string]string
	speaker, err := New(Options{Config: section, Machine: Machine{NodeLabels: func() (map[string]string, error) { return labels, nil }}})
	if err != nil {
		t.Fatal(err)
	}
	for _, look := range []struct{ rack, sessions, elsewhere string }{{"a", "a all", "b"}, {"b", "b all", "a"}, {"d", "all", "a b"}, {"a", "a all", "b"}} {
		labels = map[string]string{"rack": look.rack}
		speaker.refresh(t.Context())
		var sessions, elsewhere []string
		for _, status := range speaker.Sessions() {
			sessions = append(sessions, status.Name)
			is := speaker.settings.neighbors[status.Address]
			if is.name != status.Name || (is.session.asn == section.Peers[1].ASN) != (is.name == "b") {
				t.Errorf("in rack %s, %s is %+v", look.rack, status.Name, is)
			}
		}
		for _, other := range speaker.Elsewhere() {
			elsewhere = append(elsewhere, other.Name)
		}
		if got, others := strings.Join(sessions, " "), strings.Join(elsewhere, " "); got != look.sessions || others != look.elsewhere {
			t.Errorf("in rack %s: sessions %q, elsewhere %q", look.rack, got, others)
		}
		request, err := policies(&speaker.settings)
		if err != nil {
			t.Fatal(err)
		}
		if statements := len(request.Policies[1].Statements); (statements > 0) != (look.rack == "b") {
			t.Errorf("in rack %s: %d routers have communities of their own", look.rack, statements)
		}
	}
	both := selected()
	both.Peers[1].Address, both.Peers[1].NodeSelectors = both.Peers[0].Address, append(rack("a"), rack("b")...)
	labels = map[string]string{"rack": "a"}
	if speaker, err = New(Options{Config: both, Machine: Machine{NodeLabels: func() (map[string]string, error) { return labels, nil }}}); err != nil {
		t.Fatal(err)
	}
	if sessions := speaker.Sessions(); len(sessions) != 2 || sessions[0].Name != "a" {
		t.Errorf("two select the node, and the sessions are %+v", sessions)
	}
}

// TestNoSessionByChoice has a replica with no session at all by choice: it is ready, and shows no session that is down.
func TestNoSessionByChoice(t *testing.T) {
	only := selected()
	only.Peers = only.Peers[:2]
	registry := prometheus.NewPedanticRegistry()
	label := "d"
	speaker, err := New(Options{Config: only, Registerer: registry, FirstTable: time.Hour, LookAgain: time.Hour, Machine: Machine{
		NodeLabels: func() (map[string]string, error) { return map[string]string{"rack": label}, nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := testutil.GatherAndCount(registry, "mooring_metal_bgp_session_up", "mooring_metal_bgp_session_problem"); err != nil || found > 0 {
		t.Errorf("%d sessions are shown (%v)", found, err)
	}
	if err := speaker.Ready(); err == nil {
		t.Error("ready without a table")
	}
	changed, cancel := speaker.Subscribe()
	defer cancel()
	ended := running(t, t.Context(), speaker)
	if err := speaker.Announce(t.Context(), routing.Table{service: route(service, "", one)}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the replica is ready", func(context.Context) error { return speaker.Ready() })
	speaker.mu.Lock()
	label = "a"
	speaker.mu.Unlock()
	speaker.LookNow()
	poll.Until(t, "the label that changed takes effect", func(context.Context) error {
		return poll.Holds(len(speaker.Peers()) == 1 && len(speaker.Elsewhere()) == 1)
	})
	select {
	case <-changed:
	default:
		t.Error("a router is served that was not, and no change is signaled")
	}
	if err := speaker.Stop(t.Context(), Withdraw); err != nil {
		t.Error(err)
	}
	if err := ends(t, ended); err != nil {
		t.Error(err)
	}
}

// TestUnknownNodeIsNotReady has a replica that does not find its node: it replaces no other replica.
func TestUnknownNodeIsNotReady(t *testing.T) {
	only := selected()
	only.Peers = only.Peers[:2]
	speaker, err := New(Options{Config: only})
	if err != nil {
		t.Fatal(err)
	}
	h := handover{}
	for _, after := range []time.Duration{0, time.Hour} {
		if err := h.observe(time.Unix(0, 0).Add(after), transmissions(speaker.Peers(), nil, nil)); err == nil {
			t.Errorf("handed over after %s", after)
		}
	}
}

// TestPoliciesOfOthers leaves out what is done to the paths of routers that have no session here.
func TestPoliciesOfOthers(t *testing.T) {
	section := selected()
	for i := range section.Peers {
		section.Peers[i].Communities = []string{"64512:1"}
	}
	is, err := newSettings(section, settings{}, Machine{
		NodeLabels: func() (map[string]string, error) { return map[string]string{"rack": "a"}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := policies(&is)
	if err != nil || len(made.DefinedSets) != 2 {
		t.Errorf("policies for %v, %v", made.DefinedSets, err)
	}
}
