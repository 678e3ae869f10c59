package route_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// A comparison that finds nothing to do costs one listing and no request to the API server. How rare comparisons become is
// tested in virtual time: with the default period they are two in the first minute, and one in five minutes later.
func TestAnIdleComparisonCostsOneListing(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	nodes := []*corev1.Node{machine(1, podCIDRs(1)...), machine(2, podCIDRs(2)...)}
	join(t, nodes...)
	m := start(t, options{Cloud: provider})
	waitForCondition(t, routed, nodes...)
	m.settled(t)
	cloud.Service.ResetCounts()
	before, since := m.passes(t), mark(t)
	m.settled(t)
	m.settled(t)
	m.Stop()
	passes := int64(m.passes(t) - before)
	counts := cloud.Service.Counts()
	if got := counts.Received(api.OpListRoutes); got > passes+1 || got < passes-1 {
		t.Errorf("%d calls to list routes in %d comparisons, want one each", got, passes)
	}
	if got := counts.Received() - counts.Received(api.OpListRoutes); got != 0 {
		t.Errorf("%d other calls: %v", got, counts.Operations)
	}
	if got := writes(t, since); len(got) > 0 {
		t.Errorf("writes to nodes: %v", got)
	}
}

func TestRestartingCostsOneListing(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	nodes := []*corev1.Node{machine(1, podCIDRs(1)...), machine(2, podCIDRs(2)...)}
	join(t, nodes...)
	first := start(t, options{Cloud: provider, Period: never})
	waitForCondition(t, routed, nodes...)
	first.Stop()
	cloud.Service.ResetCounts()
	since := mark(t)
	second := start(t, options{Cloud: provider, Period: never})
	poll.Until(t, "the first comparison", func(context.Context) error {
		if got := second.Metric(t, "mooring_cloud_calls_total", "operation", "ListRoutes"); got == 0 {
			return fmt.Errorf("there has been none")
		}
		return nil
	})
	second.Stop()
	want := map[api.Operation]api.CallCount{api.OpListRoutes: {Received: 1}}
	if diff := cmp.Diff(want, cloud.Service.Counts().Operations); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := writes(t, since); len(got) > 0 {
		t.Errorf("writes to nodes: %v", got)
	}
}

// Two hundred nodes that join at once, and leave at once, are a handful of listings, one call each to make or remove their
// routes, and one write each.
func TestABurstOfNodes(t *testing.T) {
	const nodes, bound = 200, 8
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(nodes)})
	since := mark(t)
	m := start(t, options{Cloud: provider, Period: 10 * time.Second, Writes: bound})
	var burst []*corev1.Node
	for n := 1; n <= nodes; n++ {
		burst = append(burst, machine(n, fmt.Sprintf("10.244.%d.0/24", n)))
	}
	begun := time.Now()
	join(t, burst...)
	waitForCondition(t, routed, burst...)
	// Ten comparisons may follow each other without regard to the period (burst in schedule.go), and do so on a slow machine, where nodes come
	// and go with pauses; after that there is one per period.
	handful := func() float64 { return 11 + float64(time.Since(begun)/(10*time.Second)) }
	counts := cloud.Service.Counts()
	if got := counts.Received(api.OpCreateRoute); got != nodes {
		t.Errorf("%d creations, want %d", got, nodes)
	}
	if counts.MaxInFlight > bound {
		t.Errorf("%d calls at once, want %d at most", counts.MaxInFlight, bound)
	}
	listings := func() float64 { return m.Metric(t, "mooring_cloud_calls_total", "operation", "ListRoutes") }
	joining := listings()
	if joining > handful() {
		t.Errorf("%v listings while nodes joined, want %v at most", joining, handful())
	}
	for name, requests := range writes(t, since) {
		if len(requests) != 1 {
			t.Errorf("node %s was written %q, want once", name, requests)
		}
	}
	if got := len(writes(t, since)); got != nodes {
		t.Errorf("%d nodes were written, want %d", got, nodes)
	}
	begun = time.Now()
	leave(t, t.Context(), burst...)
	waitForTable(t, cloud)
	if got := cloud.Service.Counts().Received(api.OpDeleteRoute); got != nodes {
		t.Errorf("%d deletions, want %d", got, nodes)
	}
	if leaving := listings() - joining; leaving > handful() {
		t.Errorf("%v listings while nodes left, want %v at most", leaving, handful())
	}
}

// The provider may bear less than the operator allows.
func TestTheProvidersBoundIsKept(t *testing.T) {
	knobs := api.Knobs{Latency: metav1.Duration{Duration: 10 * time.Millisecond}}
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(20), Knobs: knobs},
		func(config *sim.Config) { config.RouteWrites = 1 })
	var nodes []*corev1.Node
	for n := 1; n <= 20; n++ {
		nodes = append(nodes, machine(n, fmt.Sprintf("10.244.%d.0/24", n)))
	}
	join(t, nodes...)
	start(t, options{Cloud: provider, Period: never})
	waitForCondition(t, routed, nodes...)
	if got := cloud.Service.Counts().MaxInFlight; got != 1 {
		t.Errorf("%d calls at once, want 1", got)
	}
}

// A process whose plugin has no routes writes no condition, and neither reads nor changes anything in the cloud.
func TestWithoutRoutesNothingIsWritten(t *testing.T) {
	cloud, simulation := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	provider := &limited{Cloud: simulation, withoutRoutes: true, asked: make(chan struct{})}
	since := mark(t)
	join(t, machine(1, podCIDRs(1)...))
	m := start(t, options{Cloud: provider})
	<-provider.asked
	status(t, "node-001", func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.98" })
	leave(t, t.Context(), machine(1))
	m.Stop()
	if got := writes(t, since); len(got) > 0 {
		t.Errorf("writes to nodes: %v", got)
	}
	if got := cloud.Service.Counts().Received(); got != 0 || m.passes(t) != 0 {
		t.Errorf("%d calls of the cloud and %d comparisons, want none", got, m.passes(t))
	}
}

// TestConditionsOfOthersStay: the controller keeps the conditions of other writers. When a network plugin reports the network as available too early,
// the controller corrects that once.
func TestConditionsOfOthersStay(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	node := machine(1, "10.244.1.0/24")
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"},
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "CalicoIsUp"},
	}
	since := mark(t)
	join(t, node)
	m := start(t, options{Cloud: provider})
	for beat := range 20 {
		status(t, node.Name, func(n *corev1.Node) { n.Status.Conditions[0].Message = fmt.Sprintf("beat %d", beat) })
	}
	waitForCondition(t, routed, node)
	m.settled(t)
	waitForTable(t, cloud, "10.244.1.0/24 by node-001")
	got := getNode(t, node.Name).Status.Conditions
	if len(got) != 2 || got[0].Reason != "KubeletReady" || got[0].Message != "beat 19" {
		t.Errorf("conditions: %v", got)
	}
	if diff := cmp.Diff(map[string][]string{"node-001": {"patch status 200"}}, writes(t, since)); diff != "" {
		t.Errorf("writes to nodes (-want +got):\n%s", diff)
	}
}

// Only what the shipped role allows has been used: the API server has refused nothing to the manager in any test.
func TestShippedRightsSuffice(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	addRoute(t, cloud, simtest.ClusterName, "10.244.2.0/24", "node-002")
	node := machine(1, "10.244.1.0/24")
	join(t, node)
	start(t, options{Cloud: provider, Period: never})
	waitForCondition(t, routed, node)
	waitForTable(t, cloud, "10.244.1.0/24 by node-001")
	events, err := cluster.AuditEvents(t.Context())
	must.NoError(t, err)
	used := map[string]bool{}
	for _, event := range events {
		if event.User.Username != user || event.ObjectRef == nil || event.ResponseStatus == nil {
			continue
		}
		if strings.HasPrefix(event.ObjectRef.Resource, "selfsubject") {
			continue // a whole program asks what it may do, which everybody may
		}
		if event.ResponseStatus.Code == 403 {
			t.Errorf("%s %s was refused", event.Verb, event.RequestURI)
		}
		used[managers.What(event)] = true
	}
	want := []string{"get nodes", "list nodes", "watch nodes", "patch nodes/status", "create events", "patch events", "list servicecidrs"}
	for what := range used {
		if !slices.Contains(want, what) {
			t.Errorf("%s was used, which the documentation of the controller's rights does not name", what)
		}
	}
}
