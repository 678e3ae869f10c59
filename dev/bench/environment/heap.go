package environment

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// liveHeap is the metric of Go's runtime that says how many bytes were reachable when the heap was last collected.
const liveHeap = "go_gc_heap_live_bytes"

// collections is how often the heap is collected before it is measured. The last collection by itself was at whatever moment, such as in the middle of
// a listing, and counts what was allocated while it ran; pools keep what they hold over one.
const collections = 2

// live returns how much of the heap of the manager that was started last is in use, for which it has the heap collected.
func (e *Environment) live(ctx context.Context) (int64, error) {
	manager := e.managers[len(e.managers)-1]
	for range collections {
		if _, err := manager.endpoint.OK(ctx, "/debug/pprof/heap?gc=1", ""); err != nil {
			return 0, fmt.Errorf("collect the heap of %s: %w", manager.program.Name(), err)
		}
	}
	content, err := manager.endpoint.OK(ctx, "/metrics", "")
	if err != nil {
		return 0, fmt.Errorf("read the metrics of %s: %w", manager.program.Name(), err)
	}
	value, err := gauge(content, liveHeap)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", manager.program.Name(), err)
	}
	return int64(value), nil
}

// gauge returns the value of the only series of a metric.
func gauge(content, name string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(content))
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	series := families[name].GetMetric()
	if len(series) != 1 || series[0].GetGauge() == nil {
		return 0, fmt.Errorf("%d series of %s, want one gauge", len(series), name)
	}
	return series[0].GetGauge().GetValue(), nil
}
