package dead

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show what is tainted, what is turned off, and what is not.
type metrics struct {
	writes, failures *prometheus.CounterVec
	marked           prometheus.Gauge
	attempts         *prometheus.CounterVec
	held             *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		writes: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_out_of_service_writes_total",
			Help: "Changes of the taint node.kubernetes.io/out-of-service on nodes, by operation: taint or untaint.",
		}, []string{"operation"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_out_of_service_write_failures_total",
			Help: "Changes of that taint that the API server refused or did not answer, by operation: taint or untaint.",
		}, []string{"operation"}),
		marked: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_metal_out_of_service_nodes",
			Help: "Nodes that have the taint node.kubernetes.io/out-of-service by this provider.",
		}),
		attempts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_fencing_attempts_total",
			Help: "Attempts to turn off the machine of a silent node, by result: succeeded, failed, or outdated if the node has changed before.",
		}, []string{"result"}),
		held: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_fencing_held_nodes",
			Help: "Silent nodes whose machines have power, or may have, and are not turned off, by reason.",
		}, []string{"reason"}),
	}
}

// attempt counts an attempt that ended so.
func (m *metrics) attempt(err error) {
	result := "failed"
	switch {
	case err == nil:
		result = "succeeded"
	case errors.Is(err, errOutdated):
		result = "outdated"
	}
	m.attempts.WithLabelValues(result).Inc()
}

// holds shows why machines are not turned off.
func (m *metrics) holds(held map[string]holdReason) {
	counts := map[holdReason]int{}
	for _, why := range held {
		counts[why]++
	}
	for _, why := range holds {
		m.held.WithLabelValues(string(why)).Set(float64(counts[why]))
	}
}
