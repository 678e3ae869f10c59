package cloud

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show what this process does at the cloud's API. The label group has the few values that operation.go names and a
// provider declares.
type metrics struct {
	calls     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	pages     *prometheus.CounterVec
	queued    *prometheus.HistogramVec
	panics    *prometheus.CounterVec
	inFlight  *prometheus.GaugeVec
	waiting   *prometheus.GaugeVec
	rateLimit *prometheus.GaugeVec
	refusals  *prometheus.CounterVec
	own       *prometheus.GaugeVec
	abandoned *prometheus.GaugeVec
	given     *prometheus.CounterVec
	breaker   *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	group := []string{"group"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, group)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &metrics{
		calls: counter("mooring_cloud_calls_total",
			"Calls to the cloud through the plugin, by the plugin's method and by outcome. A listing counts once.", "operation", "outcome"),
		duration: histogram("mooring_cloud_call_duration_seconds",
			"How long calls to the cloud took, by the plugin's method.", prometheus.ExponentialBuckets(0.01, 3, 9), "operation"), // 10 ms to 66 s
		pages: counter("mooring_cloud_pages_total", "Pages that listings of the cloud returned.", "operation"),
		queued: histogram("mooring_cloud_queue_duration_seconds",
			"How long calls waited to be let in to the cloud, by group and priority.",
			prometheus.ExponentialBuckets(0.001, 4, 9), "group", "priority"), // 1 ms to 65 s
		panics:   counter("mooring_cloud_panics_total", "Calls in which the plugin panicked, by the plugin's method.", "operation"),
		inFlight: gauge("mooring_cloud_calls_in_flight", "Calls to the cloud that are under way, by group, without those that were abandoned."),
		waiting:  gauge("mooring_cloud_calls_waiting", "Calls that wait to be let in to the cloud, by group."),
		rateLimit: gauge("mooring_cloud_rate_limit",
			"Calls a second that are let in, by group, as found from the cloud's refusals. 0: it has refused none, or not for long."),
		refusals: counter("mooring_cloud_refusals_total", "Calls that the cloud refused for its quota, by group.", "group"),
		own: gauge("mooring_cloud_refused_objects",
			"Objects that the cloud refuses again and again while it accepts others, by group. They slow nobody else."),
		abandoned: gauge("mooring_cloud_calls_abandoned",
			"Calls that the plugin has not returned from although their deadline has passed, by group. They hold no place any more."),
		given:   counter("mooring_cloud_calls_abandoned_total", "Calls that were abandoned at their deadline, by group.", "group"),
		breaker: gauge("mooring_cloud_breaker_open", "1 while calls of a group are held back because the cloud fails all of them, otherwise 0."),
	}
}

func (m *metrics) observe(operation, outcome string, took time.Duration) {
	m.calls.WithLabelValues(operation, outcome).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}

// begin shows a group from the beginning, and not only once something has happened.
func (m *metrics) begin(group string) {
	for _, gauge := range []*prometheus.GaugeVec{m.inFlight, m.waiting, m.rateLimit, m.own, m.abandoned, m.breaker} {
		gauge.WithLabelValues(group).Set(0)
	}
	m.refusals.WithLabelValues(group)
	m.given.WithLabelValues(group)
}
