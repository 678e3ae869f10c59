package route

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// planCase is a row of a table: nodes and routes in, actions out.
type planCase struct {
	name   string
	nodes  []member
	routes []*cloudprovider.Route
	can    abilities
	want   []string
}

func runPlanCases(t *testing.T, tests []planCase) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := makePlan(desire(test.nodes, clusterCIDRs), test.routes, test.can)
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that is presumed to be ours gets the routes that it lacks, and nothing that is there is touched for it.
func TestPlanForPresumedNodes(t *testing.T) {
	waits := node("node-1", "10.120.0.0/24").as(presumed)
	runPlanCases(t, []planCase{
		{name: "nothing there", nodes: []member{waits}, want: []string{"create 10.120.0.0/24 by node-1"}},
		{name: "its route there", nodes: []member{waits}, routes: []*cloudprovider.Route{route("01", "10.120.0.0/24", "node-1")}},
		{name: "its route with other addresses", nodes: []member{waits}, routes: []*cloudprovider.Route{addressed("01", "10.120.0.0/24", "node-1", "other")}},
		{name: "a route to a pod CIDR that it does not have", nodes: []member{node("node-1", "10.120.1.0/24").as(presumed)}, routes: []*cloudprovider.Route{route("01", "10.120.0.0/24", "node-1")},
			want: []string{"create 10.120.1.0/24 by node-1"}},
		{name: "a foreign route to a part of it", nodes: []member{waits}, routes: []*cloudprovider.Route{route("01", "10.120.0.0/25", "gone")}},
		{name: "an unneeded blackhole", nodes: []member{waits}, routes: []*cloudprovider.Route{blackhole("01", "10.120.0.0/24", "gone")},
			want: []string{"remove 01", "create 10.120.0.0/24 by node-1"}},
		{name: "a pod CIDR that a node of ours has", nodes: []member{waits, node("node-2", "10.120.0.0/24")},
			want: []string{"create 10.120.0.0/24 by node-2"}},
		{name: "a pod CIDR outside the cluster's ranges", nodes: []member{node("node-1", "10.99.0.0/24").as(presumed)}},
		{name: "no room beside a node of ours", nodes: []member{waits, node("node-2", "10.120.1.0/24").created(time.Hour)}, can: abilities{maxRoutes: 1},
			want: []string{"create 10.120.1.0/24 by node-2", "RouteTableNearlyFull node-2 10.120.1.0/24", "RouteTableFull node-1 10.120.0.0/24"}},
	})
}

// A node that is presumed to be ours gets the condition that its routes are there, and never that they are not: with a network plugin
// of its own it needs none.
func TestConditionOfPresumedNodes(t *testing.T) {
	members := []member{
		node("routed", "10.120.0.0/24").as(presumed), node("refused", "10.120.1.0/24").as(presumed), node("foreign", "10.120.2.0/24").as(others),
		node("ours", "10.120.3.0/24"),
	}
	wanted := desire(members, clusterCIDRs)
	planned := makePlan(wanted, []*cloudprovider.Route{route("01", "10.120.0.0/24", "routed")}, abilities{})
	routedNodes, missing := routedNodesOf(members, wanted, planned, unmet(planned, allowed{makes: planned.makes}, nil),
		func(key) bool { return true })
	got := map[string]bool{}
	for _, one := range routedNodes {
		got[one.node.Name] = one.routed
	}
	if diff := cmp.Diff(map[string]bool{"routed": true, "ours": false}, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if missing != 1 {
		t.Errorf("%d routes are missing, want 1, to our node", missing)
	}
}

// The situations of the reference's TestReconcile, in its order: those with two IP families.
func TestPlanInTheReferencesSituationsWithTwoFamilies(t *testing.T) {
	dual3, dual4 := node("node-3", "10.120.0.0/24", "a00:100::/24"), node("node-4", "10.120.1.0/24", "a00:200::/24")
	dual := []*cloudprovider.Route{
		route("01", "10.120.0.0/24", "node-3"), route("02", "10.120.1.0/24", "node-4"),
		route("03", "a00:100::/24", "node-3"), route("04", "a00:200::/24", "node-4"),
	}
	runPlanCases(t, []planCase{
		{
			name: "routes have no addresses at the beginning", nodes: []member{dual3, dual4},
			routes: []*cloudprovider.Route{
				addressed("01", "10.120.0.0/24", "node-3"), addressed("02", "10.120.1.0/24", "node-4"),
				addressed("03", "a00:100::/24", "node-3"), addressed("04", "a00:200::/24", "node-4"),
			},
			want: []string{"recreate 01 by node-3", "recreate 03 by node-3", "recreate 02 by node-4", "recreate 04 by node-4"},
		},
		{
			name: "the routes' addresses changed", nodes: []member{dual3, dual4},
			routes: []*cloudprovider.Route{
				addressed("01", "10.120.0.0/24", "node-3", "other"), addressed("02", "10.120.1.0/24", "node-4", "addr-of-node-4"),
				addressed("03", "a00:100::/24", "node-3", "other"), addressed("04", "a00:200::/24", "node-4", "addr-of-node-4"),
			},
			want: []string{"recreate 01 by node-3", "recreate 03 by node-3"},
		},
		{
			name: "two pod CIDRs, no routes", nodes: []member{dual3, dual4},
			want: []string{
				"create 10.120.0.0/24 by node-3", "create a00:100::/24 by node-3",
				"create 10.120.1.0/24 by node-4", "create a00:200::/24 by node-4",
			},
		},
		{name: "two pod CIDRs, all routes created", nodes: []member{dual3, dual4}, routes: dual},
		{
			name: "two pod CIDRs, wrong routes", nodes: []member{dual3, dual4},
			routes: []*cloudprovider.Route{
				route("01", "10.120.1.0/24", "node-3"), route("02", "10.120.0.0/24", "node-4"),
				route("03", "a00:200::/24", "node-3"), route("04", "a00:100::/24", "node-4"),
			},
			want: []string{"recreate 02 by node-3", "recreate 04 by node-3", "recreate 01 by node-4", "recreate 03 by node-4"},
		},
		{
			name: "two pod CIDRs, some routes created", nodes: []member{dual3, dual4},
			routes: []*cloudprovider.Route{dual[0], dual[3]},
			want:   []string{"create a00:100::/24 by node-3", "create 10.120.1.0/24 by node-4"},
		},
		{
			name: "two pod CIDRs, too many routes", nodes: []member{dual3, dual4},
			routes: with(dual, route("x", "10.120.2.0/24", "node-x"), route("y", "a00:300::/24", "node-y")),
			want:   []string{"remove x", "remove y"},
		},
	})
}

// The situations of the reference's TestReconcile, in its order: those with one IP family.
func TestPlanInTheReferencesSituationsWithOneFamily(t *testing.T) {
	node1, node2 := node("node-1", "10.120.0.0/24"), node("node-2", "10.120.1.0/24")
	single := []*cloudprovider.Route{route("01", "10.120.0.0/24", "node-1"), route("02", "10.120.1.0/24", "node-2")}
	runPlanCases(t, []planCase{
		{name: "one pod CIDR, routes created", nodes: []member{node1, node2}, routes: single},
		{
			name: "one pod CIDR, the addresses changed", nodes: []member{node1, node2},
			routes: []*cloudprovider.Route{
				addressed("01", "10.120.0.0/24", "node-1", "old"), addressed("02", "10.120.1.0/24", "node-2", "old"),
			},
			want: []string{"recreate 01 by node-1", "recreate 02 by node-2"},
		},
		{
			name: "one pod CIDR, one route created", nodes: []member{node1, node2}, routes: single[:1],
			want: []string{"create 10.120.1.0/24 by node-2"},
		},
		{
			name: "one pod CIDR, no routes", nodes: []member{node1, node2},
			want: []string{"create 10.120.0.0/24 by node-1", "create 10.120.1.0/24 by node-2"},
		},
		{
			name: "one pod CIDR, too many routes", nodes: []member{node1, node2},
			routes: with(single, route("03", "10.120.2.0/24", "node-3"), route("04", "10.120.3.0/24", "node-4")),
			want:   []string{"remove 03", "remove 04"},
		},
		{
			name: "one pod CIDR, one of two routes is wrong", nodes: []member{node1, node2},
			routes: with(single[:1], route("03", "10.120.2.0/24", "node-3")),
			want:   []string{"remove 03", "create 10.120.1.0/24 by node-2"},
		},
		{
			name: "a node without pod CIDR", nodes: []member{node1, node("node-2")},
			want: []string{"create 10.120.0.0/24 by node-1"},
		},
		{
			name: "a blackhole in our range", nodes: []member{node1, node2},
			routes: with(single, blackhole("03", "10.120.2.0/24", "")), want: []string{"remove 03"},
		},
		{
			name: "a blackhole outside our range", nodes: []member{node1, node2},
			routes: with(single, blackhole("03", "10.1.2.0/24", "")),
		},
		{
			name: "the same pod CIDR twice", nodes: []member{node("node-4", "10.120.1.0/24", "10.120.1.0/24")},
			want: []string{"create 10.120.1.0/24 by node-4"},
		},
	})
}

func with(routes []*cloudprovider.Route, more ...*cloudprovider.Route) []*cloudprovider.Route {
	return append(slices.Clone(routes), more...)
}

func TestPlanReplacesWhatIsWrong(t *testing.T) {
	node1 := node("node-1", "10.120.0.0/24")
	runPlanCases(t, []planCase{
		{
			name: "the only route is a blackhole", nodes: []member{node1},
			routes: []*cloudprovider.Route{blackhole("01", "10.120.0.0/24", "node-1")}, want: []string{"recreate 01 by node-1"},
		},
		{
			name: "the only route is a blackhole, and it can be replaced", nodes: []member{node1}, can: abilities{replaces: true},
			routes: []*cloudprovider.Route{blackhole("01", "10.120.0.0/24", "")}, want: []string{"replace 01 by node-1"},
		},
		{
			name: "a pod CIDR has passed to another node", nodes: []member{node1},
			routes: []*cloudprovider.Route{route("01", "10.120.0.0/24", "gone")}, want: []string{"recreate 01 by node-1"},
		},
		{
			name: "of two routes the one that delivers is replaced", nodes: []member{node1}, can: abilities{replaces: true},
			routes: []*cloudprovider.Route{
				blackhole("01", "10.120.0.0/24", "node-1"), addressed("02", "10.120.0.0/24", "node-1", "old"),
				route("03", "10.120.0.0/24", "gone"),
			},
			want: []string{"remove 01", "remove 03", "replace 02 by node-1"},
		},
		{
			name: "two right routes stay, as for two tables", nodes: []member{node1},
			routes: []*cloudprovider.Route{route("02", "10.120.0.0/24", "node-1"), route("01", "10.120.0.0/24", "node-1")},
		},
		{
			name: "so do two spellings of one", nodes: []member{node("node-1", "a00:100::/24")},
			routes: []*cloudprovider.Route{route("01", "a00:100::/24", "node-1"), route("01", "A00:0100::/24", "node-1")},
		},
		{
			name: "of two routes by the node the one with other addresses goes", nodes: []member{node1},
			routes: []*cloudprovider.Route{
				addressed("01", "10.120.0.0/24", "node-1", "old"), addressed("02", "10.120.0.0/24", "node-1", "addr-of-node-1"),
			},
			want: []string{"remove 01"},
		},
	})
}

func TestPlanReadsDestinations(t *testing.T) {
	node1 := node("node-1", "10.120.0.0/24")
	runPlanCases(t, []planCase{
		{
			name: "a route is spelled otherwise by the cloud", nodes: []member{node("node-1", "a00:100::/24")},
			routes: []*cloudprovider.Route{route("01", "0A00:0100:0:0::/24", "node-1")},
		},
		{
			name: "addresses in another order", nodes: []member{func() member {
				m := node("node-1", "10.120.0.0/24")
				m.node.Status.Addresses = addresses("a", "b")
				return m
			}()},
			routes: []*cloudprovider.Route{addressed("01", "10.120.0.0/24", "node-1", "b", "a")},
		},
		{
			name: "a route to a part of a pod CIDR of no node", nodes: []member{node1},
			routes: []*cloudprovider.Route{route("01", "10.120.0.0/25", "gone")},
			want:   []string{"remove 01", "create 10.120.0.0/24 by node-1"},
		},
		{
			name:   "a route without target",
			routes: []*cloudprovider.Route{route("01", "10.120.0.0/25", "")}, want: []string{"remove 01"},
		},
		{
			name: "a route that covers more than the cluster CIDR", nodes: []member{node1},
			routes: []*cloudprovider.Route{
				route("01", "10.120.0.0/24", "node-1"), route("02", "10.120.0.0/15", "gone"), blackhole("03", "10.0.0.0/8", ""),
			},
		},
		{
			name:   "a route to no CIDR",
			routes: []*cloudprovider.Route{route("01", "pl-0123", "gone"), blackhole("02", "", "")},
		},
		{
			name: "a pod CIDR outside the cluster CIDRs", nodes: []member{node("node-1", "10.99.0.0/24")},
			want: []string{"create 10.99.0.0/24 by node-1", "PodCIDROutsideClusterCIDRs node-1 10.99.0.0/24"},
		},
		{
			name: "a route outside the cluster CIDRs is not removed for its successor", nodes: []member{node("node-1", "10.99.0.0/24")},
			routes: []*cloudprovider.Route{route("01", "10.99.0.0/24", "gone"), route("02", "10.99.0.0/25", "gone")},
			want:   []string{"create 10.99.0.0/24 by node-1", "PodCIDROutsideClusterCIDRs node-1 10.99.0.0/24"},
		},
	})
}

func TestPlanWithNodesThatAreNotOurs(t *testing.T) {
	mine := node("mine", "10.120.0.0/24")
	myRoute := route("mine", "10.120.0.0/24", "mine")
	foreign := func() member { return node("foreign", "10.120.7.0/24").as(others) }
	runPlanCases(t, []planCase{
		{name: "no routes are made for them", nodes: []member{foreign(), node("new", "10.120.8.0/24").as(undecided)}},
		{
			name: "their routes stay", nodes: []member{mine, foreign(), node("new", "10.120.8.0/24").as(undecided)},
			routes: []*cloudprovider.Route{
				myRoute, route("f", "10.120.7.0/24", "foreign"), blackhole("b", "10.120.9.0/24", "foreign"),
				route("n", "10.120.8.0/24", "new"), route("o", "10.120.10.0/24", "new"),
			},
		},
		{
			name: "a route to their pods under a name that we do not know stays", nodes: []member{mine, foreign()},
			routes: []*cloudprovider.Route{myRoute, route("f", "10.120.7.0/24", "i-123"), route("g", "10.120.7.128/25", "i-123")},
		},
		{
			name: "a blackhole to their pods without a node is removed", nodes: []member{mine, foreign()},
			routes: []*cloudprovider.Route{myRoute, blackhole("f", "10.120.7.0/24", "")}, want: []string{"remove f"},
		},
		{
			name: "a route of ours to their pods goes", nodes: []member{mine, foreign()},
			routes: []*cloudprovider.Route{myRoute, route("f", "10.120.7.0/24", "mine")}, want: []string{"remove f"},
		},
		{
			name: "their route to a pod CIDR of ours goes", nodes: []member{mine, foreign()},
			routes: []*cloudprovider.Route{route("f", "10.120.0.0/24", "foreign")}, want: []string{"recreate f by mine"},
		},
		{
			name: "a pod CIDR that they have, too, is theirs if they have the route", nodes: []member{node("mine", "10.120.7.0/24"), foreign()},
			routes: []*cloudprovider.Route{route("f", "10.120.7.0/24", "foreign")}, want: []string{"PodCIDRConflict mine 10.120.7.0/24"},
		},
		{
			name: "a pod CIDR that they have, too, is ours if we have the route", nodes: []member{node("mine", "10.120.7.0/24"), foreign()},
			routes: []*cloudprovider.Route{route("m", "10.120.7.0/24", "mine"), route("f", "10.120.7.0/24", "foreign")},
		},
		{
			name:   "a pod CIDR that they have, too, is ours if no route delivers",
			nodes:  []member{node("mine", "10.120.7.0/24"), foreign()},
			routes: []*cloudprovider.Route{blackhole("f", "10.120.7.0/24", "foreign")},
			want:   []string{"create 10.120.7.0/24 by mine"},
		},
	})
}

// A kubelet registers its node with a part of another node's pod CIDR, or with all of them.
func TestPlanWithPodCIDRsThatOverlap(t *testing.T) {
	older, evil := node("older", "10.99.1.0/24"), node("evil", "10.99.1.0/25").created(time.Hour)
	broad := node("broad", "10.120.0.0/16").created(-time.Hour)
	mine, yours := node("mine", "10.120.1.0/24"), node("yours", "10.120.2.0/24")
	outside := func(node, cidr string) string { return "PodCIDROutsideClusterCIDRs " + node + " " + cidr }
	runPlanCases(t, []planCase{
		{
			name: "a part of an older node's gets no route", nodes: []member{evil, older},
			want: []string{"create 10.99.1.0/24 by older", "PodCIDRConflict evil 10.99.1.0/25", outside("older", "10.99.1.0/24")},
		},
		{
			name: "a route that is there stays", nodes: []member{evil, older},
			routes: []*cloudprovider.Route{route("01", "10.99.1.0/25", "evil"), route("02", "10.99.1.0/24", "older")},
			want:   []string{outside("older", "10.99.1.0/24"), outside("evil", "10.99.1.0/25")},
		},
		{
			name: "a broad one of the oldest node costs no other its route", nodes: []member{mine, yours, broad},
			want: []string{"create 10.120.1.0/24 by mine", "create 10.120.2.0/24 by yours", "PodCIDRConflict broad 10.120.0.0/16"},
		},
		{
			name: "a part of a foreign node's gets no route", nodes: []member{node("foreign", "10.120.7.0/24").as(others), node("evil", "10.120.7.7/32").created(time.Hour)},
			want: []string{"PodCIDRConflict evil 10.120.7.7/32"},
		},
	})
}

// A kubelet may register its node with a range of Services, too.
func TestPlanWithPodCIDRsOfServices(t *testing.T) {
	services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("10.120.4.0/24")}
	nodes := []member{
		node("mine", "10.120.1.0/24"), node("broad", "10.0.0.0/8"), node("inside", "10.120.4.0/24"), node("outside", "10.99.0.0/24"),
		node("delivered", "10.98.0.0/24"), node("presumed", "10.120.4.0/25").as(presumed),
	}
	wanted := desire(nodes, clusterCIDRs)
	wanted.serviceCIDRs = services
	got := makePlan(wanted, []*cloudprovider.Route{route("01", "10.98.0.0/24", "delivered")}, abilities{})
	want := []string{
		"create 10.120.1.0/24 by mine", "PodCIDRConflict broad 10.0.0.0/8", "PodCIDRConflict inside 10.120.4.0/24", "PodCIDRConflict outside 10.99.0.0/24",
		"PodCIDROutsideClusterCIDRs delivered 10.98.0.0/24",
	}
	slices.Sort(want)
	have := lines(got)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestPlanWithAPodCIDRThatTwoNodesHave(t *testing.T) {
	older, younger := node("z-older", "10.120.0.0/24"), node("a-younger", "10.120.0.0/24").created(time.Hour)
	conflict := func(loser string) string { return "PodCIDRConflict " + loser + " 10.120.0.0/24" }
	runPlanCases(t, []planCase{
		{
			name: "the older one gets the route", nodes: []member{younger, older},
			want: []string{"create 10.120.0.0/24 by z-older", conflict("a-younger")},
		},
		{
			name: "the one that has the route keeps it", nodes: []member{younger, older},
			routes: []*cloudprovider.Route{route("01", "10.120.0.0/24", "a-younger")}, want: []string{conflict("z-older")},
		},
		{
			name: "the one that stays gets the route", nodes: []member{younger, node("z-older", "10.120.0.0/24").leaving()},
			want: []string{"create 10.120.0.0/24 by a-younger", conflict("z-older")},
		},
		{
			name: "of two routes one goes", nodes: []member{younger, older},
			routes: []*cloudprovider.Route{route("01", "10.120.0.0/24", "a-younger"), route("02", "10.120.0.0/24", "z-older")},
			want:   []string{"remove 01", conflict("a-younger")},
		},
	})
}

func TestPlanWithALimit(t *testing.T) {
	nodes := []member{
		node("c", "10.120.0.0/24"), node("b", "10.120.1.0/24").created(time.Minute), node("a", "10.120.2.0/24").created(time.Hour),
	}
	runPlanCases(t, []planCase{
		{
			name: "the oldest nodes get what room there is", nodes: nodes, can: abilities{maxRoutes: 2},
			want: []string{
				"create 10.120.0.0/24 by c", "create 10.120.1.0/24 by b",
				"RouteTableNearlyFull b 10.120.1.0/24", "RouteTableFull a 10.120.2.0/24",
			},
		},
		{
			name: "stale routes make room, others take it", nodes: nodes[:1], can: abilities{maxRoutes: 2},
			routes: []*cloudprovider.Route{route("stale", "10.120.9.0/24", "gone"), route("user", "192.168.0.0/16", "gateway")},
			want:   []string{"remove stale", "create 10.120.0.0/24 by c", "RouteTableNearlyFull c 10.120.0.0/24"},
		},
		{
			name: "a replacement takes no room", nodes: nodes[:1], can: abilities{maxRoutes: 1},
			routes: []*cloudprovider.Route{blackhole("01", "10.120.0.0/24", "")}, want: []string{"recreate 01 by c"},
		},
		{
			name: "a table beyond its limit", nodes: nodes[:1], can: abilities{maxRoutes: 1},
			routes: []*cloudprovider.Route{route("1", "192.168.0.0/16", "x"), route("2", "192.169.0.0/16", "y")},
			want:   []string{"RouteTableFull c 10.120.0.0/24"},
		},
	})
	got := makePlan(desire(nodes, clusterCIDRs), nil, abilities{maxRoutes: 2})
	if len(got.unmet) != 1 || got.unmet[0].node != "a" {
		t.Errorf("unmet: %v, want the node for which there is no room", got.unmet)
	}
}

// The rows of the reference's TestIsResponsibleForRoute.
func TestWithin(t *testing.T) {
	for _, test := range []struct {
		cluster, route string
		want           bool
	}{
		{"10.244.0.0/16", "10.244.0.0/24", true},
		{"10.244.0.0/16", "10.244.10.0/24", true},
		{"10.244.0.0/16", "10.244.255.0/24", true},
		{"10.244.0.0/14", "10.244.0.0/24", true},
		{"10.244.0.0/14", "10.247.255.0/24", true},
		{"a00:100::/10", "a00:100::/24", true},
		{"10.244.0.0/16", "10.224.0.0/24", false},
		{"10.244.0.0/16", "10.0.10.0/24", false},
		{"10.244.0.0/16", "10.255.255.0/24", false},
		{"10.244.0.0/14", "10.248.0.0/24", false},
		{"10.244.0.0/14", "10.243.255.0/24", false},
		{"a00:100::/10", "b00:100::/24", false},
		// A route that reaches beyond the range does not belong to it, even if it begins or ends inside.
		{"10.244.0.0/16", "10.244.0.0/15", false},
		{"10.245.0.0/16", "10.244.0.0/15", false},
		{"10.244.0.0/16", "10.244.0.0/16", true},
		{"10.244.0.0/16", "a00:100::/24", false},
		{"10.244.0.0/16", "", false},
	} {
		if got := destinationOf(test.route).within([]netip.Prefix{netip.MustParsePrefix(test.cluster)}); got != test.want {
			t.Errorf("%q within %s: %t, want %t", test.route, test.cluster, got, test.want)
		}
	}
}

func TestWantedRoute(t *testing.T) {
	wants := desire([]member{node("node-1", "a00:100::/24")}, clusterCIDRs).wants
	created := action{kind: create, want: &wants[0]}.wanted()
	if diff := cmp.Diff(&cloudprovider.Route{
		TargetNode: "node-1", TargetNodeAddresses: addresses("addr-of-node-1"), DestinationCIDR: "a00:100::/24",
	}, created); diff != "" {
		t.Errorf("route to create (-want +got):\n%s", diff)
	}
	replaced := action{kind: replace, want: &wants[0], old: addressed("01", "A00:100::/24", "node-2", "old")}.wanted()
	if diff := cmp.Diff(&cloudprovider.Route{
		Name: "01", TargetNode: "node-1", EnableNodeAddresses: true, TargetNodeAddresses: addresses("addr-of-node-1"),
		DestinationCIDR: "A00:100::/24",
	}, replaced); diff != "" {
		t.Errorf("replacement (-want +got):\n%s", diff)
	}
}

func TestStrays(t *testing.T) {
	routes := []*cloudprovider.Route{
		route("01", "10.120.0.0/24", "bare"), route("02", "10.1.0.0/24", "bare"), route("03", "10.120.1.0/24", "foreign"),
	}
	got := makePlan(desire([]member{node("bare"), node("lone"), node("foreign").as(others)}, clusterCIDRs), routes, abilities{})
	if diff := cmp.Diff([]types.NodeName{"bare"}, got.withoutPodCIDRs); diff != "" {
		t.Errorf("withoutPodCIDRs nodes (-want +got):\n%s", diff)
	}
}

// TestFamiliesThatAreLeftOut: a pod CIDR whose family --cluster-cidr lacks, or of which the provider makes no routes, asks for nothing. What is
// there stays.
func TestFamiliesThatAreLeftOut(t *testing.T) {
	nodes := []member{node("a", "10.120.0.0/24", "fd00:120::/64")}
	routes := []*cloudprovider.Route{route("by-hand", "fd00:120::/64", "elsewhere"), route("of-a", "fd00:120:1::/64", "a")}
	both := []netip.Prefix{netip.MustParsePrefix("10.120.0.0/16"), netip.MustParsePrefix("fd00:120::/32")}
	for name, wanted := range map[string]desired{
		"without a range":          desire(nodes, both[:1]),
		"without one or the other": desire(nodes, both[:1], ipv6),
	} {
		t.Run(name, func(t *testing.T) {
			planned := makePlan(wanted, routes, abilities{})
			if len(planned.removals) > 0 || len(planned.makes) != 1 || planned.makes[0].want.cidr != "10.120.0.0/24" || len(planned.notices) > 0 {
				t.Errorf("removals %v, makes %v, notices %v; want the route of the other family alone", planned.removals, planned.makes, planned.notices)
			}
			routed, missing := routedNodesOf(nodes, wanted, planned, map[key]bool{}, func(key) bool { return true })
			if missing != 0 || len(routed) != 1 || !routed[0].routed {
				t.Errorf("%d routes are missing, nodes %v; want the node to have its routes", missing, routed)
			}
		})
	}
	// What the plugin does not implement is tried again, and no node is told that it lacks it.
	tried := desire(nodes, both, ipv6)
	planned := makePlan(tried, nil, abilities{})
	lacking := map[key]bool{}
	for _, w := range tried.wants {
		lacking[w.key()] = w.destination.prefix.Addr().Is6()
	}
	if routed, _ := routedNodesOf(nodes, tried, planned, lacking, func(key) bool { return true }); len(planned.makes) != 2 || len(routed) != 1 || !routed[0].routed {
		t.Errorf("%d routes are made, and the nodes are %v; want both tried, and the node with its routes", len(planned.makes), routed)
	}
	onlyIPv6 := []member{node("b", "fd00:120::/64")}
	wanted := desire(onlyIPv6, both[:1])
	if routed, _ := routedNodesOf(onlyIPv6, wanted, makePlan(wanted, nil, abilities{}), nil, nil); len(routed) > 0 {
		t.Errorf("conditions %v, want none for a node without a pod CIDR of the family", routed)
	}
}
