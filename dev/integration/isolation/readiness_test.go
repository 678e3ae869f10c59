package isolation_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
)

// bound is how many calls of a kind may hang.
const bound = 256

// TestAbandonedCallsAreBounded lets calls hang until the manager bears no more of them. It says so and lives on, and is
// ready again when they have returned.
func TestAbandonedCallsAreBounded(t *testing.T) {
	t.Parallel()
	m := start(t, "abandoned", faulty.Options{}, "--cloud-api-timeout=100ms")
	m.populate(t)
	m.instances(t, bound+many, "hang", "InstanceMetadata", pluginfault.Hang())
	if said := m.awaitProbe(t, "/readyz", http.StatusInternalServerError); !strings.Contains(said, "[-]cloud-calls") {
		t.Errorf("/readyz does not say that it is the cloud: %s", said)
	}
	m.awaitProbe(t, "/livez", http.StatusOK)
	m.cloud.Release()
	m.awaitProbe(t, "/readyz", http.StatusOK)
}
