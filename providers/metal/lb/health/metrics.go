package health

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

type metrics struct{ probes map[answer]prometheus.Counter }

func newMetrics(registerer prometheus.Registerer, prober *Prober) *metrics {
	factory := promauto.With(registerer)
	probes := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_metal_probes_total",
		Help: "Probes of ports of nodes, by what they said (welcoming, refusing, leaving, closed, silent).",
	}, []string{"answer"})
	result := &metrics{probes: map[answer]prometheus.Counter{}}
	for _, said := range answers {
		result.probes[said] = probes.WithLabelValues(said.String())
	}
	for _, health := range model.Healths {
		factory.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "mooring_metal_probed_ports",
			Help:        "Ports of nodes that are probed, by health state (healthy, damped, leaving, refused, unhealthy, unreached, unknown).",
			ConstLabels: prometheus.Labels{"state": health.String()},
		}, func() float64 { return float64(prober.counts()[health]) })
	}
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_kube_proxy_unproven",
		Help: "1 while no kube-proxy has ever answered at its health port: then nodes count as working while they live. 0 otherwise.",
	}, func() float64 {
		if prober.Snapshot().Unproven {
			return 1
		}
		return 0
	})
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
