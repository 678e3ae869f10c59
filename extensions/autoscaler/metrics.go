package autoscaler

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/codes"
)

// metrics show what the autoscaler asks, and how old the answers are.
type metrics struct {
	calls   *prometheus.HistogramVec
	serving prometheus.Gauge
	marked  prometheus.Counter
	ages    *ages
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		calls: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mooring_autoscaler_call_duration_seconds",
			Help:    "Calls of the Cluster Autoscaler and how long they took, by method of its protocol and code of gRPC.",
			Buckets: []float64{0.01, 0.1, 0.5, 1, 2, 3, 4, 5},
		}, []string{"method", "code"}),
		serving: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_autoscaler_serving",
			Help: "1 on the replica that serves the Cluster Autoscaler, and 0 on one that leads and cannot open the port.",
		}),
		marked: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_autoscaler_deletions_requested_total",
			Help: "Nodes whose deletion the Cluster Autoscaler has asked for, and instances without a node.",
		}),
		ages: &ages{of: map[string]age{}},
	}
	if registerer != nil {
		registerer.MustRegister(m.ages)
	}
	return m
}

func (m *metrics) observe(group string, at time.Time, served bool) {
	m.ages.set(group, age{at, served})
}

func (m *metrics) forget(group string) { m.ages.forget(group) }

// called counts a call.
func (m *metrics) called(method string, code codes.Code, took time.Duration) {
	m.calls.WithLabelValues(method, code.String()).Observe(took.Seconds())
}

// ages are the ages of what is known of groups, at the time of the scrape.
type ages struct {
	mu sync.Mutex
	of map[string]age
}

type age struct {
	at     time.Time
	served bool
}

var (
	ageDesc = prometheus.NewDesc("mooring_autoscaler_node_group_age_seconds",
		"How old the state of a node group is that the Cluster Autoscaler is answered with. A group that was never seen has none.", []string{"node_group"}, nil)
	servedDesc = prometheus.NewDesc("mooring_autoscaler_node_group_served",
		"1 if a node group is part of the Cluster Autoscaler's rounds, 0 if it is left out because its state is not known.", []string{"node_group"}, nil)
)

func (a *ages) set(group string, to age) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[group] = to
}

func (a *ages) forget(group string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, group)
}

// Describe is part of prometheus.Collector.
func (a *ages) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- ageDesc
	descriptions <- servedDesc
}

// Collect is part of prometheus.Collector.
func (a *ages) Collect(metrics chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for group, known := range a.of {
		served := 0.0
		if known.served {
			served = 1
		}
		metrics <- prometheus.MustNewConstMetric(servedDesc, prometheus.GaugeValue, served, group)
		if !known.at.IsZero() {
			metrics <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, time.Since(known.at).Seconds(), group)
		}
	}
}
