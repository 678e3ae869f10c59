package cloud

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/internal/names"
)

// metrics show what this process does at the cloud's API. The label group has the few values that operation.go names and a
// provider declares.
type metrics struct {
	calls       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	pages       *prometheus.CounterVec
	queued      *prometheus.HistogramVec
	panics      *prometheus.CounterVec
	inFlight    *prometheus.GaugeVec
	waiting     *prometheus.GaugeVec
	rateLimit   *prometheus.GaugeVec
	refusals    *prometheus.CounterVec
	outstanding *prometheus.GaugeVec
	given       *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		calls: factory.NewCounterVec(prometheus.CounterOpts{
			Name: names.MetricCloudCalls,
			Help: "Calls to the cloud through the plugin, by the plugin's method and by outcome (ok, not_found, not_implemented, throttled, " +
				"terminal, retry, timeout, canceled, panic, error). A listing counts once.",
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
		queued: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mooring_cloud_queue_duration_seconds",
			Help:    "How long calls waited to be let in to the cloud, by group and priority.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}, []string{"group", "priority"}),
		panics: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_cloud_panics_total",
			Help: "Calls in which the plugin panicked, by the plugin's method.",
		}, []string{"operation"}),
		inFlight: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: names.MetricCloudCallsInFlight,
			Help: "Calls to the cloud that are under way, by group, without outstanding ones.",
		}, []string{"group"}),
		waiting: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: names.MetricCloudCallsWaiting,
			Help: "Calls that wait to be let in to the cloud, by group.",
		}, []string{"group"}),
		rateLimit: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: names.MetricCloudRateLimit,
			Help: "Calls a second that are let in, by group, as found from the cloud's refusals. 0: it has refused none, or not for long.",
		}, []string{"group"}),
		refusals: factory.NewCounterVec(prometheus.CounterOpts{
			Name: names.MetricCloudRefusals,
			Help: "Calls that the cloud refused for its quota, by group.",
		}, []string{"group"}),
		outstanding: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_cloud_calls_outstanding",
			Help: "Calls that have not returned for so long that they no longer count as under way, by group. No other call about their objects is made.",
		}, []string{"group"}),
		given: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_cloud_calls_outstanding_total",
			Help: "Calls that have not returned for so long that they no longer counted as under way, by group.",
		}, []string{"group"}),
	}
	for name := range operations { // an alert on an increase needs a value from before the first panic
		m.panics.WithLabelValues(name)
	}
	return m
}

func (m *metrics) observe(operation, outcome string, took time.Duration) {
	m.calls.WithLabelValues(operation, outcome).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}

// begin shows a group from the beginning, and not only once something has happened.
func (m *metrics) begin(group string) {
	for _, gauge := range []*prometheus.GaugeVec{m.inFlight, m.waiting, m.rateLimit, m.outstanding} {
		gauge.WithLabelValues(group).Set(0)
	}
	m.refusals.WithLabelValues(group)
	m.given.WithLabelValues(group)
}
