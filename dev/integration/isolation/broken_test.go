package isolation_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
)

// TestOnlyTheBrokenFail: for a while, the manager calls the cloud only for nodes and Services whose calls fail. Each scenario has a manager of its
// own, so a node of the other scenario cannot cause a call.
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

// Providers return a plain error for a server that is gone.
func missingServers(t *testing.T, m *manager) {
	// A node whose call fails is asked for less and less often. So many fail often enough together.
	nodes := m.instances(t, 8, "missing", "InstanceExists", pluginfault.Fail(errors.New("server not found (not_found, 0a1b2c)")))
	for _, node := range nodes {
		m.awaitInitialized(t, node)
	}
	for _, node := range nodes {
		fail(t, node)
	}
	m.awaitFaults(t, 2*len(nodes), "InstanceExists", nodes...)
	m.servesNode(t, "missing-healthy")
}

// A setting that the cloud refuses is its user's matter.
func wrongAnnotations(t *testing.T, m *manager) {
	refused := m.services(t, 5, "refused", pluginfault.Fail(errors.New(`annotation load-balancer-type: unsupported value "lb99"`)))
	awaitWarning(t, "Service", named(refused[0]))
	awaitAddress(t, m.service(t, "refused-healthy"))
}
