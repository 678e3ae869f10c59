package route

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
)

// metrics are the reference controller's counter under its name, and ours.
type metrics struct {
	passes     *prometheus.CounterVec
	operations *prometheus.CounterVec
	routes     prometheus.Gauge
	limit      prometheus.Gauge
	missing    prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := metric.With(registerer)
	return &metrics{
		passes: factory.NewCounterVec("route_controller_route_sync_total",
			"Comparisons of all routes with all nodes, by outcome (changed, noop, error) and trigger (node_change, periodic).", "outcome", "trigger"),
		operations: factory.NewCounterVec("mooring_route_operations_total",
			"Changes of routes in the cloud, by operation (create, replace, recreate, remove) and result (success, error).", "operation", "result"),
		routes: factory.NewGauge(names.MetricRoutesListed,
			"Routes of the cluster in the cloud, when they were last listed."),
		limit: factory.NewGauge(names.MetricRouteLimit,
			"How many routes the cloud takes for the cluster, as the provider declares it; 0 if it does not."),
		missing: factory.NewGauge(names.MetricRoutesMissing,
			"Pod CIDRs of nodes of ours without a route that delivers to them, after the last comparison."),
	}
}

// The reference's values of the label trigger.
const (
	triggerPeriodic   = "periodic"
	triggerNodeChange = "node_change"
)

// compared counts a comparison as the reference does: an operation that failed is none that did.
func (m *metrics) compared(trigger string, ended result) {
	outcome := "noop"
	switch {
	case ended.blocked != nil:
		outcome = "error"
	case ended.changed:
		outcome = "changed"
	}
	m.passes.WithLabelValues(outcome, trigger).Inc()
}

func (m *metrics) performed(kind kind, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.operations.WithLabelValues(string(kind), result).Inc()
}
