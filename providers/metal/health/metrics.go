package health

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/providers/metal/announce/model"
)

type metrics struct{ probes map[answer]prometheus.Counter }

func newMetrics(registerer prometheus.Registerer, prober *Prober) *metrics {
	factory := promauto.With(registerer)
	probes := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_metal_probes_total",
		Help: "Probes of ports of nodes, by what they said (welcoming, refusing, leaving, silent).",
	}, []string{"answer"})
	result := &metrics{probes: map[answer]prometheus.Counter{}}
	for _, said := range []answer{silent, refusing, leaving, welcoming} {
		result.probes[said] = probes.WithLabelValues(said.String())
	}
	for health, name := range map[model.Health]string{
		model.Healthy: "healthy", model.Unhealthy: "unhealthy", model.HealthLeaving: "leaving", model.HealthUnknown: "unknown",
	} {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "mooring_metal_probed_ports",
			Help:        "Ports of nodes that are probed, by health state (healthy, unhealthy, leaving, unknown).",
			ConstLabels: prometheus.Labels{"state": name},
		}, func() float64 { return float64(prober.counts()[health]) })
	}
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_probes_blind",
		Help: "1 while no probe of another machine is answered and the last known health states are kept, 0 otherwise.",
	}, func() float64 {
		if prober.Snapshot().Blind {
			return 1
		}
		return 0
	})
	return result
}

func (m *metrics) asked(said answer) { m.probes[said].Inc() }
