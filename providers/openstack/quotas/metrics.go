package quotas

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics show what is used. They are made before there is a registerer.
type metrics struct{ limit, used *prometheus.GaugeVec }

func newMetrics() *metrics {
	return &metrics{
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_openstack_quota_limit",
			Help: "How many the project may have, by resource, as the replica that leads has read it within a quarter of an hour. Without a limit there is no value.",
		}, []string{"resource"}),
		used: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_openstack_quota_used",
			Help: "How many the project has of what it has a quota of, by resource, for all users of the project.",
		}, []string{"resource"}),
	}
}

// Register exports the metrics. It is called once at most.
func (w *Watcher) Register(registerer prometheus.Registerer) error {
	for _, metric := range []*prometheus.GaugeVec{w.metrics.limit, w.metrics.used} {
		if err := registerer.Register(metric); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) show(all []Usage) {
	for _, one := range all {
		m.used.WithLabelValues(one.Resource).Set(float64(one.Used))
		if one.Limit >= 0 {
			m.limit.WithLabelValues(one.Resource).Set(float64(one.Limit))
		}
	}
}

func (m *metrics) hide(all []Usage) {
	for _, one := range all {
		m.used.DeleteLabelValues(one.Resource)
		m.limit.DeleteLabelValues(one.Resource)
	}
}
