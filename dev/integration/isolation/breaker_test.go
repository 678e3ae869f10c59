package isolation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// openPast is for how long all calls of a kind have to fail until the manager takes the cloud for broken.
const openPast = 30 * time.Second

// TestOnlyTheBrokenFail has nobody ask the cloud for longer than that but those whose calls fail. Each scenario has a manager of
// its own, so that no node of the other one is a reason to ask.
func TestOnlyTheBrokenFail(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]func(*testing.T, *manager){
		"missing": missingServers,
		"refused": wrongAnnotations,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The first refresh is after the test: a node that is looked up by its own age would be a call that works.
			m := start(t, name, faulty.Options{LoadBalancerWrites: 4}, "--node-full-refresh-period=5m")
			m.populate(t)
			scenario(t, m)
			m.awaitProbe(t, "/livez", http.StatusOK)
		})
	}
}

// Providers return a plain error for a server that is gone. Whoever only ever fails says nothing about the cloud.
func missingServers(t *testing.T, m *manager) {
	// A node whose call fails is asked for less and less often. So many fail often enough together.
	nodes := m.instances(t, 8, "missing", "InstanceExists", pluginfault.Fail(errors.New("server not found (not_found, 0a1b2c)")))
	for _, node := range nodes {
		m.awaitInitialized(t, node)
	}
	for _, node := range nodes {
		fail(t, node)
	}
	m.failsAlone(t, "InstanceExists", "InstanceShutdown", "InstanceMetadata")
	m.expectClosed(t, "instances")
	m.servesNode(t, "missing-healthy")
	m.expectClosed(t, "instances")
}

// A setting that the cloud refuses is its user's matter.
func wrongAnnotations(t *testing.T, m *manager) {
	refused := m.services(t, 5, "refused", pluginfault.Fail(errors.New(`annotation load-balancer-type: unsupported value "lb99"`)))
	m.failsAlone(t, "GetLoadBalancer", "EnsureLoadBalancer", "UpdateLoadBalancer")
	awaitWarning(t, "Service", named(refused[0]))
	m.expectClosed(t, "load_balancers")
	awaitAddress(t, m.service(t, "refused-healthy"))
	m.expectClosed(t, "load_balancers")
}

// failsAlone waits until none of these operations has worked for so long, and so many calls of them have failed, that all calls
// of the kind would be held back.
func (m *manager) failsAlone(t *testing.T, operations ...string) {
	t.Helper()
	const often = 10
	poll.Within(t, 2*openPast, "calls have failed for long", func(context.Context) error {
		var first time.Time // of those that have failed since one worked
		failed, lasting := 0, false
		for _, call := range m.cloud.Calls(pluginfault.Any, pluginfault.Any) {
			switch {
			case call.Ended.IsZero() || !slices.Contains(operations, call.Operation):
			case call.Err == nil:
				failed, lasting = 0, false
			case failed == 0:
				failed, first = 1, call.Ended
			default:
				failed++
				lasting = lasting || call.Ended.Sub(first) > openPast
			}
		}
		return holds(failed >= often && lasting, "%d did, since %s", failed, first)
	})
}

// expectClosed checks that calls of a group are not held back as if the cloud failed them all.
func (m *manager) expectClosed(t *testing.T, group string) {
	t.Helper()
	status, body, err := m.Get(t.Context(), "/metrics", "")
	must.NoError(t, err)
	if want := fmt.Sprintf("mooring_cloud_breaker_open{group=%q} 0\n", group); !strings.Contains(body, want) {
		t.Errorf("the metrics, with status %d, do not say %q", status, want)
	}
}
