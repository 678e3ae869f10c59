package inventory

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show how little the cloud is asked, and how old what we know is.
type metrics struct {
	listings  *prometheus.CounterVec
	duration  prometheus.Histogram
	pages     prometheus.Counter
	instances prometheus.Gauge
	listedAt  prometheus.Gauge
	calls     *prometheus.CounterVec
	lookups   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		listings: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_inventory_listings_total",
			Help: "Listings of the cloud's instances, by result: success or error.",
		}, []string{"result"}),
		duration: factory.NewHistogram(prometheus.HistogramOpts{
			Name:    "mooring_inventory_listing_duration_seconds",
			Help:    "How long listings of the cloud's instances took, all pages together.",
			Buckets: prometheus.ExponentialBuckets(0.05, 3, 8), // 50 ms to 109 s
		}),
		pages: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_inventory_pages_total",
			Help: "Pages that listings of the cloud's instances consisted of.",
		}),
		instances: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_inventory_instances",
			Help: "Instances in the newest complete listing.",
		}),
		listedAt: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_inventory_listing_timestamp_seconds",
			Help: "When the newest complete listing began, in seconds since the epoch. The age of the snapshot is time() minus this.",
		}),
		calls: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_inventory_instance_calls_total",
			Help: "Questions to the cloud for one node, by result: found, not_found, no_statement or error. None where it can list.",
		}, []string{"result"}),
		lookups: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_inventory_lookups_total",
			Help: "Lookups of nodes by controllers, by result: found, not_found, no_statement or error. Most cost the cloud nothing.",
		}, []string{"result"}),
	}
}

func (m *metrics) listed(began time.Time, instances int, took time.Duration, err error) {
	m.duration.Observe(took.Seconds())
	if err != nil {
		m.listings.WithLabelValues("error").Inc()
		return
	}
	m.listings.WithLabelValues("success").Inc()
	m.instances.Set(float64(instances))
	m.listedAt.Set(float64(began.UnixMilli()) / 1000)
}

func (m *metrics) asked(result string) { m.calls.WithLabelValues(result).Inc() }

func (m *metrics) lookedUp(observation Observation, err error) {
	result := observation.Status.String()
	if err != nil {
		result = "error"
	}
	m.lookups.WithLabelValues(result).Inc()
}
