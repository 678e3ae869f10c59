package nodelifecycle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
)

// metrics show what the controller does, and above all what it does not dare to do. Calls to the cloud, which the reference's controller
// counts itself, are counted for all controllers in internal/cloud.
type metrics struct {
	deletions    *prometheus.CounterVec
	failures     *prometheus.CounterVec
	held         *prometheus.GaugeVec
	inWindow     prometheus.Gauge
	limit        prometheus.Gauge
	taints       *prometheus.CounterVec
	asked        prometheus.Counter
	unanswered   prometheus.Counter
	passDuration prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := metric.With(registerer)
	return &metrics{
		deletions: factory.NewCounterVec("mooring_node_lifecycle_deletions_total",
			"Nodes that were deleted because the cloud denies their instances, by cause: gone, announced or acknowledged.", "cause"),
		failures: factory.NewCounterVec("mooring_node_lifecycle_write_failures_total",
			"Writes to nodes that the API server refused, by operation: delete, hold, release, taint or untaint.", "operation"),
		held: factory.NewGaugeVec(names.MetricNodesHeld,
			"Nodes that are kept although the cloud denies their instances, by the reason of their condition CloudInstanceGone.", "reason"),
		inWindow: factory.NewGauge(names.MetricDeletionsInWindow,
			"Deletions that count against --node-deletion-limit now."),
		limit: factory.NewGauge(names.MetricDeletionLimit,
			"How many deletions --node-deletion-limit allows now, within its window."),
		taints: factory.NewCounterVec("mooring_node_lifecycle_taints_total",
			"Shutdown taints that were written, by operation: taint or untaint.", "operation"),
		asked: factory.NewCounter("mooring_node_lifecycle_questions_total",
			"Questions about nodes' instances. Where the cloud can list, all of one period are answered by one listing."),
		unanswered: factory.NewCounter("mooring_node_lifecycle_unanswered_questions_total",
			"Questions about nodes' instances to which the cloud gave an error or no answer."),
		passDuration: factory.NewHistogram("mooring_node_lifecycle_pass_duration_seconds",
			"How long passes over all nodes took, the cloud's answers and writes included; it does not wait for calls that hang.", prometheus.ExponentialBuckets(0.001, 5, 9)), // 1 ms to 6.5 min
	}
}

// planned shows what a pass has decided.
func (m *metrics) planned(p plan) {
	for _, reason := range []HoldReason{
		HoldEveryInstanceGone, HoldRunningNodesDenied, HoldLimitReached, HoldHistoryUnknown, HoldKubeletReports,
	} {
		m.held.WithLabelValues(string(reason)).Set(float64(p.held[reason]))
	}
	m.inWindow.Set(float64(p.spent))
	m.limit.Set(float64(p.limit))
}

// wrote counts what became of an action.
func (m *metrics) wrote(r result) {
	switch {
	case r.outcome.Failed():
		m.failures.WithLabelValues(r.action.kind.String()).Inc()
	case r.outcome != kit.Written:
	case r.action.kind == deleteNode:
		m.deletions.WithLabelValues(string(r.action.cause)).Inc()
	case r.action.kind == addTaint || r.action.kind == removeTaint:
		m.taints.WithLabelValues(r.action.kind.String()).Inc()
	}
}

func (m *metrics) passed(took time.Duration) { m.passDuration.Observe(took.Seconds()) }
