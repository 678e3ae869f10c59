package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// drawCluster draws a cluster in which anything may be wrong with a node.
func drawCluster(t *rapid.T) *cluster {
	c := newCluster()
	c.Settings.ClusterNextHops = rapid.IntRange(1, 4).Draw(t, "clusterNextHops")
	c.Settings.LocalNextHops = rapid.IntRange(1, 4).Draw(t, "localNextHops")
	c.Blind = rapid.IntRange(0, 9).Draw(t, "blind") == 0
	health := rapid.SampledFrom([]model.Health{model.Healthy, model.Healthy, model.Healthy, model.Unhealthy, model.HealthLeaving,
		model.HealthUnknown})
	nodes := rapid.IntRange(0, 10).Draw(t, "nodes")
	for i := 1; i <= nodes; i++ {
		changes := rapid.SliceOfN(rapid.SampledFrom([]func(*model.Node){removal, excluded, uninitialized, only4}), 0, 1)
		c.node(i, changes.Draw(t, "changes")...)
		c.health(fmt.Sprintf("n%d", i), 0, health.Draw(t, "health"))
		c.Nodes[fmt.Sprintf("n%d", i)] = withPods(c.Nodes[fmt.Sprintf("n%d", i)], i)
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "services") {
		addr := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2 2001:db8::2", "2001:db8::3", "2001:db8::2", ""}).Draw(t, "address")
		var on []string
		for j := 1; j <= nodes; j++ {
			on = append(on, rapid.SampledFrom([][]string{nil, {fmt.Sprintf("n%d", j)}, {fmt.Sprintf("~n%d", j)}}).Draw(t, "endpoint")...)
		}
		c.service(fmt.Sprintf("s%d", i), rapid.Bool().Draw(t, "local"), addr, on...)
	}
	return c
}

func withPods(node model.Node, i int) model.Node {
	node.PodCIDRs = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24)}
	return node
}

func TestTableIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		out := Desired(c.Input)
		byAddr := map[netip.Addr]string{}
		for name, node := range c.Nodes {
			for _, addr := range node.Addresses {
				byAddr[addr] = name
			}
		}
		for prefix, route := range out.Table {
			if route.Prefix != prefix || len(route.NextHops) == 0 || !slices.IsSortedFunc(route.NextHops, netip.Addr.Compare) {
				t.Fatalf("%s: %+v", prefix, route)
			}
			if limit := max(c.Settings.ClusterNextHops, c.Settings.LocalNextHops); len(route.NextHops) > limit {
				t.Fatalf("%s has %d next hops, at most %d are asked for", prefix, len(route.NextHops), limit)
			}
			for _, hop := range route.NextHops {
				name, known := byAddr[hop]
				if !known || hop.Is4() != prefix.Addr().Is4() {
					t.Fatalf("%s by %s", prefix, hop)
				}
				if route.Kind == routing.ServiceAddress && out.Nodes[name].NextHop == model.Out {
					t.Fatalf("%s by %s, which is %s", prefix, name, out.Nodes[name].Reason)
				}
			}
		}
		for service, state := range out.Services {
			if state.Message() == "" || state.Reason() == "" {
				t.Fatalf("nothing is said of %s", service)
			}
			if len(state.Addresses) != len(c.Services[service].Addresses) {
				t.Fatalf("not all addresses of %s are spoken of", service)
			}
		}
	})
}

// TestSameInputSameTable runs with Go's random order of maps: what is equal must give what is equal.
func TestSameInputSameTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		first := Desired(c.Input)
		c.Nodes, c.Services = maps.Clone(c.Nodes), maps.Clone(c.Services)
		if again := Desired(c.Input); !first.Table.Equal(again.Table) {
			t.Fatalf("%v, and again %v", first.Table, again.Table)
		}
	})
}

// TestChangeElsewhereMovesNothing is the promise to flows: what becomes of other Services and of nodes that an address does not
// use leaves its next hops alone, and of a node that it does use only that one is replaced.
func TestChangeElsewhereMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCluster()
		c.Settings.ClusterNextHops = rapid.IntRange(1, 4).Draw(t, "clusterNextHops")
		nodes := rapid.IntRange(2, 12).Draw(t, "nodes")
		for i := 1; i <= nodes; i++ {
			c.node(i)
		}
		c.service("s", false, "192.0.2.1", "n1").service("other", false, "192.0.2.2", "n1")
		prefix := netip.MustParsePrefix("192.0.2.1/32")
		before := Desired(c.Input).Table[prefix].NextHops

		changed := fmt.Sprintf("n%d", rapid.IntRange(1, nodes).Draw(t, "changed"))
		used := slices.Contains(before, c.Nodes[changed].Address(model.IPv4))
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			delete(c.Nodes, changed)
		case 1:
			c.health(changed, 0, model.Unhealthy)
		case 2:
			c.Nodes[changed] = func() model.Node { n := c.Nodes[changed]; removal(&n); return n }()
		case 3:
			delete(c.Services, key("other"))
			used = false
		}
		after := Desired(c.Input).Table[prefix].NextHops
		var left, joined int
		for _, hop := range before {
			if !slices.Contains(after, hop) {
				left++
			}
		}
		for _, hop := range after {
			if !slices.Contains(before, hop) {
				joined++
			}
		}
		if want := map[bool]int{true: 1}[used]; left != want || joined > want {
			t.Fatalf("%s changed: %v became %v", changed, before, after)
		}
	})
}

// BenchmarkDesired is the largest cluster that is promised: each change of health costs this much.
func BenchmarkDesired(b *testing.B) {
	c := newCluster()
	c.Settings.ClusterNextHops = 8
	for i := range 2000 {
		name := fmt.Sprintf("node-%04d", i)
		c.Nodes[name] = model.Node{Name: name, UID: types.UID(name), Created: start,
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})},
			PodCIDRs:  []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + i>>8), byte(i), 0}), 24)}}
		c.health(name, 0, model.Healthy)
	}
	for i := range 10_000 {
		c.service(fmt.Sprintf("s%d", i), i%10 == 0, fmt.Sprintf("192.168.%d.%d", i>>8, i&255), fmt.Sprintf("node-%04d", i%2000))
	}
	for b.Loop() {
		if out := Desired(c.Input); len(out.Table) != 12_000 {
			b.Fatal(len(out.Table))
		}
	}
}
