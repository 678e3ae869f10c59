package cloud

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are what an operator watches of a cloud's API.
type metrics struct {
	calls     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	pages     *prometheus.CounterVec
	inFlight  prometheus.Gauge
	queued    *prometheus.HistogramVec
	waiting   prometheus.Gauge
	rateLimit prometheus.Gauge
	refusals  prometheus.Counter

	breakerOpen *prometheus.GaugeVec
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
		queued: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mooring_cloud_queue_duration_seconds",
			Help:    "How long calls waited to be let in to the cloud, by priority.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}, []string{"priority"}),
		waiting: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_cloud_calls_waiting",
			Help: "Calls that wait to be let in to the cloud.",
		}),
		rateLimit: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_cloud_rate_limit",
			Help: "Calls a second that are let in, as found from the cloud's refusals. 0: it has refused none, or not for long.",
		}),
		refusals: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_cloud_refusals_total",
			Help: "Calls that the cloud refused for its quota.",
		}),
		breakerOpen: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_cloud_breaker_open",
			Help: "1 while calls of a group are held back because the cloud fails all of them, otherwise 0.",
		}, []string{"group"}),
	}
}

func (m *metrics) observe(operation, outcome string, took time.Duration) {
	m.calls.WithLabelValues(operation, outcome).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}
