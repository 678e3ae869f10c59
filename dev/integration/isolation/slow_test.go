package isolation_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
)

// TestSlowWrites runs a manager whose provider bears one write of load balancers at a time. Calls have all the time that they
// have by default.
func TestSlowWrites(t *testing.T) {
	t.Parallel()
	m := start(t, "slow", faulty.Options{})
	m.populate(t)
	for name, scenario := range map[string]func(*testing.T, *manager){
		"load balancers": slowLoadBalancers,
		"routes":         slowRoutes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, m)
		})
	}
}

// A provider that asks its cloud whether there are routes, and waits for the answer, has nodes and load balancers wait for nothing.
func TestAProviderThatWaitsForItsNetwork(t *testing.T) {
	t.Parallel()
	answered := make(chan struct{})
	m := start(t, "network", faulty.Options{AwaitRoutes: func() { <-answered }})
	answer := sync.OnceFunc(func() { close(answered) })
	t.Cleanup(answer) // before the manager is to end
	node := m.instance(t, "waits")
	m.awaitInitialized(t, node)
	awaitAddress(t, m.service(t, old))
	m.awaitTarget(t, node)
	answer()
	m.awaitRoute(t, node)
}

// Services whose load balancers take long and fail leave the others their turn. One write takes 3 s, so they keep the one
// place busy for longer than the limit.
func slowLoadBalancers(t *testing.T, m *manager) {
	const services = 6
	failing := m.services(t, services, "slow", pluginfault.Slow(3*time.Second).Then(pluginfault.Fail(errors.New("the machine has no address yet"))))
	m.awaitFaults(t, services, "EnsureLoadBalancer", failing...)
	node := m.instance(t, "slow-healthy")
	m.awaitInitialized(t, node)
	m.awaitTarget(t, node)
	awaitAddress(t, m.service(t, "slow-healthy"))
}

// Routes that take long leave room for what else the cloud is asked.
func slowRoutes(t *testing.T, m *manager) {
	slow := m.instances(t, many, "route", "CreateRoute", pluginfault.Slow(time.Hour))
	for _, node := range slow {
		m.awaitInitialized(t, node)
	}
	m.awaitFaults(t, places, "CreateRoute", slow...)
	node := m.instance(t, "route-healthy")
	m.awaitInitialized(t, node)
	m.awaitTarget(t, node)
	m.awaitRoute(t, node)
}
