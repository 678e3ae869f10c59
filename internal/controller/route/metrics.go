package route

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/internal/names"
)

// metrics are the reference controller's counter under its name, and ours.
type metrics struct {
	passes     prometheus.Counter
	operations *prometheus.CounterVec
	routes     prometheus.Gauge
	limit      prometheus.Gauge
	missing    prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		passes: factory.NewCounter(prometheus.CounterOpts{
			Name: "route_controller_route_sync_total",
			Help: "Comparisons of all routes with all nodes.",
		}),
		operations: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_route_operations_total",
			Help: "Changes of routes in the cloud, by operation (create, replace, recreate, remove) and result (success, error).",
		}, []string{"operation", "result"}),
		routes: factory.NewGauge(prometheus.GaugeOpts{
			Name: names.MetricRoutesListed,
			Help: "Routes of the cluster in the cloud, when they were last listed.",
		}),
		limit: factory.NewGauge(prometheus.GaugeOpts{
			Name: names.MetricRouteLimit,
			Help: "How many routes the cloud takes for the cluster, as the provider declares it; 0 if it does not.",
		}),
		missing: factory.NewGauge(prometheus.GaugeOpts{
			Name: names.MetricRoutesMissing,
			Help: "Pod CIDRs of nodes of ours without a route that delivers to them, after the last comparison.",
		}),
	}
}

func (m *metrics) performed(kind kind, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.operations.WithLabelValues(string(kind), result).Inc()
}
