package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

func labeled(key, value string) []metav1.LabelSelector {
	return []metav1.LabelSelector{{MatchLabels: map[string]string{key: value}}}
}

// both is of rack a if i is odd, else of rack b, and has an address on a second network.
func both(i int) func(*model.Node) {
	return func(node *model.Node) {
		node.Labels = map[string]string{"rack": []string{"b", "a"}[i%2]}
		node.Addresses = append(node.Addresses, netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}))
	}
}

// racks returns a cluster of four nodes with two networks.
func racks() *cluster {
	c := newCluster()
	c.Settings.ClusterNextHops = 8
	for i := 1; i <= 4; i++ {
		c.node(i, both(i))
	}
	c.PoolOf = func(addr netip.Addr) string {
		if netip.MustParsePrefix("198.51.100.0/24").Contains(addr) {
			return "transit"
		}
		return "public"
	}
	return c
}

// announcing puts a section in force whose peers are p1 to p3, with 10.9.0.1 to 10.9.0.3.
func (c *cluster) announcing(change func(*config.BGP)) *cluster {
	section := &config.BGP{}
	for i := 1; i <= 3; i++ {
		section.Peers = append(section.Peers, config.BGPPeer{Name: fmt.Sprintf("p%d", i), Address: fmt.Sprintf("10.9.0.%d", i)})
	}
	change(section)
	c.advertising = NewAdvertising(section, false)
	return c
}

// derive returns what is announced to whom.
func (c *cluster) derive() Output {
	out := Desired(c.Input)
	c.advertising.advertise(c.Input, &out)
	return out
}

// labels labels a Service.
func (c *cluster) labels(name string, labels map[string]string) *cluster {
	service := c.Services[key(name)]
	service.Labels = labels
	c.Services[key(name)] = service
	return c
}

// toGroup returns what is announced of a prefix to a group, as "next hop=preference communities".
func toGroup(out Output, group, prefix string) string {
	route := out.Table.For(group)[netip.MustParsePrefix(prefix)]
	texts := make([]string, len(route.NextHops))
	for i, hop := range route.NextHops {
		texts[i] = hop.String()
		if i < len(route.Attributes) {
			with := route.Attributes[i]
			texts[i] += strings.TrimSuffix(fmt.Sprintf("=%d %s", with.LocalPreference, with.Communities), " ")
		}
	}
	return strings.Join(texts, ", ")
}

const (
	web4, web6, transit = "192.0.2.1", "2001:db8::1", "198.51.100.7"
	host, prefix24      = "192.0.2.1/32", "192.0.2.0/24"
	// p1 and p2 are the groups in which these peers are when they are not with the rest.
	p1, p2 = "10.9.0.1", "10.9.0.2"
)

func advertisements(all ...config.BGPAdvertisement) func(*config.BGP) {
	return func(section *config.BGP) { section.Advertisements = all }
}

func marked(preference uint32, communities ...string) config.BGPAttributes {
	return config.BGPAttributes{LocalPreference: &preference, Communities: communities}
}

func TestAdvertisements(t *testing.T) {
	type expectation struct{ group, prefix, want string }
	web := func() *cluster { return racks().service("s", false, web4, "n1").service("t", false, transit, "n1") }
	subnet := func(texts ...string) func(*config.BGP) { return func(b *config.BGP) { b.NextHopSubnets = texts } }
	const all, all1 = "10.0.0.1=100, 10.0.0.2=100, 10.0.0.3=100, 10.0.0.4=100", "10.1.0.1=100, 10.1.0.2=100, 10.1.0.3=100, 10.1.0.4=100"
	for name, test := range map[string]struct {
		cluster *cluster
		want    []expectation
	}{
		"nothing said": {web().announcing(func(*config.BGP) {}), []expectation{
			{"", host, "10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4"}, {p1, host, ""},
		}},
		"subnets for all":                  {web().announcing(subnet("10.1.0.0/16")), []expectation{{"", host, all1}}},
		"subnets of which a node has none": {web().announcing(subnet("10.1.0.0/31")), []expectation{{"", host, "10.1.0.1=100"}}},
		"subnets of the other family":      {web().announcing(subnet("fd00::/64")), []expectation{{"", host, all}}},
		"subnets of a peer": {web().announcing(func(b *config.BGP) { b.Peers[0].NextHopSubnets = []string{"10.1.0.0/16"} }), []expectation{
			{p1, host, all1}, {"", host, all},
		}},
		"pools": {web().announcing(advertisements(config.BGPAdvertisement{Pools: []string{"transit"}})), []expectation{
			{"", host, ""}, {"", "198.51.100.7/32", all},
		}},
		"peers": {web().announcing(advertisements(config.BGPAdvertisement{Peers: []string{"p2"}})), []expectation{
			{"", host, ""}, {p1, host, ""}, {p2, host, all},
		}},
		"Services": {web().labels("s", map[string]string{"app": "web"}).announcing(advertisements(
			config.BGPAdvertisement{ServiceSelectors: labeled("app", "web"), BGPAttributes: marked(7)},
		)), []expectation{{"", host, strings.ReplaceAll(all, "100", "7")}, {"", "198.51.100.7/32", ""}}},
		"nodes": {web().announcing(advertisements(config.BGPAdvertisement{NodeSelectors: labeled("rack", "a")})), []expectation{
			{"", host, "10.0.0.1=100, 10.0.0.3=100"},
		}},
		"one rack is preferred, and the other one is behind it": {web().announcing(advertisements(
			config.BGPAdvertisement{BGPAttributes: marked(100, "1:1")},
			config.BGPAdvertisement{NodeSelectors: labeled("rack", "a"), BGPAttributes: marked(200, "2:2")},
		)), []expectation{{"", host, "10.0.0.1=200 1:1 2:2, 10.0.0.2=100 1:1, 10.0.0.3=200 1:1 2:2, 10.0.0.4=100 1:1"}}},
		"two preferences: the higher one": {web().announcing(advertisements(
			config.BGPAdvertisement{BGPAttributes: marked(300)}, config.BGPAdvertisement{BGPAttributes: marked(100, "9:9")},
		)), []expectation{{"", host, strings.ReplaceAll(all, "=100", "=300 9:9")}}},
		"each rack to its router": {web().announcing(advertisements(
			config.BGPAdvertisement{NodeSelectors: labeled("rack", "a"), Peers: []string{"p1"}},
			config.BGPAdvertisement{NodeSelectors: labeled("rack", "b"), Peers: []string{"p2"}, BGPAttributes: marked(50, "b:b")},
		)), []expectation{
			{p1, host, "10.0.0.1=100, 10.0.0.3=100"}, {p2, host, "10.0.0.2=50 b:b, 10.0.0.4=50 b:b"}, {"", host, ""},
		}},
		"an aggregate outside and addresses inside": {web().announcing(advertisements(
			config.BGPAdvertisement{Pools: []string{"public"}, Peers: []string{"p1"}, AggregationLength: 24},
			config.BGPAdvertisement{Peers: []string{"p2"}},
		)), []expectation{{p1, prefix24, all}, {p1, host, ""}, {p2, host, all}, {p2, prefix24, ""}}},
		"an aggregate of Services with policy Local: nodes that serve all": {
			racks().service("s", true, web4, "n1", "n2").service("u", true, "192.0.2.2", "n2", "n3").announcing(advertisements(
				config.BGPAdvertisement{AggregationLength: 24}, config.BGPAdvertisement{},
			)), []expectation{{"", prefix24, "10.0.0.2=100"}, {"", host, "10.0.0.1=100, 10.0.0.2=100"}}},
		"or any, if none serves all": {
			racks().service("s", true, web4, "n1").service("u", true, "192.0.2.2", "n2").announcing(advertisements(
				config.BGPAdvertisement{AggregationLength: 24},
			)), []expectation{{"", prefix24, "10.0.0.1=100, 10.0.0.2=100"}}},
		"an aggregate of IPv6": {racks().service("s", false, web6, "n1").announcing(advertisements(
			config.BGPAdvertisement{AggregationLength: 24, AggregationLengthV6: 64},
		)), []expectation{{"", "2001:db8::/64", "fd00::1=100, fd00::2=100, fd00::3=100, fd00::4=100"}, {"", web6 + "/128", ""}}},
		"attributes of the peer": {web().announcing(func(b *config.BGP) {
			b.Advertisements = []config.BGPAdvertisement{{Peers: []string{"p1"}, BGPAttributes: marked(300, "3:3")}}
			b.Peers[0].BGPAttributes = marked(7, "7:7")
		}), []expectation{{p1, host, strings.ReplaceAll(all, "=100", "=7 3:3 7:7")}}},
		"a rack that is being removed serves until it is gone, if an advertisement wants it": {func() *cluster {
			c := web()
			c.node(1, both(1), removal).node(3, both(3), removal)
			return c.announcing(advertisements(config.BGPAdvertisement{NodeSelectors: labeled("rack", "a"), Peers: []string{"p1"}}))
		}(), []expectation{{p1, host, "10.0.0.1=100, 10.0.0.3=100"}}},
	} {
		t.Run(name, func(t *testing.T) {
			out := test.cluster.derive()
			for _, one := range test.want {
				if got := toGroup(out, one.group, one.prefix); got != one.want {
					t.Errorf("group %q is announced %s by %s, want %s", one.group, one.prefix, got, one.want)
				}
			}
		})
	}
}

// TestLinksLeadToOwnNode has a router at the other end of a link: it gets what the node of this replica serves, and nothing by others.
func TestLinksLeadToOwnNode(t *testing.T) {
	const link = "::%rack"
	for own, want := range map[string][3]string{
		"n2": {"10.0.0.2=100", "10.0.0.2=100", ""}, "n3": {"10.0.0.3=100", "", "10.0.0.3=100"}, "": {}, "other": {},
	} {
		c := racks().service("s", false, web4, "n1").service("l", true, transit, "n2")
		for i := 1; i <= 4; i++ {
			name := fmt.Sprintf("n%d", i)
			c.Nodes[name] = withPods(c.Nodes[name], i)
		}
		c.Settings.ClusterNextHops, c.OwnNode = 1, own
		c.announcing(func(b *config.BGP) { b.Peers[0].Address, b.Peers[0].Interface = "", "rack" })
		out := c.derive()
		got := [3]string{toGroup(out, link, host), toGroup(out, link, transit+"/32"), toGroup(out, link, "10.244.3.0/24")}
		if got != want {
			t.Errorf("the replica on node %q announces %q over the link, want %q", own, got, want)
		}
		if all := toGroup(out, "", "10.244.2.0/24"); all != "10.0.0.2=100" {
			t.Errorf("the other routers get %q", all)
		}
	}
}

func TestRoutesToPodsOfGroups(t *testing.T) {
	c := racks()
	for i := 1; i <= 4; i++ {
		name := fmt.Sprintf("n%d", i)
		c.Nodes[name] = withPods(c.Nodes[name], i)
	}
	c.announcing(func(b *config.BGP) {
		b.BGPAttributes = marked(100, "1:1")
		b.Peers[0].NextHopSubnets = []string{"10.1.0.0/31"}
		b.Advertisements = []config.BGPAdvertisement{{Peers: []string{"p2"}}}
	})
	out := c.derive()
	for group, want := range map[string][2]string{
		"": {"10.0.0.1=100 1:1", "10.0.0.2=100 1:1"}, p2: {"10.0.0.1=100 1:1", "10.0.0.2=100 1:1"}, p1: {"10.1.0.1=100 1:1", ""},
	} {
		if got := [2]string{toGroup(out, group, "10.244.1.0/24"), toGroup(out, group, "10.244.2.0/24")}; got != want {
			t.Errorf("group %q is announced pods by %v, want %v", group, got, want)
		}
	}
}

func TestWhatIsSaidOfAdvertisements(t *testing.T) {
	local := func() *cluster { return racks().service("s", true, web4, "n1", "n2") }
	for name, test := range map[string]struct {
		cluster *cluster
		reason  model.Reason
		message string
		peers   []string
	}{
		"nothing said": {local().announcing(func(*config.BGP) {}), model.Announced, "2 next hops", nil},
		"no advertisement": {local().announcing(advertisements(config.BGPAdvertisement{Pools: []string{"transit"}})),
			model.NoAdvertisement, "192.0.2.1 is not announced: none of bgp.advertisements selects it for any peer", []string{}},
		"some peers": {local().announcing(advertisements(config.BGPAdvertisement{Peers: []string{"p3", "p1"}})),
			model.Announced, "2 next hops", []string{"p1", "p3"}},
		"no node for one peer": {local().announcing(advertisements(
			config.BGPAdvertisement{Peers: []string{"p1"}},
			config.BGPAdvertisement{Peers: []string{"p2"}, NodeSelectors: labeled("rack", "c")},
		)), model.Announced, "; not to p2: no next hop has an address", []string{"p1"}},
		"no node for any peer": {local().announcing(advertisements(config.BGPAdvertisement{NodeSelectors: labeled("rack", "c")})),
			model.NoNextHop, "2 nodes that bgp.advertisements or nextHopSubnets leave out", []string{}},
		"as a part of a prefix": {local().announcing(advertisements(config.BGPAdvertisement{Peers: []string{"p2"}, AggregationLength: 24})),
			model.Announced, "; to p2 in an aggregate only", []string{"p2"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := test.cluster.derive().Services[key("s")]
			if state.Reason() != test.reason || !strings.Contains(state.Message(), test.message) {
				t.Errorf("%s: %s", state.Reason(), state.Message())
			}
			if peers := state.Addresses[0].Peers; !slices.Equal(peers, test.peers) || (peers == nil) != (test.peers == nil) {
				t.Errorf("the peers are %v", peers)
			}
		})
	}
	c := local().announcing(advertisements(config.BGPAdvertisement{Pools: []string{"transit"}}))
	c.advertising.segment = true
	out := c.derive()
	if state := out.Services[key("s")]; !state.Announced() || !strings.Contains(state.Message(), "no router gets it") ||
		announced(out, web4) != "10.0.0.1 10.0.0.2" {
		t.Errorf("an address that is answered for on a segment: %s, by %s", state.Message(), announced(out, web4))
	}
}

func TestProbedWhereTrafficArrives(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*config.BGP)
		want   string
	}{
		"nothing said":                {func(*config.BGP) {}, "10.0.0.1"},
		"subnets for all":             {func(b *config.BGP) { b.NextHopSubnets = []string{"10.1.0.0/16"} }, "10.1.0.1"},
		"subnets that it has none of": {func(b *config.BGP) { b.NextHopSubnets = []string{"10.2.0.0/16"} }, "10.0.0.1"},
		"subnets of a peer":           {func(b *config.BGP) { b.Peers[1].NextHopSubnets = []string{"10.1.0.0/16"} }, "10.1.0.1"},
		"those for all go first": {func(b *config.BGP) {
			b.NextHopSubnets, b.Peers[1].NextHopSubnets = []string{"10.0.0.0/16"}, []string{"10.1.0.0/16"}
		}, "10.0.0.1"},
	} {
		c := racks().service("s", true, web4, "n1").announcing(test.change)
		for probe, addr := range targetsOf(c.Input, c.advertising) {
			if probe.Node == "n1" && addr.String() != test.want {
				t.Errorf("%s: port %d is probed at %s, want %s", name, probe.Port, addr, test.want)
			}
		}
	}
}

// drawAdvertising draws a section in which anything may select anything.
func drawAdvertising(t *rapid.T) *config.BGP {
	some := func(what string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), rapid.ID).Draw(t, what)
	}
	section := &config.BGP{NextHopSubnets: some("subnets", "10.0.0.0/16", "10.1.0.0/16", "fd00::/64")}
	for i := 1; i <= 3; i++ {
		section.Peers = append(section.Peers, config.BGPPeer{
			Name: fmt.Sprintf("p%d", i), Address: fmt.Sprintf("10.9.0.%d", i),
			NextHopSubnets: some("subnets of a peer", "10.0.0.0/16", "10.1.0.0/16"),
		})
	}
	for range rapid.IntRange(0, 4).Draw(t, "advertisements") {
		one := config.BGPAdvertisement{
			Pools: some("pools", "public", "transit"), Peers: some("peers", "p1", "p2", "p3"),
			AggregationLength: rapid.SampledFrom([]int32{0, 0, 24, 30}).Draw(t, "length"),
			BGPAttributes:     config.BGPAttributes{Communities: some("communities", "1:1", "2:2", "3:3")},
		}
		if rapid.Bool().Draw(t, "preference") {
			one.LocalPreference = ptr.To(rapid.Uint32Range(0, 300).Draw(t, "local preference"))
		}
		if rack := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rack"); rack != "" {
			one.NodeSelectors = labeled("rack", rack)
		}
		if app := rapid.SampledFrom([]string{"", "web"}).Draw(t, "app"); app != "" {
			one.ServiceSelectors, one.AggregationLength = labeled("app", app), 0
		}
		section.Advertisements = append(section.Advertisements, one)
	}
	return section
}

func drawAdvertised(t *rapid.T) (*cluster, *config.BGP) {
	c, section := drawCluster(t), drawAdvertising(t)
	c.PoolOf = racks().PoolOf
	for i := range len(c.Nodes) {
		node := c.Nodes[fmt.Sprintf("n%d", i+1)]
		if rapid.Bool().Draw(t, "two networks") {
			both(i + 1)(&node)
		}
		c.Nodes[node.Name] = node
	}
	for name := range c.Services {
		if rapid.Bool().Draw(t, "labeled") {
			c.labels(name.Name, map[string]string{"app": "web"})
		}
	}
	c.advertising = NewAdvertising(section, false)
	return c, section
}

// TestOnlyWhatIsAdvertised holds what each peer is announced against the section, one path at a time.
func TestOnlyWhatIsAdvertised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, section := drawAdvertised(t)
		out := c.derive()
		for _, group := range section.Groups() {
			for prefix, route := range out.Table.For(group.Name) {
				if len(route.Attributes) != len(route.NextHops) || !slices.IsSortedFunc(route.NextHops, netip.Addr.Compare) {
					t.Fatalf("%s: %+v", prefix, route)
				}
				for _, hop := range route.NextHops {
					if !group.Contains(hop) || hop.Is4() != prefix.Addr().Is4() {
						t.Fatalf("%v is announced %s by %s", group, prefix, hop)
					}
					if route.Kind != routing.PodCIDR && len(section.Advertisements) > 0 && !allowed(c, section, group, prefix, hop) {
						t.Fatalf("%v is announced %s by %s, which no advertisement says", group, prefix, hop)
					}
				}
			}
		}
		for name, state := range out.Services {
			if state.Message() == "" || state.Reason() == "" {
				t.Fatalf("nothing is said of %s", name)
			}
		}
		if again := c.derive(); !again.Table.Equal(out.Table) {
			t.Fatalf("%v, and again %v", out.Table, again.Table)
		}
	})
}

// allowed reports whether an advertisement announces a prefix by a next hop to a group.
func allowed(c *cluster, section *config.BGP, group config.PeerGroup, prefix netip.Prefix, hop netip.Addr) bool {
	return slices.ContainsFunc(section.Advertisements, func(one config.BGPAdvertisement) bool {
		if len(one.Peers) > 0 && !slices.ContainsFunc(group.Peers, func(peer string) bool { return slices.Contains(one.Peers, peer) }) {
			return false
		}
		for _, node := range c.Nodes {
			if !slices.Contains(node.Addresses, hop) || !config.MatchesAny(one.NodeSelectors, node.Labels) {
				continue
			}
			for _, service := range c.Services {
				for _, addr := range service.Addresses {
					whole := netip.PrefixFrom(addr, one.Length(addr)).Masked()
					if whole == prefix && config.MatchesAny(one.ServiceSelectors, service.Labels) &&
						(len(one.Pools) == 0 || slices.Contains(one.Pools, c.PoolOf(addr))) {
						return true
					}
				}
			}
		}
		return false
	})
}

// TestAdvertisementsOfOthersChangeNothing is the promise to each peer: it is announced the same whatever is said of others.
func TestAdvertisementsOfOthersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, section := drawAdvertised(t)
		section.Advertisements = append(section.Advertisements, config.BGPAdvertisement{Peers: []string{"p1"}})
		section.Peers[0].NextHopSubnets = []string{"10.0.0.0/16"}
		c.advertising = NewAdvertising(section, false)
		before := c.derive().Table.For(p1)

		other := drawAdvertising(t)
		section.Peers[1].NextHopSubnets, section.Peers[2].NextHopSubnets = other.Peers[1].NextHopSubnets, other.Peers[2].NextHopSubnets
		for _, one := range other.Advertisements {
			one.Peers = []string{"p2", "p3"}
			section.Advertisements = append(section.Advertisements, one)
		}
		c.advertising = NewAdvertising(section, false)
		if after := c.derive().Table.For(groupOf(section, "p1")); !after.Equal(before) {
			t.Fatalf("%v became %v", before, after)
		}
	})
}

func groupOf(section *config.BGP, peer string) string {
	for _, group := range section.Groups() {
		if slices.Contains(group.Peers, peer) {
			return group.Name
		}
	}
	return ""
}

// TestUnrestrictedIsAsBefore compares what is announced to all with what one advertisement of everything says.
func TestUnrestrictedIsAsBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		plain := c.derive().Table.For("")
		c.announcing(advertisements(config.BGPAdvertisement{}))
		one := c.derive().Table.For("")
		hops := func(table routing.Table) map[netip.Prefix]string {
			all := map[netip.Prefix]string{}
			for prefix, route := range table {
				all[prefix] = fmt.Sprint(route.NextHops)
			}
			return all
		}
		if !maps.Equal(hops(plain), hops(one)) {
			t.Fatalf("%v, and by an advertisement %v", hops(plain), hops(one))
		}
	})
}
