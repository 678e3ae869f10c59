package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// batched has the provider make up to 50 changes of routes by one call.
func batched(config *sim.Config) { config.RouteBatch = 50 }

// changeOps are the calls that change a route each.
var changeOps = []api.Operation{api.OpCreateRoute, api.OpReplaceRoute, api.OpDeleteRoute}

// The routes of two hundred nodes are made by four calls, and removed by four: as many as batches of fifty take.
func TestABurstOfNodesIsAFewBatches(t *testing.T) {
	const nodes, batches = 200, 4
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(nodes)}, batched)
	var burst []*corev1.Node
	for n := 1; n <= nodes; n++ {
		burst = append(burst, machine(n, fmt.Sprintf("10.244.%d.0/24", n)))
	}
	join(t, burst...)
	since := mark(t)
	m := start(t, options{Cloud: provider, Period: 10 * time.Second})
	waitForCondition(t, routed, burst...)
	counts := cloud.Service.Counts()
	if got := counts.Received(api.OpChangeRoutes); got != batches {
		t.Errorf("%d batches for %d routes, want %d", got, nodes, batches)
	}
	if got := counts.Received() - counts.Received(api.OpChangeRoutes, api.OpListRoutes); got != 0 {
		t.Errorf("%d other calls: %v", got, counts.Operations)
	}
	if got := m.Metric(t, "mooring_route_operations_total", "operation", "create", "result", "success"); got != nodes {
		t.Errorf("%v creations were counted, want %d", got, nodes)
	}
	for name, requests := range writes(t, since) {
		if len(requests) != 1 {
			t.Errorf("node %s was written %q, want once", name, requests)
		}
	}
	m.Stop()
	leave(t, t.Context(), burst...)
	cloud.Service.ResetCounts()
	start(t, options{Cloud: provider, Period: never})
	waitForTable(t, cloud)
	counts = cloud.Service.Counts()
	if got, others := counts.Received(api.OpChangeRoutes), counts.Received(changeOps...); got != batches || others != 0 {
		t.Errorf("%d batches and %d single calls to remove %d routes, want %d and none", got, others, nodes, batches)
	}
}

// One route that cannot be made is an event on its node, and the rest of its batch is there: removals first, then all others by one call.
func TestABatchIsAsGoodAsItsRoutes(t *testing.T) {
	cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(4)}, batched)
	addRoute(t, cloud, simtest.ClusterName, "10.244.9.0/24", "node-004") // stale
	addRoute(t, cloud, simtest.ClusterName, "10.244.2.0/24", "node-003") // another node's now
	lost := machine(5, "10.244.5.0/24")                                  // has no instance
	sound := []*corev1.Node{machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24"), machine(3, "10.244.3.0/24")}
	join(t, append(sound, lost)...)
	cloud.Service.ResetCounts()
	start(t, options{Cloud: provider, Period: never})
	waitForCondition(t, routed, sound...)
	waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002", "10.244.3.0/24 by node-003")
	waitForCondition(t, unrouted, lost)
	counts := cloud.Service.Counts()
	if diff := cmp.Diff([]int64{2, 0}, []int64{counts.Received(api.OpChangeRoutes), counts.Received(changeOps...)}); diff != "" {
		t.Errorf("batches and single calls (-want +got):\n%s", diff)
	}
	waitForEvent(t, lost.Name, "Warning FailedToCreateRoute: Could not make the route to 10.244.5.0/24: ")
}

// A cloud that fails a whole batch is asked again, and a cloud that loses an answer is found to have done it.
func TestABatchThatFailsIsMadeGood(t *testing.T) {
	for name, fault := range map[string]api.Fault{
		"refused":  {Mode: api.FaultStatus, Status: 429},
		"fails":    {Mode: api.FaultStatus, Status: 503},
		"garbled":  {Mode: api.FaultMalformed},
		"cut off":  {Mode: api.FaultTruncate},
		"no count": {Mode: api.FaultEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			fault.Operation, fault.Count = api.OpChangeRoutes, 1
			cloud, provider := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)}, batched)
			nodes := []*corev1.Node{machine(1, "10.244.1.0/24"), machine(2, "10.244.2.0/24"), machine(3, "10.244.3.0/24")}
			must.NoError(t, cloud.Service.AddFault(fault))
			join(t, nodes...)
			start(t, options{Cloud: provider})
			waitForCondition(t, routed, nodes...)
			waitForTable(t, cloud, "10.244.1.0/24 by node-001", "10.244.2.0/24 by node-002", "10.244.3.0/24 by node-003")
		})
	}
}
