package layer2

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Frames that could not be sent are counted from zero on, so an alert sees the first one.
func TestFramesAreCountedFromZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	newMetrics(registry)
	if count, err := testutil.GatherAndCount(registry, "mooring_metal_l2_frames_total"); err != nil || count != 4 {
		t.Errorf("%d series, %v; want four", count, err)
	}
}
