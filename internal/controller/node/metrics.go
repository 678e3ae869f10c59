package node

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/metric"
)

// metrics are the reference controller's two histograms under their names, and ours.
type metrics struct {
	taintRemovalDelay prometheus.Histogram
	initialSyncDelay  prometheus.Histogram
	failures          *prometheus.CounterVec
	refreshDuration   prometheus.Histogram
	refreshFailures   prometheus.Counter
	refreshLookups    *prometheus.CounterVec
	uninitialized     prometheus.Gauge
	denied, missed    prometheus.Collector

	mu      sync.Mutex
	waiting map[types.UID]struct{}
}

// newMetrics returns metrics that show what lasting returns: for how many nodes a denial lasts, and how many were missed.
func newMetrics(registerer prometheus.Registerer, lasting func() (denied, missed int)) *metrics {
	factory := metric.With(registerer)
	sinceCreation := prometheus.ExponentialBuckets(1, 4, 6) // the reference's: 1 s to 17 min
	return &metrics{
		waiting: map[types.UID]struct{}{},
		taintRemovalDelay: factory.NewHistogram("node_controller_cloud_provider_taint_removal_delay_seconds",
			"How long after a node's creation its uninitialized taint was removed.", sinceCreation),
		initialSyncDelay: factory.NewHistogram("node_controller_initial_node_sync_delay_seconds",
			"How long after a node's creation its initialization was complete.", sinceCreation),
		failures: factory.NewCounterVec("mooring_node_failures_total",
			"Attempts to initialize or refresh a node that failed, by the reason that the node's event gives.", "reason"),
		refreshDuration: factory.NewHistogram("mooring_node_refresh_duration_seconds",
			"How long it took to compare all initialized nodes with the cloud, where that is done at once.", prometheus.ExponentialBuckets(0.01, 4, 9)), // 10 ms to 11 min
		refreshFailures: factory.NewCounter("mooring_node_refresh_lookup_failures_total",
			"Nodes that could not be compared with the cloud during a refresh."),
		refreshLookups: factory.NewCounterVec("mooring_node_refresh_lookups_total",
			"Lookups of initialized nodes where each is a call of the cloud, by reason: first, age, retry, or what happened to the node.", "reason"),
		uninitialized: factory.NewGauge("mooring_node_uninitialized",
			"Nodes that wait for their initialization and are not foreign."),
		denied: factory.NewGaugeFunc("mooring_node_denied",
			"Ready nodes whose instances the cloud has denied for a minute or longer.",
			func() float64 { denied, _ := lasting(); return float64(denied) }),
		missed: factory.NewGaugeFunc("mooring_node_never_initialized",
			"Nodes with neither a provider ID nor the uninitialized taint of which the cloud has instances.",
			func() float64 { _, missed := lasting(); return float64(missed) }),
	}
}

// count keeps the number of nodes that wait for their initialization.
func (m *metrics) count(uid types.UID, waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if waits {
		m.waiting[uid] = struct{}{}
	} else {
		delete(m.waiting, uid)
	}
	m.uninitialized.Set(float64(len(m.waiting)))
}
