package nodegroups

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show what is to be deleted, and what became of it.
type metrics struct {
	deleted  prometheus.Counter
	canceled prometheus.Counter
	failures prometheus.Counter
	late     prometheus.Counter
	waited   prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, pending func() int) *metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_autoscaler_pending_deletions",
		Help: "Nodes whose instances the Cluster Autoscaler wants deleted, until the Node is gone.",
	}, func() float64 { return float64(pending()) })
	return &metrics{
		deleted: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_autoscaler_deletions_total", Help: "Instances of nodes whose deletion the cloud has accepted, for the Cluster Autoscaler.",
		}),
		canceled: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_autoscaler_canceled_deletions_total", Help: "Deletions that the Cluster Autoscaler gave up before the cloud was asked for them.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_autoscaler_deletion_failures_total", Help: "Tries to delete the instance of a node for the Cluster Autoscaler that failed.",
		}),
		late: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_autoscaler_deletions_before_load_balancers_total",
			Help: "Instances that were deleted for the Cluster Autoscaler although load balancers had them as targets, or may have had.",
		}),
		waited: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "mooring_autoscaler_deletion_duration_seconds",
			Help:    "How long it took from the Cluster Autoscaler's wish until the cloud accepted the deletion of an instance.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12), // 1 s to 34 min
		}),
	}
}
