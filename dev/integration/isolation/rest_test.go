package isolation_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// The Service that every manager has from the start: its load balancer follows the nodes.
const old = "old"

// populate gives a manager what every cluster has: a node and a Service that work, nodes of another cloud, and a Service whose
// provider answers with the status that the Service has.
func (m *manager) populate(t *testing.T) {
	t.Helper()
	m.cloud.Fault("EnsureLoadBalancer", m.key("echo"), pluginfault.Echo())
	m.cloud.Fault("GetLoadBalancer", m.key("echo"), pluginfault.Echo())
	m.service(t, "echo")
	m.node(t, "foreign", initialized("other:///zone/1"))
	m.node(t, "foreign-not-ready", initialized("other:///zone/2"), notReady)
	m.node(t, "foreign-new", func(node *corev1.Node) { node.Spec.ProviderID = "other:///zone/3" })
	// All managers start at the same time, and share the processors with other tests.
	m.awaitInitializedWithin(t, startLimit, m.instance(t, "first"))
	awaitAddressWithin(t, startLimit, m.service(t, old))
}

// serves holds a manager to serving what is healthy while a scenario's faults go on, each step within the limit: a new node joins,
// gets its route and becomes a target of the old Service; when it is dead, it is deleted; and a new Service gets its address.
func (m *manager) serves(t *testing.T, during string) {
	t.Helper()
	t.Run("the rest is served", func(t *testing.T) {
		t.Run("node", func(t *testing.T) {
			t.Parallel()
			m.servesNode(t, during+"-healthy")
		})
		t.Run("Service", func(t *testing.T) {
			t.Parallel()
			awaitAddress(t, m.service(t, during+"-healthy"))
		})
	})
	m.awaitProbe(t, "/livez", http.StatusOK)
}

// servesNode follows a node from its first day to its last.
func (m *manager) servesNode(t *testing.T, name string) {
	t.Helper()
	node := m.instance(t, name)
	m.awaitInitialized(t, node)
	m.awaitRoute(t, node)
	m.awaitTarget(t, node)
	m.cloud.RemoveInstance(node)
	fail(t, node)
	awaitGone(t, node)
}

// awaitRoute waits until there is a route to a node.
func (m *manager) awaitRoute(t *testing.T, node string) {
	t.Helper()
	poll.Within(t, limit, "there is a route to "+node, func(context.Context) error {
		return holds(slices.Contains(m.cloud.RoutedNodes(), node), "the routes are to %q", m.cloud.RoutedNodes())
	})
}

// awaitTarget waits until a node is a target of the old Service.
func (m *manager) awaitTarget(t *testing.T, node string) {
	t.Helper()
	poll.Within(t, limit, node+" is a target of the old Service", func(context.Context) error {
		targets := m.cloud.Targets(m.key(old))
		return holds(slices.Contains(targets, node), "the targets are %q", targets)
	})
}

// awaitFaults waits until as many calls of an operation for some objects, all together, have begun to misbehave.
func (m *manager) awaitFaults(t *testing.T, count int, operation string, objects ...string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d calls of %s misbehave", count, operation), func(context.Context) error {
		faults := 0
		for _, call := range m.cloud.Calls(operation, pluginfault.Any) {
			if call.Faulty && slices.Contains(objects, call.Object) {
				faults++
			}
		}
		return holds(faults >= count, "%d do", faults)
	})
}

// holds makes a problem of a condition, with what there is instead.
func holds(condition bool, format string, args ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, args...)
}
