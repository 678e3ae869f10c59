package route_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// refusal makes the next calls of an operation fail.
func refusal(operation api.Operation, status, count int) api.Fault {
	return api.Fault{Operation: operation, Mode: api.FaultStatus, Status: status, Count: count}
}

// A creation that fails is an event on the node, is tried again by itself, and does not hold up the other node.
func TestAFailedCreationIsTriedAgain(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	missing, present := machine(2, "10.244.2.0/24"), machine(1, "10.244.1.0/24")
	join(t, missing, present)
	start(t, options{Cloud: provider, Period: time.Second}) // of node-002 there is no instance yet
	waitForCondition(t, routed, present)
	waitForCondition(t, unrouted, missing)
	waitForEvent(t, missing.Name, "Warning FailedToCreateRoute: Could not make the route to 10.244.2.0/24: ")
	if creates, _, _ := changes(cloud); creates != 1 {
		t.Errorf("%d routes created, want one, to the node whose instance exists", creates)
	}
	cloud.Create(t, cloudsim.DefaultInstance(2))
	waitForCondition(t, routed, missing)
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002")
	if creates, replacements, deletes := changes(cloud); creates != 2 || replacements+deletes != 0 {
		t.Errorf("%d routes created, %d replaced, %d deleted; want 2 created", creates, replacements, deletes)
	}
}

// The pauses between tries are tested in virtual time; here it counts that there are pauses, and no more tries than failures.
func TestScriptedFailuresCostOneCallEach(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	must.NoError(t, cloud.Service.AddFault(refusal(api.OpCreateRoute, http.StatusInternalServerError, 3)))
	nodes := []*corev1.Node{machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24")}
	join(t, nodes...)
	m := start(t, options{Cloud: provider, Period: often})
	waitForCondition(t, routed, nodes...)
	m.settled(t)
	if got := cloud.Service.Counts().Operations[api.OpCreateRoute]; got.Received != 5 || got.Faulted != 3 {
		t.Errorf("%d creations, %d failed; want 3 that fail and 2 that do not", got.Received, got.Faulted)
	}
	if got := m.Metric(t, "mooring_route_operations_total", "operation", "create", "result", "error"); got != 3 {
		t.Errorf("mooring_route_operations_total counts %v errors, want 3", got)
	}
}

// A removal that fails is tried again, and the creation that it is in the way of waits for it.
func TestAFailedRemovalIsTriedAgain(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
	addRoute(t, cloud, simtest.ClusterName, "10.244.1.0/25", "node-002")
	must.NoError(t, cloud.Service.AddFault(refusal(api.OpDeleteRoute, http.StatusInternalServerError, 1)))
	node, other := machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24")
	join(t, node, other)
	start(t, options{Cloud: provider, Period: never})
	waitForCondition(t, routed, other)
	waitForCondition(t, unrouted, node)
	waitForEvent(t, node.Name, "Warning FailedToCreateRoute: Could not make the route to 10.244.1.0/24: "+
		"the route to 10.244.1.0/25 that is in its way")
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002")
	waitForCondition(t, routed, node)
}

// Of a list that is not complete nothing follows, whatever is wrong with it.
func TestNothingFollowsFromAFailedList(t *testing.T) {
	faults := map[string]api.Fault{
		"refused":   refusal(api.OpListRoutes, http.StatusInternalServerError, 1),
		"forbidden": refusal(api.OpListRoutes, http.StatusForbidden, 1),
		"short":     {Operation: api.OpListRoutes, Mode: api.FaultShortList, Count: 1},
		"malformed": {Operation: api.OpListRoutes, Mode: api.FaultMalformed, Count: 1},
		"truncated": {Operation: api.OpListRoutes, Mode: api.FaultTruncate, Count: 1},
		"second page refused": {
			Operation: api.OpListRoutes, Mode: api.FaultStatus, Status: http.StatusInternalServerError, Skip: 1, Count: 1,
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3), Knobs: api.Knobs{PageSize: 1}})
			addRoute(t, cloud, simtest.ClusterName, "10.244.1.0/24", "node-001")
			addRoute(t, cloud, simtest.ClusterName, "10.244.2.0/24", "node-002")
			cloud.Service.ResetCounts()
			since := mark(t)
			join(t, machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24"))
			must.NoError(t, cloud.Service.AddFault(fault))
			m := start(t, options{Cloud: provider})
			poll.Until(t, "a failed comparison", func(context.Context) error {
				const calls = "mooring_cloud_calls_total"
				if m.Metric(t, calls, "operation", "ListRoutes") == m.Metric(t, calls, "operation", "ListRoutes", "outcome", "ok") {
					return fmt.Errorf("no listing has failed")
				}
				return nil
			})
			if got := writes(t, since); len(got) > 0 && m.passes(t) == 1 {
				t.Errorf("writes to nodes after a failed listing: %q", got)
			}
			waitForCondition(t, routed, machine(1), machine(2)) // by itself, when the cloud answers again
			if creates, replacements, deletes := changes(cloud); creates+replacements+deletes != 0 {
				t.Errorf("%d routes created, %d replaced, %d deleted; want none", creates, replacements, deletes)
			}
		})
	}
}

// A cache that shows no nodes, or not all, although the API server has them, is no reason to remove routes.
func TestNothingFollowsFromACacheThatLagsBehind(t *testing.T) {
	for name, seen := range map[string]string{"shows no nodes": "none", "misses a node": "some"} {
		t.Run(name, func(t *testing.T) {
			cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2)})
			hidden, shown := machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24")
			shown.Labels = map[string]string{"shown": "some"}
			join(t, hidden, shown)
			addRoute(t, cloud, simtest.ClusterName, "10.244.1.0/24", "node-001")
			addRoute(t, cloud, simtest.ClusterName, "10.244.2.0/24", "node-002")
			selector := labels.SelectorFromSet(labels.Set{"shown": seen})
			partial := map[client.Object]cache.ByObject{&corev1.Node{}: {Label: selector}}
			m := start(t, options{Cloud: provider, Cache: cache.Options{ByObject: partial}})
			m.settled(t)
			if got := table(t, cloud, simtest.ClusterName); len(got) != 2 {
				t.Errorf("the routes are %q, want both", got)
			}
			if _, _, deletes := changes(cloud); deletes != 0 {
				t.Errorf("%d routes deleted, want none", deletes)
			}
			leave(t, t.Context(), hidden, shown) // now it is true
			waitForTable(t, cloud)
		})
	}
}

// A call that hangs holds up neither another node nor a route that has to go.
func TestACallThatHangsDelaysNoOther(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	must.NoError(t, cloud.Service.AddFault(api.Fault{Operation: api.OpCreateRoute, Mode: api.FaultHang, Count: 1}))
	first, second, third := machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24"), machine(3, "10.244.3.0/24")
	join(t, first)
	start(t, options{Cloud: provider, Period: often, Patience: often})
	waitForCondition(t, unrouted, first)
	join(t, second, third)
	waitForCondition(t, routed, second, third)
	leave(t, t.Context(), third)
	waitForTable(t, cloud, "10.244.2.0/24 by node-002")
	if creates, _, _ := changes(cloud); creates != 3 {
		t.Errorf("%d creations, want 3: the one that hangs is not repeated", creates)
	}
	cloud.Service.ClearFaults()
	waitForCondition(t, routed, first)
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002")
}

// The condition of a node says that its routes are there when they are, and not when those of all nodes are.
func TestNodesDoNotWaitForTheRoutesOfOthers(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
	must.NoError(t, cloud.Service.AddFault(api.Fault{Operation: api.OpCreateRoute, Mode: api.FaultHang, Count: 1}))
	first, second, third := machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24"), machine(3, "10.244.3.0/24")
	join(t, first, second, third)
	start(t, options{Cloud: provider, Patience: never})
	poll.Until(t, "two nodes with routes", func(context.Context) error {
		with := 0
		for _, node := range []string{first.Name, second.Name, third.Name} {
			if condition(t, node) == routed {
				with++
			}
		}
		if with != 2 {
			return fmt.Errorf("%d have some", with)
		}
		return nil
	})
	cloud.Service.ClearFaults()
	waitForCondition(t, routed, first, second, third)
}

// What the cloud does not list yet is not made twice.
func TestAListThatLagsCostsNothing(t *testing.T) {
	knobs := api.Knobs{ListLag: metav1.Duration{Duration: time.Hour}}
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(2), Knobs: knobs})
	first, second := machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24")
	join(t, first)
	m := start(t, options{Cloud: provider, Period: never}) // so a list is believed after five seconds
	poll.Until(t, "the first route", func(context.Context) error {
		if creates, _, _ := changes(cloud); creates != 1 {
			return fmt.Errorf("%d creations", creates)
		}
		return nil
	})
	join(t, second)
	waitForCondition(t, routed, second)
	poll.Until(t, "two comparisons", func(context.Context) error { // a comparison counts after it has written the conditions
		if passes := m.passes(t); passes < 2 {
			return fmt.Errorf("%d comparisons", passes)
		}
		return nil
	})
	if creates, _, _ := changes(cloud); creates != 2 {
		t.Errorf("%d routes created, want 2", creates)
	}
}

func TestARouteThatExistsAlreadyIsNoFailure(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	must.NoError(t, cloud.Service.AddFault(api.Fault{Operation: api.OpCreateRoute, Mode: api.FaultTruncate, Count: 1}))
	node := machine(1, "10.244.1.0/24")
	join(t, node)
	start(t, options{Cloud: provider})
	waitForCondition(t, routed, node)
	if diff := cmp.Diff([]string{"10.244.1.0/24 by node-001"}, table(t, cloud, simtest.ClusterName)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}
