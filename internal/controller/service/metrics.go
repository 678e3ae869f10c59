package service

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
)

// metrics are those of the reference controller under their names, and ours.
type metrics struct {
	syncs           prometheus.Counter
	nodeSyncErrors  prometheus.Counter
	nodeSyncLatency prometheus.Histogram
	hostLatency     prometheus.Histogram

	failures  *prometheus.CounterVec
	ready     prometheus.Histogram
	targets   prometheus.Gauge
	drifts    *prometheus.CounterVec
	audits    *prometheus.CounterVec
	leftovers *prometheus.GaugeVec
	collected prometheus.Counter
	// strayRoutes are routes that lead to no node.
	strayRoutes prometheus.Gauge

	mu sync.Mutex
	// round is the load balancers that have not heard yet of the last change of the set of nodes, which began at roundBegan.
	round      map[types.NamespacedName]struct{}
	roundBegan time.Time
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	long := prometheus.ExponentialBuckets(1, 2, 15) // the reference's: 1 s to 4.5 h
	return &metrics{
		round: map[types.NamespacedName]struct{}{},
		syncs: factory.NewCounter(prometheus.CounterOpts{
			Name: "service_controller_loadbalancer_sync_total",
			Help: "How often the targets of a load balancer were changed because the set of nodes had.",
		}),
		nodeSyncErrors: factory.NewCounter(prometheus.CounterOpts{
			Name: "service_controller_nodesync_error_total",
			Help: "How often that failed.",
		}),
		nodeSyncLatency: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "service_controller_nodesync_latency_seconds", Buckets: long,
			Help: "How long it took until all load balancers had heard of a change of the set of nodes.",
		}),
		hostLatency: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "service_controller_update_loadbalancer_host_latency_seconds", Buckets: long,
			Help: "How long it took to change the targets of one load balancer, the wait for its turn included.",
		}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_service_failures_total",
			Help: "Passes over a Service that failed, by the reason that the Service's condition gives.",
		}, []string{"reason"}),
		ready: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "mooring_service_time_to_address_seconds",
			Help:    "How long after a Service's creation its first address was in its status.",
			Buckets: prometheus.ExponentialBuckets(0.25, 2, 13), // 250 ms to 17 min
		}),
		targets: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_service_targets",
			Help: "Nodes that are targets of every load balancer.",
		}),
		drifts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_service_drift_total",
			Help: "Load balancers that were found to be gone or changed in the cloud, by kind: gone or changed.",
		}, []string{"kind"}),
		audits: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_service_audits_total",
			Help: "Comparisons with the cloud, by result: success or error. One is a listing, or a call for one load balancer.",
		}, []string{"result"}),
		leftovers: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_service_leftovers",
			Help: "Load balancers in the cloud that belong to no Service, by owner: this_cluster, or unknown for those without a " +
				"cluster's UID, which may be another cluster's of the same name.",
		}, []string{"owner"}),
		collected: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_service_leftovers_collected_total",
			Help: "Load balancers that were deleted because they belonged to no Service.",
		}),
		strayRoutes: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_service_stray_routes",
			Help: "Routes in the cloud under this cluster's name that lead to no node. They are not deleted for that.",
		}),
	}
}

// registerCounts exports how many load balancers there are and how many wait, counted when somebody asks.
func registerCounts(registerer prometheus.Registerer, memory *memory, limiter *writeLimiter) {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_service_writes_waiting",
		Help: "Services that wait for other writes to load balancers, of which the cloud bears only so many at once.",
	}, func() float64 { return float64(limiter.countWaiting()) })
	gauge := func(state string, count func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "mooring_service_load_balancers",
			Help:        "Services that have or shall have a load balancer, by state: provided, or unfinished.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count()) })
	}
	gauge("provided", func() int { provided, _ := memory.counts(); return provided })
	gauge("unfinished", func() int { _, unfinished := memory.counts(); return unfinished })
}

// beginRound notes which load balancers have to hear of a change of the set of nodes.
func (m *metrics) beginRound(keys []types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.round) == 0 {
		m.roundBegan = now
	}
	for _, key := range keys {
		m.round[key] = struct{}{}
	}
}

// heard notes that a load balancer has heard of it, or need not any more.
func (m *metrics) heard(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waited := m.round[key]; !waited {
		return
	}
	delete(m.round, key)
	if len(m.round) == 0 {
		m.nodeSyncLatency.Observe(now.Sub(m.roundBegan).Seconds())
	}
}
