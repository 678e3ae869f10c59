package service_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// simulateDifferences is simulate with a provider that changes targets by a difference.
func simulateDifferences(t *testing.T, instances int, knobs api.Knobs) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	return harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(instances), Knobs: knobs},
		func(config *sim.Config) { config.ChangeTargets = true })
}

// A node that joins, and one that leaves, is one call for each of a hundred load balancers, which names that node alone; no load
// balancer is read, and none is written as a whole.
func TestOneNodeIsOneChangeOfEachLoadBalancer(t *testing.T) {
	const services, nodes = 100, 50
	running, plugin := simulateDifferences(t, nodes, api.Knobs{PageSize: 500})
	t.Cleanup(func() { eachOf(t, nodes, func(i int) { deleteNode(t, nodeName(i+1)) }) })
	eachOf(t, nodes-1, func(i int) { newNode(t, i+1) })
	m := startManager(t, cluster, plugin, func(o *service.Options) { o.Writes = 8 })
	createServices(t, services)
	poll.Until(t, "all Services have their load balancers", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_load_balancers", "state", "provided"); got != services {
			return fmt.Errorf("%v are provided", got)
		}
		return nil
	})
	haveTargets := func(want int) {
		t.Helper()
		poll.Until(t, fmt.Sprintf("all load balancers have %d targets", want), func(context.Context) error {
			for _, balancer := range running.Service.LoadBalancers() {
				if len(balancer.Targets) != want {
					return fmt.Errorf("%s has %d", balancer.Name, len(balancer.Targets))
				}
			}
			return nil
		})
	}
	changes := func(what string) {
		t.Helper()
		counts := running.Service.Counts()
		// One listing of load balancers and one of instances say that they need it: see the reference of the service controller.
		others := counts.Received() - counts.Received(api.OpChangeTargets, api.OpListLoadBalancers, api.OpListInstances)
		if got := counts.Received(api.OpChangeTargets); got != services || others != 0 {
			t.Errorf("%s: %d changes and %d other calls for %d load balancers: %v", what, got, others, services, counts.Operations)
		}
	}
	haveTargets(nodes - 1)
	running.Service.ResetCounts()
	newNode(t, nodes)
	haveTargets(nodes)
	changes("a node joins")
	running.Service.ResetCounts()
	deleteNode(t, nodeName(1))
	haveTargets(nodes - 1)
	changes("a node leaves")
}

// After a change that failed, or whose answer was lost, the load balancer is written as a whole, and then differences do again.
func TestAFailedChangeIsMadeGoodAsAWhole(t *testing.T) {
	for name, fault := range map[string]api.Fault{
		"failed":     {Mode: api.FaultStatus, Status: http.StatusServiceUnavailable},
		"terminal":   {Mode: api.FaultStatus, Status: http.StatusForbidden},
		"was lost":   {Mode: api.FaultTruncate},
		"was empty":  {Mode: api.FaultEmpty},
		"was denied": {Mode: api.FaultStatus, Status: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			running, plugin := simulateDifferences(t, 4, api.Knobs{})
			joinNodes(t, 1, 2, 3)
			m := startManager(t, cluster, plugin, func(o *service.Options) { o.FirstRetry = 10 * time.Millisecond })
			const name = "differing"
			createService(t, name)
			waitReady(t, name, "True Provided")
			waitTargets(t, running, name, 1, 2, 3)
			fault.Operation, fault.Count = api.OpChangeTargets, 1
			must.NoError(t, running.Service.AddFault(fault))
			deleteNode(t, nodeName(1))
			waitTargets(t, running, name, 2, 3)
			poll.Until(t, "the failure is reported and made good", func(context.Context) error {
				if unfinished := m.Metric(t, "mooring_service_load_balancers", "state", "unfinished"); unfinished > 0 ||
					!slices.Contains(eventsOf(t, name), "Warning "+service.EventUpdateFailed) {
					return fmt.Errorf("%v unfinished, events %q", unfinished, eventsOf(t, name))
				}
				return nil
			})
			joinNodes(t, 4)
			waitTargets(t, running, name, 2, 3, 4)
			waitReady(t, name, "True Provided")
			if n := running.Service.Counts().Received(api.OpChangeTargets); n != 2 {
				t.Errorf("%d changes by a difference, want the one that failed and the one after", n)
			}
		})
	}
}

// A new leader does not know what the targets are. It writes them as a whole, once, and then differences.
func TestANewLeaderBeginsWithTheWhole(t *testing.T) {
	running, plugin := simulateDifferences(t, 5, api.Knobs{})
	joinNodes(t, 1, 2, 3)
	first := startManager(t, cluster, plugin)
	const name = "inherited"
	createService(t, name)
	waitReady(t, name, "True Provided")
	first.Stop()
	deleteNode(t, nodeName(3))
	joinNodes(t, 4)
	running.Service.ResetCounts()
	startManager(t, cluster, plugin)
	waitTargets(t, running, name, 1, 2, 4)
	joinNodes(t, 5)
	waitTargets(t, running, name, 1, 2, 4, 5)
	counts := running.Service.Counts()
	if whole, changes := counts.Received(api.OpUpdateLoadBalancer), counts.Received(api.OpChangeTargets); whole != 1 || changes != 1 {
		t.Errorf("%d whole writes and %d changes, want one each", whole, changes)
	}
}
