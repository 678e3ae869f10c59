package announce

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// at gives a node other InternalIPs.
func at(addresses ...string) func(*model.Node) {
	return func(node *model.Node) {
		node.Addresses = nil
		for _, text := range addresses {
			node.Addresses = append(node.Addresses, netip.MustParseAddr(text))
		}
	}
}

// segment sets the networks of this machine.
func (c *cluster) segment(networks ...string) *cluster {
	for _, text := range networks {
		c.Networks = append(c.Networks, netip.MustParsePrefix(text))
	}
	return c
}

// onSegment returns the next hop of an address for the hosts of its network; empty for none.
func onSegment(out Output, addr string) string {
	parsed := netip.MustParseAddr(addr)
	if hop := out.Table[netip.PrefixFrom(parsed, parsed.BitLen())].Segment; hop.IsValid() {
		return hop.String()
	}
	return ""
}

// TestSegmentOfFewNodes has 4 of 20, and of 44, nodes on the network of a pool: no address is without a next hop there.
func TestSegmentOfFewNodes(t *testing.T) {
	for _, elsewhere := range []int{16, 40} {
		c := newCluster().segment("10.1.4.250/24", "fd04::fa/64", "10.1.60.250/24", "fd60::fa/64")
		c.Settings.PodRoutes, c.Settings.ClusterNextHops = false, 8
		for i := 1; i <= elsewhere; i++ {
			c.node(i, at(fmt.Sprintf("10.1.4.%d", i), fmt.Sprintf("fd04::%x", i)))
		}
		for i := 201; i <= 204; i++ {
			c.node(i, at(fmt.Sprintf("10.1.60.%d", i), fmt.Sprintf("fd60::%x", i)))
		}
		const services = 41
		for i := range services {
			c.service(fmt.Sprint("s", i), false, fmt.Sprintf("10.1.60.%d fd60::1:%x", 100+i, i), "n1")
		}
		out, load := Desired(c.Input), map[string]int{}
		for i := range services {
			for addr, network := range map[string]string{fmt.Sprintf("10.1.60.%d", 100+i): "10.1.60.", fmt.Sprintf("fd60::1:%x", i): "fd60::"} {
				hop := onSegment(out, addr)
				if !strings.HasPrefix(hop, network) {
					t.Errorf("%d nodes elsewhere: the next hop of %s is %q", elsewhere, addr, hop)
				}
				load[hop]++
			}
		}
		if len(load) != 8 {
			t.Errorf("%d nodes elsewhere: 4 nodes share the addresses as %v", elsewhere, load)
		}
	}
}

func TestSegment(t *testing.T) {
	const vip, vip6 = "10.46.200.1", "fd46::1:1"
	both := func(i int) func(*model.Node) {
		return at(fmt.Sprintf("10.45.0.%d", i), fmt.Sprintf("10.46.0.%d", i), fmt.Sprintf("fd45::%d", i), fmt.Sprintf("fd46::%d", i))
	}
	first := func(i int) func(*model.Node) { return at(fmt.Sprintf("10.45.0.%d", i), fmt.Sprintf("fd45::%d", i)) }
	newCluster := func() *cluster {
		return newCluster().segment("10.45.0.250/16", "fd45::fa/64", "10.46.0.250/16", "fd46::fa/64")
	}
	for name, test := range map[string]struct {
		cluster     *cluster
		want, want6 string
	}{
		"the second interface has the network": {newCluster().node(1, both(1)).service("s", false, vip+" "+vip6, "n1"), "10.46.0.1", "fd46::1"},
		"no node is there":                     {newCluster().node(1, first(1)).service("s", false, vip+" "+vip6, "n1"), "", ""},
		"this machine is not there": {func() *cluster {
			c := newCluster().node(1, both(1)).service("s", false, vip+" "+vip6, "n1")
			c.Networks = c.Networks[:2]
			return c
		}(), "", ""},
		"present ones drain, and others do not": {
			newCluster().node(1, both(1), removal).node(2, first(2)).service("s", false, vip+" "+vip6, "n1"), "10.46.0.1", "fd46::1"},
		"present ones do not answer": {
			newCluster().node(1, both(1)).node(2, first(2)).health("n1", 0, model.Unhealthy).service("s", false, vip+" "+vip6, "n1"), "", ""},
		"policy Local, endpoints there and elsewhere": {
			newCluster().node(1, both(1)).node(2, first(2)).node(3, both(3)).service("s", true, vip+" "+vip6, "n1", "n2"), "10.46.0.1", "fd46::1"},
		"policy Local, endpoints elsewhere": {
			newCluster().node(1, both(1)).node(2, first(2)).service("s", true, vip+" "+vip6, "n2"), "", ""},
		"policy Local, those there are terminating": {
			newCluster().node(1, both(1)).node(2, first(2)).service("s", true, vip+" "+vip6, "~n1", "n2"), "10.46.0.1", "fd46::1"},
	} {
		t.Run(name, func(t *testing.T) {
			out := Desired(test.cluster.Input)
			if got, got6 := onSegment(out, vip), onSegment(out, vip6); got != test.want || got6 != test.want6 {
				t.Errorf("next hops %q and %q, want %q and %q", got, got6, test.want, test.want6)
			}
		})
	}
}

// TestTwoPoolsOnTwoNetworks has the addresses of one pool on the first network of the nodes, and those of another on the second.
func TestTwoPoolsOnTwoNetworks(t *testing.T) {
	c := newCluster().segment("10.45.0.250/16", "10.46.0.250/16")
	for i := 1; i <= 4; i++ {
		c.node(i, at(fmt.Sprintf("10.45.0.%d", i), fmt.Sprintf("10.46.0.%d", i)))
	}
	for i := range 50 {
		c.service(fmt.Sprint("a", i), false, fmt.Sprintf("10.45.200.%d", i), "n1").service(fmt.Sprint("b", i), false, fmt.Sprintf("10.46.200.%d", i), "n1")
	}
	out := Desired(c.Input)
	for i := range 50 {
		for _, network := range []string{"10.45.", "10.46."} {
			if hop := onSegment(out, fmt.Sprintf("%s200.%d", network, i)); !strings.HasPrefix(hop, network) {
				t.Errorf("the next hop of %s200.%d is %q", network, i, hop)
			}
		}
	}
}

// A kubelet chooses the address of its node, and by that no address of a load balancer: the names of nodes decide.
func TestNoAddressWins(t *testing.T) {
	chosen := map[bool]bool{}
	for i := 20; i < 190; i++ {
		c := newCluster().segment("10.0.0.250/24").node(1).node(2).node(3)
		c.node(4, at(fmt.Sprintf("10.0.0.%d", i))).service("s", false, "10.0.0.200", "n1")
		hop := onSegment(Desired(c.Input), "10.0.0.200")
		chosen[hop == fmt.Sprintf("10.0.0.%d", i)] = true
	}
	if len(chosen) != 1 {
		t.Error("by its address a node changes who is chosen")
	}
}

func TestSegmentSpreadsAndStays(t *testing.T) {
	choose := func(nodes ...int) routing.Table {
		c := newCluster().segment("10.0.0.250/16")
		for _, i := range nodes {
			c.node(i)
		}
		for i := range 200 {
			c.service(fmt.Sprint("s", i), false, fmt.Sprintf("10.0.1.%d", i), "n1")
		}
		return Desired(c.Input).Table
	}
	before := choose(1, 2, 3, 4)
	load := map[netip.Addr]int{}
	for _, route := range before {
		load[route.Segment]++
	}
	for hop, n := range load {
		if n < 30 || n > 70 {
			t.Errorf("%s has %d of 200 addresses", hop, n)
		}
	}
	for prefix, route := range choose(1, 2, 4) {
		if was := before[prefix].Segment; was != route.Segment && was.String() != "10.0.0.3" {
			t.Errorf("%s moved from %s to %s", prefix, was, route.Segment)
		}
	}
}

// TestNetworksAreFollowed has an interface of this machine get an address.
func TestNetworksAreFollowed(t *testing.T) {
	r := newRig(t, nodeObject("a", "192.0.2.10"), serviceObject("web", vip), sliceObject("web", "a"))
	var known atomic.Bool
	changed := make(chan struct{}, 1)
	r.networks, r.networksChanged = func() []netip.Prefix {
		if known.Load() {
			return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}
		return nil
	}, changed
	r.run(t)
	r.awaitHops(t, vip, "192.0.2.10")
	if hop := r.Snapshot().Table[netip.MustParsePrefix(vip+"/32")].Segment; hop.IsValid() {
		t.Errorf("on no network the next hop is %s", hop)
	}
	known.Store(true)
	changed <- struct{}{}
	eventually(t, "a next hop on the network", func() bool {
		return r.Snapshot().Table[netip.MustParsePrefix(vip+"/32")].Segment == netip.MustParseAddr("192.0.2.10")
	})
}

// TestSegmentByAdvertisements has nodes and Services selected on a segment, and others not.
func TestSegmentByAdvertisements(t *testing.T) {
	section := &config.L2{Advertisements: []config.L2Advertisement{
		{Pools: []string{"edge"}, NodeSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"edge": "yes"}}}},
		{ServiceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "web"}}}},
	}}
	for name, test := range map[string]struct {
		pool, app string
		edge      bool
		want      string
	}{
		"by the node that is selected":            {"edge", "", true, "10.45.0.2"},
		"no node is selected":                     {"edge", "", false, ""},
		"another advertisement selects all":       {"edge", "web", false, "10.45.0.1 10.45.0.2"},
		"a Service of another pool":               {"office", "web", true, "10.45.0.1 10.45.0.2"},
		"a Service that no advertisement selects": {"office", "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster().segment("10.45.0.250/16").node(1, at("10.45.0.1")).node(2, at("10.45.0.2"), func(node *model.Node) {
				if test.edge {
					node.Labels = map[string]string{"edge": "yes"}
				}
			})
			c.service("s", false, "10.45.200.1", "n1")
			of := c.Services[key("s")]
			of.Labels = map[string]string{"app": test.app}
			c.Services[key("s")] = of
			c.PoolOf = func(netip.Addr) string { return test.pool }
			c.Segments = segmentRules(section)
			got := onSegment(Desired(c.Input), "10.45.200.1")
			if got == "" && test.want != "" || !strings.Contains(test.want, got) {
				t.Errorf("the next hop is %q, want %q", got, test.want)
			}
		})
	}
}
