package isolation_test

import (
	"net/http"
	"testing"

	"github.com/mooring-ccm/mooring/dev/integration/faulty"
)

// TestForeignNodes has a provider that declares no schemes, so it is asked for the nodes of another cloud, and answers with
// plain errors.
func TestForeignNodes(t *testing.T) {
	t.Parallel()
	m := start(t, "foreign", faulty.Options{Schemes: []string{}})
	m.populate(t)
	node := m.instance(t, "healthy")
	m.awaitInitialized(t, node)
	m.awaitRoute(t, node)
	m.awaitTarget(t, node)
	awaitAddress(t, m.service(t, "healthy"))
	m.cloud.RemoveInstance(node)
	fail(t, node)
	awaitGone(t, node)
	m.awaitProbe(t, "/livez", http.StatusOK)
}
