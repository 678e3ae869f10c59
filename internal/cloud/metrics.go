package cloud

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
)

// metrics show what this process does at the cloud's API. The label group has the few values that package admission names and a
// provider declares.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	pages    *prometheus.CounterVec
	queued   *prometheus.HistogramVec
	panics   *prometheus.CounterVec
	queue    admission.Metrics
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
		queue: admission.Metrics{
			InFlight: factory.NewGaugeVec(names.MetricCloudCallsInFlight,
				"Calls to the cloud that are under way, by group, without outstanding ones.", "group"),
			Waiting: factory.NewGaugeVec(names.MetricCloudCallsWaiting,
				"Calls that wait to be let in to the cloud, by group.", "group"),
			RateLimit: factory.NewGaugeVec(names.MetricCloudRateLimit,
				"Calls a second that are let in, by group, as found from the cloud's refusals. 0: it has refused none, or not for long.", "group"),
			Refusals: factory.NewCounterVec(names.MetricCloudRefusals,
				"Calls that the cloud refused for its quota, by group.", "group"),
			Outstanding: factory.NewGaugeVec("mooring_cloud_calls_outstanding",
				"Calls that have not returned for so long that they no longer count as under way, by group. No other call about their objects is made.", "group"),
			GivenUp: factory.NewCounterVec("mooring_cloud_calls_outstanding_total",
				"Calls that have not returned for so long that they no longer counted as under way, by group.", "group"),
		},
	}
	for name := range admission.Operations { // an alert on an increase needs a value from before the first panic
		m.panics.WithLabelValues(name)
	}
	return m
}
