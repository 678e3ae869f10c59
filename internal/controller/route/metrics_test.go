package route

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Comparisons are counted with the reference's labels and values.
func TestComparisonsAreCountedAsInTheReference(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	m.compared(triggerPeriodic, result{})
	m.compared(triggerNodeChange, result{changed: true})
	m.compared(triggerPeriodic, result{changed: true, blocked: errors.New("no list")})
	want := `# HELP route_controller_route_sync_total Comparisons of all routes with all nodes, by outcome (changed, noop, error) and trigger (node_change, periodic).
# TYPE route_controller_route_sync_total counter
route_controller_route_sync_total{outcome="changed",trigger="node_change"} 1
route_controller_route_sync_total{outcome="error",trigger="periodic"} 1
route_controller_route_sync_total{outcome="noop",trigger="periodic"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "route_controller_route_sync_total"); err != nil {
		t.Error(err)
	}
}
