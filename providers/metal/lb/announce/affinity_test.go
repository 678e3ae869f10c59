package announce

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// affine gives a Service sessionAffinity ClientIP.
func (c *cluster) affine(name string) *cluster {
	service := c.Services[key(name)]
	service.Affinity = true
	c.Services[key(name)] = service
	return c
}

// to puts a Service into another namespace.
func (c *cluster) to(namespace, name string) *cluster {
	service, from := c.Services[key(name)], key(name)
	service.Key.Namespace = namespace
	c.Services[service.Key], c.Endpoints[service.Key] = service, c.Endpoints[from]
	delete(c.Services, from)
	return c
}

// TestSessionAffinity has one next hop for Services with session affinity: routers spread the connections of a client over several, and
// each node chooses a pod by itself.
func TestSessionAffinity(t *testing.T) {
	const vip = "192.0.2.1"
	all := []string{"n1", "n2", "n3", "n4"}
	nodes := func() *cluster { return newCluster().node(1).node(2).node(3).node(4) }
	for name, test := range map[string]struct {
		cluster *cluster
		want    int
	}{
		"policy Cluster":              {nodes().service("s", false, vip, all...).affine("s"), 1},
		"policy Local":                {nodes().service("s", true, vip, all...).affine("s"), 1},
		"without":                     {nodes().service("s", true, vip, all...), 4},
		"an address that is shared":   {nodes().service("s", true, vip, all...).service("t", true, vip, all...).affine("t"), 1},
		"shared by another's":         {nodes().service("s", false, vip, all...).service("t", false, vip, all...).affine("t").to("tenant", "t"), 2},
		"both namespaces have it":     {nodes().service("s", false, vip, all...).affine("s").service("t", false, vip, all...).affine("t").to("tenant", "t"), 1},
		"no endpoints":                {nodes().service("s", true, vip).affine("s"), 0},
		"another Service has it only": {nodes().service("s", true, vip, all...).service("t", true, "192.0.2.2", all...).affine("t"), 4},
	} {
		t.Run(name, func(t *testing.T) {
			out := Desired(test.cluster.Input)
			first := announced(out, vip)
			if hops := strings.Fields(first); len(hops) != test.want {
				t.Errorf("next hops %s", first)
			}
			if again := announced(Desired(test.cluster.Input), vip); again != first {
				t.Errorf("next hops %s, and on another replica %s", first, again)
			}
		})
	}
	c := nodes().service("s", false, vip, all...).affine("s")
	before := announced(Desired(c.Input), vip)
	c.health("n"+before[len(before)-1:], 0, model.Unhealthy)
	if after := announced(Desired(c.Input), vip); after == before || len(strings.Fields(after)) != 1 {
		t.Errorf("after the death of %s: %q", before, after)
	}
	object := serviceObject("web", vip)
	if plain, _ := serviceOf(object); plain.Affinity {
		t.Error("a Service without affinity has one")
	}
	object.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	if affine, _ := serviceOf(object); !affine.Affinity {
		t.Error("sessionAffinity ClientIP is not seen")
	}
}

// TestWhoTurnsToLocalChoosesNothing has a tenant turn a Service to Local that shares the address of another namespace: the other's next hops stay.
func TestWhoTurnsToLocalChoosesNothing(t *testing.T) {
	const vip = "192.0.2.1"
	c := newCluster().node(1).node(2).node(3).service("s", false, vip, "n1", "n2").service("t", true, vip, "n3").to("tenant", "t")
	want := announced(Desired(newCluster().node(1).node(2).node(3).service("s", false, vip, "n1", "n2").Input), vip)
	if got := announced(Desired(c.Input), vip); got != want || got == "" {
		t.Errorf("next hops %q, want %q", got, want)
	}
}

// TestSessionAffinityForRouters has routers that always send a client to the same node, which get all next hops.
func TestSessionAffinityForRouters(t *testing.T) {
	web := func() *cluster { return racks().service("s", false, web4, "n1").affine("s") }
	for name, test := range map[string]struct {
		change        func(*config.BGP)
		p1, p2, whole int
	}{
		"none": {func(*config.BGP) {}, 1, 1, 0},
		"one":  {func(b *config.BGP) { b.Peers[0].HashesBySource = true }, 4, 1, 0},
		"all": {func(b *config.BGP) {
			b.Peers[0].HashesBySource, b.Peers[1].HashesBySource, b.Peers[2].HashesBySource = true, true, true
		}, 4, 4, 0},
		"two advertisements": {advertisements(
			config.BGPAdvertisement{NodeSelectors: labeled("rack", "a")}, config.BGPAdvertisement{NodeSelectors: labeled("rack", "b")}), 1, 1, 0},
		"a prefix stands for many Services": {advertisements(config.BGPAdvertisement{AggregationLength: 24}), 0, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := web().announcing(test.change)
			out := c.derive()
			groups := map[string]string{}
			if c.advertising != nil {
				for _, group := range c.advertising.groups {
					for _, peer := range group.Peers {
						groups[peer] = group.Name
					}
				}
			}
			count := func(peer, prefix string) int {
				if to := toGroup(out, groups[peer], prefix); to != "" {
					return len(strings.Split(to, ", "))
				}
				return 0
			}
			got := fmt.Sprint(count("p1", host), count("p2", host), count("p2", prefix24))
			if want := fmt.Sprint(test.p1, test.p2, test.whole); got != want {
				t.Errorf("next hops %s, want %s", got, want)
			}
		})
	}
}
