package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// cluster is an Input that tests build step by step.
type cluster struct {
	Input
	advertising *Advertising
}

func newCluster() *cluster {
	return &cluster{Input: Input{
		Now: start,
		Settings: Settings{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd01::/16")}, Selector: labels.Everything(), ClusterNextHops: 2, LocalNextHops: 64,
			DrainWait: 30 * time.Second, PodRoutes: true},
		Nodes:     map[string]model.Node{},
		Services:  map[types.NamespacedName]model.Service{},
		Endpoints: map[types.NamespacedName]model.ByFamily{},
		Health:    map[model.Probe]model.Health{},
		PoolOf:    func(netip.Addr) string { return "public" },
	}}
}

// node adds a healthy node n<i> with 10.0.0.<i> and fd00::<i>, changed as asked.
func (c *cluster) node(i int, change ...func(*model.Node)) *cluster {
	node := model.Node{Name: fmt.Sprintf("n%d", i), UID: types.UID(fmt.Sprint(i)), Created: start,
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), netip.MustParseAddr(fmt.Sprintf("fd00::%x", i))}}
	for _, apply := range change {
		apply(&node)
	}
	c.Nodes[node.Name] = node
	c.Health[model.Probe{Node: node.Name}] = model.Healthy
	return c
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

const checkPort = 30000

// service adds a Service with ready endpoints on nodes, of both families; those marked with ~ are terminating. The health-check
// node port of policy Local confirms the ready ones.
func (c *cluster) service(name string, local bool, addrs string, on ...string) *cluster {
	service := model.Service{Key: key(name), UID: types.UID(name), Local: local}
	if local {
		service.HealthCheckNodePort = checkPort
	}
	for text := range strings.FieldsSeq(addrs) {
		service.Addresses = append(service.Addresses, netip.MustParseAddr(text))
	}
	endpoints := model.Endpoints{Any: len(on) > 0, Ready: map[string]bool{}, Terminating: map[string]bool{}}
	for _, node := range on {
		if terminating, found := strings.CutPrefix(node, "~"); found {
			endpoints.Terminating[terminating] = true
			continue
		}
		endpoints.Ready[node] = true
		c.Health[model.Probe{Node: node, Port: checkPort}] = model.Healthy
	}
	c.Services[service.Key] = service
	c.Endpoints[service.Key] = model.ByFamily{endpoints, endpoints}
	return c
}

func (c *cluster) health(node string, port int32, health model.Health) *cluster {
	c.Health[model.Probe{Node: node, Port: port}] = health
	return c
}

// announced sets by which nodes an address is announced already.
func (c *cluster) announced(addr string, nodes ...int) *cluster {
	prefix := netip.PrefixFrom(netip.MustParseAddr(addr), 32)
	route := routing.Route{Prefix: prefix, Kind: routing.ServiceAddress}
	for _, i := range nodes {
		route.NextHops = append(route.NextHops, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	c.Announced = routing.Table{prefix: route}
	return c
}

func cordoned(node *model.Node)      { node.Cordoned = true }
func removal(node *model.Node)       { node.Removal = "the annotation" }
func excluded(node *model.Node)      { node.Excluded = true }
func uninitialized(node *model.Node) { node.Uninitialized = true }
func only4(node *model.Node)         { node.Addresses = node.Addresses[:1] }

// announced returns the next hops of an address as text.
func announced(out Output, addr string) string {
	parsed := netip.MustParseAddr(addr)
	return strings.Trim(fmt.Sprint(out.Table[netip.PrefixFrom(parsed, parsed.BitLen())].NextHops), "[]")
}

func TestNextHops(t *testing.T) {
	const vip, vip6 = "192.0.2.1", "2001:db8::1"
	for name, test := range map[string]struct {
		cluster *cluster
		addr    string
		want    string
		reason  model.Reason
		message string
	}{
		"policy Cluster: any node that works": {newCluster().node(1).node(2).service("s", false, vip, "n1"),
			vip, "10.0.0.1 10.0.0.2", model.Announced, "2 next hops"},
		"policy Cluster: endpoints on no node": {func() *cluster {
			c := newCluster().node(1).service("s", false, vip)
			c.Endpoints[key("s")] = model.ByFamily{{Any: true}}
			return c
		}(), vip, "10.0.0.1", model.Announced, "1 next hop"},
		"policy Local: endpoints that name no node": {func() *cluster {
			c := newCluster().node(1).service("s", true, vip)
			c.Endpoints[key("s")] = model.ByFamily{{Any: true}}
			return c
		}(), vip, "", model.NoNextHop, "none of the endpoints has a nodeName"},
		"policy Local: nodes with endpoints": {newCluster().node(1).node(2).node(3).service("s", true, vip, "n1", "n3"),
			vip, "10.0.0.1 10.0.0.3", model.Announced, ""},
		"IPv6 by IPv6": {newCluster().node(1).service("s", false, vip6, "n1"),
			vip6, "fd00::1", model.Announced, ""},
		"both families": {newCluster().node(1).node(2, only4).service("s", true, vip+" "+vip6, "n1", "n2"),
			vip6, "fd00::1", model.Announced, ""},

		"no endpoints, policy Cluster": {newCluster().node(1).service("s", false, vip), vip, "", model.NoEndpoints, "no endpoint"},
		"no endpoints, policy Local":   {newCluster().node(1).service("s", true, vip), vip, "", model.NoEndpoints, "no endpoint"},
		"no address":                   {newCluster().node(1).service("s", true, "", "n1"), vip, "", model.NoAddress, "no address"},
		"no nodes": {newCluster().service("s", false, vip, "gone"),
			vip, "", model.NoNextHop, "there is no node"},
		"nodes of one family only": {newCluster().node(1, only4).service("s", false, vip6, "n1"),
			vip6, "", model.NoNextHop, "1 node without an IPv6 InternalIP"},
		"control plane excluded": {
			newCluster().node(1, excluded).node(2, excluded).node(3, uninitialized).service("s", false, vip, "n1"),
			vip, "", model.NoNextHop,
			"2 nodes labeled node.kubernetes.io/exclude-from-external-load-balancers, 1 node not initialized"},
		"control plane excluded, and the label ignored": {func() *cluster {
			c := newCluster().node(1, excluded).service("s", false, vip, "n1")
			c.Settings.IgnoreExcludeLabel = true
			return c
		}(), vip, "10.0.0.1", model.Announced, ""},
		"not selected": {func() *cluster {
			edge := func(n *model.Node) { n.Labels = map[string]string{"edge": "yes"} }
			c := newCluster().node(1).node(2, edge).service("s", false, vip, "n1")
			c.Settings.Selector = labels.SelectorFromSet(labels.Set{"edge": "yes"})
			return c
		}(), vip, "10.0.0.2", model.Announced, ""},

		"a node that does not answer is out": {
			newCluster().node(1).node(2).health("n1", 0, model.Unhealthy).service("s", false, vip, "n1"),
			vip, "10.0.0.2", model.Announced, ""},
		"a node without a decision is out": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthUnknown).service("s", false, vip, "n1"),
			vip, "10.0.0.2", model.Announced, ""},
		"unless no probe is answered": {func() *cluster {
			c := newCluster().node(1).service("s", true, vip, "n1")
			c.health("n1", 0, model.HealthUnknown).health("n1", checkPort, model.HealthUnknown).Blind = true
			return c
		}(), vip, "10.0.0.1", model.ProbesFail, "check the network of this replica"},
		"all nodes are dead one by one": {newCluster().node(1).health("n1", 0, model.Unhealthy).service("s", false, vip, "n1"),
			vip, "", model.NoNextHop, "1 node whose kube-proxy"},
		"kube-proxy does not know of the endpoint yet": {
			newCluster().node(1).node(2).service("s", true, vip, "n1", "n2").health("n1", checkPort, model.Unhealthy),
			vip, "10.0.0.2", model.Announced, ""},
		"nothing is known of the port": {
			newCluster().node(1).service("s", true, vip, "n1").health("n1", checkPort, model.HealthUnknown),
			vip, "10.0.0.1", model.AnnouncedUnconfirmed, "not been asked yet"},
		"nothing is known of one of two ports": {
			newCluster().node(1).node(2).service("s", true, vip, "n1", "n2").health("n1", checkPort, model.HealthUnknown),
			vip, "10.0.0.2", model.Announced, ""},
		"endpoints that end are better than a port of which nothing is known": {
			newCluster().node(1).node(2).service("s", true, vip, "n1", "~n2").health("n1", checkPort, model.HealthUnknown),
			vip, "10.0.0.2", model.AnnouncedTerminating, ""},
		"what is announced stays while its port is unknown": {func() *cluster {
			c := newCluster().node(1).node(2).node(3).service("s", true, vip, "n1", "n2", "n3")
			c.health("n1", checkPort, model.HealthUnknown).health("n3", checkPort, model.HealthUnknown)
			c.announced(vip, 1)
			return c
		}(), vip, "10.0.0.1 10.0.0.2", model.Announced, ""},
		"what is announced goes when its port says no": {func() *cluster {
			c := newCluster().node(1).node(2).service("s", true, vip, "n1", "n2").health("n1", checkPort, model.Unhealthy)
			c.announced(vip, 1, 2)
			return c
		}(), vip, "10.0.0.2", model.Announced, ""},
		"kube-proxy has been away for long": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthRefused).service("s", false, vip, "n1"),
			vip, "10.0.0.2", model.Announced, ""},
		"all kube-proxies have been away for long": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthRefused).health("n2", 0, model.HealthRefused).
				service("s", false, vip, "n1"),
			vip, "10.0.0.1 10.0.0.2", model.AnnouncedUnconfirmed, "refuse connections"},
		"the only node with endpoints has no kube-proxy for long": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthRefused).service("s", true, vip, "n1").
				health("n1", checkPort, model.HealthRefused),
			vip, "10.0.0.1", model.AnnouncedUnconfirmed, ""},
		"a node that is being removed before one that refuses": {
			newCluster().node(1, removal).node(2).health("n2", 0, model.HealthRefused).service("s", false, vip, "n1"),
			vip, "10.0.0.1", model.AnnouncedDraining, ""},
		"a node that flaps has to wait": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthDamped).service("s", false, vip, "n1"),
			vip, "10.0.0.2", model.Announced, ""},
		"unless it is the only one": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthDamped).health("n2", 0, model.Unhealthy).
				service("s", false, vip, "n1"),
			vip, "10.0.0.1", model.AnnouncedUnconfirmed, ""},
		"no kube-proxy has ever answered": {func() *cluster {
			c := newCluster().node(1).node(2).node(3).service("s", false, vip, "n1")
			c.health("n1", 0, model.HealthRefused).health("n2", 0, model.HealthUnreached).health("n3", 0, model.Unhealthy)
			c.Unproven = true
			return c
		}(), vip, "10.0.0.1 10.0.0.2", model.Announced, "set announcement.health.kubeProxyProbe"},
		"kube-proxy is not asked": {func() *cluster {
			c := newCluster().node(1).node(2).service("s", false, vip, "n1")
			c.Settings.Unprobed, c.Health = true, nil
			return c
		}(), vip, "10.0.0.1 10.0.0.2", model.Announced, ""},
		"a cordoned node serves": {newCluster().node(1, cordoned).service("s", false, vip, "n1"),
			vip, "10.0.0.1", model.Announced, ""},
		"unless the config says that it drains": {func() *cluster {
			c := newCluster().node(1, cordoned).node(2).service("s", false, vip, "n1")
			c.Settings.DrainOnCordon = true
			return c
		}(), vip, "10.0.0.2", model.Announced, ""},
		"kube-proxy goes on with the endpoint that ends": {
			newCluster().node(1).service("s", true, vip, "~n1", "n1").health("n1", checkPort, model.Unhealthy),
			vip, "10.0.0.1", model.AnnouncedTerminating, "terminating"},
		"no kube-proxy knows of the endpoint": {
			newCluster().node(1).service("s", true, vip, "n1").health("n1", checkPort, model.Unhealthy),
			vip, "", model.NoNextHop, "1 node with endpoints, whose kube-proxy does not confirm it"},

		"terminating endpoints get nothing while there are others": {
			newCluster().node(1).node(2).service("s", true, vip, "~n1", "n2"),
			vip, "10.0.0.2", model.Announced, ""},
		"terminating endpoints are better than none": {newCluster().node(1).node(2).service("s", true, vip, "~n1"),
			vip, "10.0.0.1", model.AnnouncedTerminating, "terminating"},
		"a node with both is as if it had ready ones only": {newCluster().node(1).service("s", true, vip, "~n1", "n1"),
			vip, "10.0.0.1", model.Announced, ""},

		"a node that is being removed leaves": {newCluster().node(1, removal).node(2).service("s", false, vip, "n1"),
			vip, "10.0.0.2", model.Announced, ""},
		"kube-proxy knows of the removal": {
			newCluster().node(1).node(2).health("n1", 0, model.HealthLeaving).service("s", false, vip, "n1"),
			vip, "10.0.0.2", model.Announced, ""},
		"if there is another with endpoints": {newCluster().node(1, removal).node(2).service("s", true, vip, "n1"),
			vip, "10.0.0.1", model.AnnouncedDraining, "being removed"},
		"ready on a leaving node before ending": {newCluster().node(1, removal).node(2).service("s", true, vip, "n1", "~n2"),
			vip, "10.0.0.1", model.AnnouncedDraining, ""},
		"a node that is removed and dead is out": {
			newCluster().node(1, removal).health("n1", 0, model.Unhealthy).service("s", false, vip, "n1"),
			vip, "", model.NoNextHop, ""},
		"shared: what is common": {
			newCluster().node(1).node(2).node(3).service("a", true, vip, "n1", "n2").service("s", true, vip, "n2", "n3"),
			vip, "10.0.0.2", model.Announced, ""},
		"shared: all if nothing is common": {
			newCluster().node(1).node(2).service("a", true, vip, "n1").service("s", true, vip, "n2"),
			vip, "10.0.0.1 10.0.0.2", model.Announced, ""},
		"shared: one without endpoints": {newCluster().node(1).node(2).service("a", true, vip, "n1").service("s", true, vip),
			vip, "10.0.0.1", model.Announced, ""},
		"shared: Local decides": {newCluster().node(1).node(2).node(3).service("a", true, vip, "n3").service("s", false, vip, "n2"),
			vip, "10.0.0.3", model.Announced, ""},
		"two Node objects of one machine": {
			newCluster().node(1).node(1, func(n *model.Node) { n.Name = "again" }).service("s", false, vip, "n1"),
			vip, "10.0.0.1", model.Announced, "1 next hop"},
		"endpoints on a node that is not of ours": {newCluster().node(1).service("s", true, vip, "foreign"),
			vip, "", model.NoNextHop, "does not know"},
		"an address in IPv6 notation is an IPv4 one": {newCluster().node(1).service("s", false, "::ffff:192.0.2.1", "n1"),
			vip, "10.0.0.1", model.Announced, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := Desired(test.cluster.Input)
			if got := announced(out, test.addr); got != test.want {
				t.Errorf("next hops %q, want %q", got, test.want)
			}
			state := out.Services[key("s")]
			if state.Reason() != test.reason || !strings.Contains(state.Message(), test.message) {
				t.Errorf("said: %s, %q; want %s, %q", state.Reason(), state.Message(), test.reason, test.message)
			}
			if state.Announced() != (test.want != "") {
				t.Errorf("the Service is announced: %t", state.Announced())
			}
		})
	}
}

// TestBlindReplicaIsUncertain marks what probes say, and not the routes to pods, about which they say nothing.
func TestBlindReplicaIsUncertain(t *testing.T) {
	c := newCluster().node(1).service("s", false, "192.0.2.1", "n1")
	c.Nodes["n1"] = withPods(c.Nodes["n1"], 1)
	for _, blind := range []bool{false, true} {
		c.Blind = blind
		for _, route := range Desired(c.Input).Table.Sorted() {
			if want := blind && route.Kind == routing.ServiceAddress; route.Uncertain != want {
				t.Errorf("blind %t: %+v", blind, route)
			}
		}
	}
	if (routing.Table{}).Equal(Desired(c.Input).Table) {
		t.Error("nothing is announced")
	}
}

func TestNextHopsAreLimitedByPolicy(t *testing.T) {
	for _, local := range []bool{false, true} {
		c := newCluster().node(1).node(2).node(3).node(4).service("s", local, "192.0.2.1", "n1", "n2", "n3", "n4")
		c.Settings.ClusterNextHops, c.Settings.LocalNextHops = 2, 3
		want := map[bool]int{false: 2, true: 3}[local]
		if got := len(strings.Fields(announced(Desired(c.Input), "192.0.2.1"))); got != want {
			t.Errorf("policy Local %t: %d next hops, want %d", local, got, want)
		}
	}
}

func TestDrainingEndsAfterTheWait(t *testing.T) {
	const vip = "192.0.2.1"
	c := newCluster().node(1, removal).service("s", false, vip, "n1")
	out := Desired(c.Input)
	if announced(out, vip) != "10.0.0.1" || !out.Next.Equal(start.Add(30*time.Second)) {
		t.Fatalf("at first: %q, next change at %s", announced(out, vip), out.Next)
	}
	c.Draining, c.Now = out.Draining, start.Add(30*time.Second-1)
	if out = Desired(c.Input); announced(out, vip) != "10.0.0.1" || out.Nodes["n1"].NextHop != model.Draining {
		t.Fatalf("before the wait is over: %q, %+v", announced(out, vip), out.Nodes["n1"])
	}
	c.Draining, c.Now = out.Draining, start.Add(30*time.Second)
	if out = Desired(c.Input); announced(out, vip) != "" || out.Nodes["n1"].Reason != model.NodeDrained || !out.Next.IsZero() {
		t.Fatalf("after the wait: %q, %+v", announced(out, vip), out.Nodes["n1"])
	}
	if got := out.Services[key("s")].Message(); !strings.Contains(got, "1 node being removed") {
		t.Error(got)
	}
	c.node(1) // uncordoned: a later removal begins anew
	c.Draining = out.Draining
	if out = Desired(c.Input); announced(out, vip) != "10.0.0.1" || len(out.Draining) != 0 {
		t.Fatalf("after it was called off: %q, %v", announced(out, vip), out.Draining)
	}
}

func TestPodRoutes(t *testing.T) {
	cidrs := func(texts ...string) func(*model.Node) {
		return func(node *model.Node) {
			for _, text := range texts {
				node.PodCIDRs = append(node.PodCIDRs, netip.MustParsePrefix(text))
			}
		}
	}
	c := newCluster().
		node(1, cidrs("10.244.1.0/24", "fd01:0:0:1::/64"), excluded, uninitialized, removal).health("n1", 0, model.Unhealthy).
		node(2, cidrs("10.244.2.1/24", "fd01:0:0:2::/64"), only4).
		node(3, cidrs("10.244.1.0/24"), func(n *model.Node) { n.Created = start.Add(-1) }).
		node(4)
	out := Desired(c.Input)
	want := "10.244.1.0/24 by [10.0.0.3], 10.244.2.0/24 by [10.0.0.2], fd01:0:0:1::/64 by [fd00::1]"
	var got []string
	for _, route := range out.Table.Sorted() {
		if route.Kind != routing.PodCIDR {
			t.Errorf("%+v is no route to pods", route)
		}
		got = append(got, fmt.Sprintf("%s by %s", route.Prefix, route.NextHops))
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("routes %s, want %s", got, want)
	}
	if problems := out.Nodes["n1"].PodProblems; len(problems) != 1 || problems[0].Owner != "n3" {
		t.Errorf("of the conflict is said: %v", problems)
	}
	if problems := out.Nodes["n2"].PodProblems; len(problems) != 1 || problems[0].CIDR.String() != "fd01:0:0:2::/64" {
		t.Errorf("of the missing address is said: %v", problems)
	}
	c.Settings.PodRoutes = false
	if out = Desired(c.Input); len(out.Table) != 0 {
		t.Errorf("without podRoutes there are %v", slices.Collect(maps.Keys(out.Table)))
	}
}
