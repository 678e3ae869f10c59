package cloud

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what an operator watches of a cloud's API.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	pages    *prometheus.CounterVec
	inFlight prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		calls: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_cloud_calls_total",
			Help: "Calls to the cloud through the plugin, by the plugin's method and by outcome. A listing counts once.",
		}, []string{"operation", "outcome"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mooring_cloud_call_duration_seconds",
			Help:    "How long calls to the cloud took, by the plugin's method.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 9), // 10 ms to 66 s
		}, []string{"operation"}),
		pages: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_cloud_pages_total",
			Help: "Pages that listings of the cloud returned.",
		}, []string{"operation"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_cloud_calls_in_flight",
			Help: "Calls to the cloud that are under way.",
		}),
	}
}

func (m *metrics) observe(operation, outcome string, took time.Duration) {
	m.calls.WithLabelValues(operation, outcome).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}
