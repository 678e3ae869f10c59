package config

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/providers/internal/configsource"
)

// Register exports the metrics of a source. It is called once at most.
func Register(source *Source, registerer prometheus.Registerer) {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_config_reload_failed",
		Help: "Whether the cloud config or a list of machines has changed in a way that is not taken: 1, or 0 if the files are in force.",
	}, func() float64 {
		if source.Failure() != nil {
			return 1
		}
		return 0
	})
	for result, count := range map[string]func(configsource.Statistics) int{
		"applied": func(s configsource.Statistics) int { return s.Applied },
		"refused": func(s configsource.Statistics) int { return s.Refused },
	} {
		factory.NewCounterFunc(prometheus.CounterOpts{
			Name:        "mooring_metal_config_loads_total",
			Help:        "How often changed files were loaded, by result: applied or refused.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(count(source.Statistics())) })
	}
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_config_loaded_timestamp_seconds",
		Help: "When the cloud config that is in force was loaded, in seconds since 1970.",
	}, func() float64 { return float64(source.Statistics().LoadedAt.Unix()) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mooring_metal_machines",
		Help: "Machines in the inventory.",
	}, func() float64 { return float64(len(source.Current().Inventory.Machines)) })
}
