package config

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// sourceMetrics are counted from the first reading on, which is before there is a registerer.
type sourceMetrics struct {
	failing            atomic.Bool
	successes, refused atomic.Int64
	loadedAt           atomic.Int64
}

func (m *sourceMetrics) applied(at time.Time) {
	m.failing.Store(false)
	m.successes.Add(1)
	m.loadedAt.Store(at.Unix())
}

func (m *sourceMetrics) failed() {
	m.failing.Store(true)
	m.refused.Add(1)
}

// Register exports the metrics of the source. It is called once at most.
func (s *Source) Register(registerer prometheus.Registerer) {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_config_reload_failed",
		Help: "Whether the cloud config or a list of machines has changed in a way that is not taken: 1, or 0 if the files are in force.",
	}, func() float64 {
		if s.metrics.failing.Load() {
			return 1
		}
		return 0
	})
	for result, count := range map[string]*atomic.Int64{"applied": &s.metrics.successes, "refused": &s.metrics.refused} {
		factory.NewCounterFunc(prometheus.CounterOpts{
			Name:        "mooring_metal_config_loads_total",
			Help:        "How often changed files were loaded, by result: applied or refused.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count.Load()) })
	}
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_config_loaded_timestamp_seconds",
		Help: "When the cloud config that is in force was loaded, in seconds since 1970.",
	}, func() float64 { return float64(s.metrics.loadedAt.Load()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_machines",
		Help: "Machines in the inventory.",
	}, func() float64 { return float64(len(s.Current().Inventory.Machines)) })
}
