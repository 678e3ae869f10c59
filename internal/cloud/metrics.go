package cloud

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/internal/metric"
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
	factory := metric.With(registerer)
	m := &metrics{
		calls: factory.NewCounterVec(names.MetricCloudCalls,
			"Calls to the cloud through the plugin, by the plugin's method and by outcome (ok, not_found, not_implemented, throttled, "+
				"terminal, retry, timeout, canceled, panic, error). A listing counts once.", "operation", "outcome"),
		duration: factory.NewHistogramVec("mooring_cloud_call_duration_seconds",
			"How long calls to the cloud took, by the plugin's method.", prometheus.ExponentialBuckets(0.01, 3, 9), "operation"), // 10 ms to 66 s
		pages: factory.NewCounterVec("mooring_cloud_pages_total",
			"Pages that listings of the cloud returned.", "operation"),
		queued: factory.NewHistogramVec("mooring_cloud_queue_duration_seconds",
			"How long calls waited to be let in to the cloud, by group and priority.", prometheus.ExponentialBuckets(0.001, 4, 9), "group", "priority"), // 1 ms to 65 s
		panics: factory.NewCounterVec("mooring_cloud_panics_total",
			"Calls in which the plugin panicked, by the plugin's method.", "operation"),
		inFlight: factory.NewGaugeVec(names.MetricCloudCallsInFlight,
			"Calls to the cloud that are under way, by group, without outstanding ones.", "group"),
		waiting: factory.NewGaugeVec(names.MetricCloudCallsWaiting,
			"Calls that wait to be let in to the cloud, by group.", "group"),
		rateLimit: factory.NewGaugeVec(names.MetricCloudRateLimit,
			"Calls a second that are let in, by group, as found from the cloud's refusals. 0: it has refused none, or not for long.", "group"),
		refusals: factory.NewCounterVec(names.MetricCloudRefusals,
			"Calls that the cloud refused for its quota, by group.", "group"),
		outstanding: factory.NewGaugeVec("mooring_cloud_calls_outstanding",
			"Calls that have not returned for so long that they no longer count as under way, by group. No other call about their objects is made.", "group"),
		given: factory.NewCounterVec("mooring_cloud_calls_outstanding_total",
			"Calls that have not returned for so long that they no longer counted as under way, by group.", "group"),
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
