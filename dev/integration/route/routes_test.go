package route_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

func TestEveryPodCIDRGetsARoute(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	since := mark(t)
	nodes := []*corev1.Node{machine(1, podCIDRs(1)...), machine(2, podCIDRs(2)...), machine(3)}
	join(t, nodes...)
	m := start(t, options{Cloud: provider})
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002",
		"fd00:10:244:1::/64 by node-001", "fd00:10:244:2::/64 by node-002")
	waitForCondition(t, routed, nodes[:2]...)
	m.settled(t)

	if got := condition(t, "node-003"); got != "none" {
		t.Errorf("the condition of a node without pod CIDR is %q, want none", got)
	}
	want := map[string][]string{"node-001": {"patch status 200"}, "node-002": {"patch status 200"}}
	if diff := cmp.Diff(want, writes(t, since)); diff != "" {
		t.Errorf("writes to nodes (-want +got):\n%s", diff)
	}
	if creates, replacements, deletes := changes(cloud); creates != 4 || replacements+deletes != 0 {
		t.Errorf("%d routes created, %d replaced, %d deleted; want 4 created", creates, replacements, deletes)
	}
	if got := m.Metric(t, "mooring_route_operations_total", "operation", "create", "result", "success"); got != 4 {
		t.Errorf("mooring_route_operations_total counts %v creations, want 4", got)
	}
}

func TestADeletedNodesRoutesGo(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	nodes := []*corev1.Node{machine(1, podCIDRs(1)...), machine(2, podCIDRs(2)...)}
	join(t, nodes...)
	start(t, options{Cloud: provider, Period: never})
	waitForCondition(t, routed, nodes...)
	since := mark(t)
	leave(t, t.Context(), nodes[0])
	waitForTable(t, cloud, "10.244.2.0/24 by node-002", "fd00:10:244:2::/64 by node-002")

	asked := audited(t, since, func(event auditv1.Event) bool { return event.Verb != "watch" })
	if diff := cmp.Diff(map[string][]string{"node-001": {"get 404"}}, asked); diff != "" {
		t.Errorf("questions to the API server whether the node is gone (-want +got):\n%s", diff)
	}
}

// What others have made stays, wherever it is; what is stale within the cluster's CIDRs goes.
func TestDriftIsRepaired(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(4)})
	node := machine(1, podCIDRs(1)...)
	join(t, node)
	m := start(t, options{Cloud: provider})
	waitForCondition(t, routed, node)
	m.settled(t) // a list that lacks what was just made is not believed

	addRoute(t, cloud, "other", "10.244.1.0/24", "node-002")
	addRoute(t, cloud, "other", "10.244.9.0/24", "node-004")
	addRoute(t, cloud, simtest.ClusterName, "192.168.0.0/24", "node-002")
	addRoute(t, cloud, simtest.ClusterName, "10.244.0.0/15", "node-002")
	addRoute(t, cloud, simtest.ClusterName, "10.244.7.0/24", "node-003")
	addRoute(t, cloud, simtest.ClusterName, "10.244.8.0/24", "node-004")
	cloud.Delete(t, "node-004") // now its routes are black holes
	for _, line := range []string{"10.244.1.0/24", "fd00:10:244:1::/64"} {
		deleteRoute(t, cloud, line)
	}
	waitForTable(t, cloud, "10.244.0.0/15 by node-002", "10.244.1.0/24 by node-001", "192.168.0.0/24 by node-002",
		"fd00:10:244:1::/64 by node-001")
	if diff := cmp.Diff([]string{"10.244.1.0/24 by node-002", "10.244.9.0/24 by -"}, table(t, cloud, "other")); diff != "" {
		t.Errorf("routes of the other cluster (-want +got):\n%s", diff)
	}
}

// deleteRoute deletes the route of the cluster to a CIDR.
func deleteRoute(t testing.TB, cloud *simtest.Cloud, cidr string) {
	t.Helper()
	var id string
	must.NoError(t, cloud.Client.ListRoutes(t.Context(), simtest.ClusterName, func(page []api.Route) error {
		for _, r := range page {
			if r.DestinationCIDR == cidr {
				id = r.ID
			}
		}
		return nil
	}))
	must.NoError(t, cloud.Client.DeleteRoute(t.Context(), id))
}

func TestAnInstanceThatWasReplacedGetsTheRoute(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	node := machine(1, podCIDRs(1)...)
	join(t, node)
	m := start(t, options{Cloud: provider})
	waitForCondition(t, routed, node)
	m.settled(t) // a list that contradicts what was just made is not believed
	cloud.Delete(t, "node-001")
	waitForCondition(t, unrouted, node)
	cloud.Create(t, cloudsim.DefaultInstance(1))
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "fd00:10:244:1::/64 by node-001")
	waitForCondition(t, routed, node)
	if creates, _, deletes := changes(cloud); creates != 2 || deletes != 0 {
		t.Errorf("%d routes created, %d deleted; want only the first two created, and those replaced", creates, deletes)
	}
}

func TestAPodCIDRThatIsUsedAgain(t *testing.T) {
	for _, test := range []struct {
		name                           string
		replaces                       bool
		creates, replacements, deletes int64
	}{
		{"where the cloud replaces", true, 1, 1, 0},
		{"where it does not", false, 2, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			cloud, simulation := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
			before, after := machine(1, "10.244.1.0/24"), machine(2, "10.244.1.0/24")
			join(t, before)
			start(t, options{Cloud: &limited{Cloud: simulation, cannotReplace: !test.replaces}, Period: never})
			waitForCondition(t, routed, before)
			join(t, after)
			waitForEvent(t, after.Name, "Warning PodCIDRConflict: The pod CIDR 10.244.1.0/24 belongs to node node-001, too")
			waitForCondition(t, unrouted, after)
			leave(t, t.Context(), before)
			waitForTable(t, cloud, "10.244.1.0/24 by node-002")
			waitForCondition(t, routed, after)
			creates, replacements, deletes := changes(cloud)
			if creates != test.creates || replacements != test.replacements || deletes != test.deletes {
				t.Errorf("%d routes created, %d replaced, %d deleted; want %d, %d, %d", creates, replacements, deletes,
					test.creates, test.replacements, test.deletes)
			}
		})
	}
}

func TestANodesNewAddressesReachItsRoute(t *testing.T) {
	for _, replaces := range []bool{true, false} {
		t.Run(fmt.Sprintf("replaces=%t", replaces), func(t *testing.T) {
			cloud, simulation := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
			provider := &limited{Cloud: simulation, cannotReplace: !replaces, addressed: true}
			node := machine(1, "10.244.1.0/24")
			join(t, node)
			start(t, options{Cloud: provider, Period: time.Second})
			waitForCondition(t, routed, node)
			status(t, node.Name, func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.99" })
			poll.Until(t, "the route's address", func(context.Context) error {
				if got := provider.address("10.244.1.0/24"); got != "10.0.0.99" {
					return fmt.Errorf("it is %q", got)
				}
				return nil
			})
			want := []string{"create", "delete", "create"}
			if replaces {
				want = []string{"create", "replace"}
			}
			if diff := cmp.Diff(want, provider.seen()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			waitForTable(t, cloud, "10.244.1.0/24 by node-001")
		})
	}
}

func TestNodesThatAreNotOursAreLeftAlone(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(5)})
	since := mark(t)
	ours, ignored, foreign := machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24"), machine(3, "10.244.3.0/24")
	ignored.Annotations = map[string]string{ownership.AnnotationIgnore: "true"}
	foreign.Spec.ProviderID = "robot://3"
	join(t, ours, ignored, foreign)
	addRoute(t, cloud, simtest.ClusterName, "10.244.2.0/24", "node-002") // by the node's own name
	addRoute(t, cloud, simtest.ClusterName, "10.244.3.0/24", "node-004") // by a name that is no node's
	addRoute(t, cloud, simtest.ClusterName, "10.244.5.0/24", "node-005")
	cloud.Service.ResetCounts()
	m := start(t, options{Cloud: provider})
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002", "10.244.3.0/24 by node-004")
	waitForCondition(t, routed, ours)
	m.settled(t)
	if diff := cmp.Diff(map[string][]string{"node-001": {"patch status 200"}}, writes(t, since)); diff != "" {
		t.Errorf("writes to nodes (-want +got):\n%s", diff)
	}
	counts := cloud.Service.Counts()
	if asked := counts.Received(api.OpListInstances, api.OpGetInstance); asked != 0 {
		t.Errorf("the cloud was asked about instances %d times, want never", asked)
	}

	// A node that becomes ours gets its route, and one that ceases to be keeps it.
	change(t, "node-002", func(n *corev1.Node) { delete(n.Annotations, ownership.AnnotationIgnore) })
	waitForCondition(t, routed, ignored)
	change(t, "node-001", func(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: "true"} })
	m.settled(t)
	if got := table(t, cloud, simtest.ClusterName); !slices.Contains(got, "10.244.1.0/24 by node-001") {
		t.Errorf("the route of a node that is no longer ours was deleted: %q", got)
	}
}

func TestTheLimitIsKeptAndTold(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(4), Knobs: api.Knobs{MaxRoutes: 3}},
		func(config *sim.Config) { config.MaxRoutes = 3 })
	addRoute(t, cloud, simtest.ClusterName, "10.244.9.0/24", "node-004") // stale: makes room when it goes
	addRoute(t, cloud, simtest.ClusterName, "192.168.0.0/24", "node-004")
	cloud.Service.ResetCounts()
	for n := 1; n <= 3; n++ {
		join(t, machine(n, fmt.Sprintf("10.244.%d.0/24", n))) // one after the other: ages are in seconds, then names count
	}
	m := start(t, options{Cloud: provider})
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002", "192.168.0.0/24 by node-004")
	waitForCondition(t, routed, machine(1), machine(2))
	waitForCondition(t, unrouted, machine(3))
	waitForEvent(t, "node-002", "Warning RouteTableNearlyFull: The route to 10.244.2.0/24 is number 3 of 3")
	waitForEvent(t, "node-003", "Warning RouteTableFull: No room for the route to 10.244.3.0/24: the cloud takes 3 routes")
	m.settled(t)
	if counts := cloud.Service.Counts().Operations[api.OpCreateRoute]; counts.Received != 2 || counts.Failed != 0 {
		t.Errorf("%d routes created, %d refused; want 2 and none: what has no room is not tried", counts.Received, counts.Failed)
	}
	leave(t, t.Context(), machine(1))
	waitForCondition(t, routed, machine(3))
}
