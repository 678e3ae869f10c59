package servingcertificate

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show what the controller does, and what waits.
type metrics struct {
	approved prometheus.Counter
	denied   *prometheus.CounterVec
	failures prometheus.Counter
	waiting  *prometheus.GaugeVec
	waited   prometheus.Histogram

	mu sync.Mutex
	// of are the requests that wait, by requester and reason.
	of map[string]map[string]int
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		of: map[string]map[string]int{},
		approved: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_serving_certificate_approvals_total",
			Help: "Requests of kubelets for serving certificates that were approved.",
		}),
		denied: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_serving_certificate_denials_total",
			Help: "Requests of kubelets for serving certificates that were denied, by the reason of their condition.",
		}, []string{"reason"}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_serving_certificate_write_failures_total",
			Help: "Approvals and denials that the API server refused, or did not answer.",
		}),
		waiting: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_serving_certificate_waiting_requests",
			Help: "Requests of kubelets for serving certificates that stay pending, by the reason of their event.",
		}, []string{"reason"}),
		waited: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "mooring_serving_certificate_approval_duration_seconds",
			Help:    "How long requests waited for their approval, from their creation.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 9), // 0.1 s to 1.8 h
		}),
	}
	for _, reason := range waitReasons() {
		m.waiting.WithLabelValues(reason).Set(0)
	}
	return m
}

// waits notes which requests of a requester wait.
func (m *metrics) waits(requester string, decisions []decision) {
	now := map[string]int{}
	for _, decided := range decisions {
		if decided.kind == wait && decided.reason != "" {
			now[decided.reason]++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.of[requester]
	for _, reason := range waitReasons() {
		if change := now[reason] - before[reason]; change != 0 {
			m.waiting.WithLabelValues(reason).Add(float64(change))
		}
	}
	delete(m.of, requester)
	if len(now) > 0 {
		m.of[requester] = now
	}
}
