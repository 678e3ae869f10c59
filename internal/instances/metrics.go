package instances

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/internal/metric"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// metrics show how little the cloud is asked, and how old what we know is.
type metrics struct {
	listings  *prometheus.CounterVec
	duration  prometheus.Histogram
	pages     prometheus.Counter
	instances prometheus.Gauge
	leftOut   prometheus.Gauge
	listedAt  prometheus.Gauge
	calls     *prometheus.CounterVec
	lookups   *prometheus.CounterVec
	events    *prometheus.CounterVec
	ends      *prometheus.CounterVec
	markedAt  prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := metric.With(registerer)
	return &metrics{
		listings: factory.NewCounterVec("mooring_inventory_listings_total",
			"Listings of the cloud's instances, by result: success or error.", "result"),
		duration: factory.NewHistogram("mooring_inventory_listing_duration_seconds",
			"How long listings of the cloud's instances took, all pages together.", prometheus.ExponentialBuckets(0.05, 3, 8)), // 50 ms to 109 s
		pages: factory.NewCounter("mooring_inventory_pages_total",
			"Pages that listings of the cloud's instances consisted of."),
		instances: factory.NewGauge(names.MetricInventoryInstances,
			"Instances in the newest complete listing, or by the watch."),
		leftOut: factory.NewGauge("mooring_inventory_instances_left_out",
			"Instances that are left out of the newest listing, or of the watch, because they cannot be told apart."),
		listedAt: factory.NewGauge(names.MetricInventoryListed,
			"When the newest complete listing began, in seconds since the epoch. The age of the snapshot is time() minus this."),
		calls: factory.NewCounterVec("mooring_inventory_instance_calls_total",
			"Questions to the cloud for one node, by result: found, not_found, no_statement or error. None where it can list.", "result"),
		lookups: factory.NewCounterVec("mooring_inventory_lookups_total",
			"Lookups of nodes by controllers, by result: found, not_found, no_statement or error. Most cost the cloud nothing.", "result"),
		events: factory.NewCounterVec("mooring_inventory_watch_events_total",
			"What the watch of the cloud's instances reported, by kind: set, deleted or mark.", "kind"),
		ends: factory.NewCounterVec("mooring_inventory_watch_ends_total",
			"Ends of the watch of the cloud's instances, by reason: expired, silent or error. It is tried again each time.", "reason"),
		markedAt: factory.NewGauge(names.MetricInventoryWatched,
			"When the watch of the cloud's instances last was current, in seconds since the epoch; 0 if it never was."),
	}
}

func (m *metrics) listed(began time.Time, made *assembly, took time.Duration, err error) {
	m.duration.Observe(took.Seconds())
	if err != nil {
		m.listings.WithLabelValues("error").Inc()
		return
	}
	m.listings.WithLabelValues("success").Inc()
	m.instances.Set(float64(made.size()))
	m.leftOut.Set(float64(made.indistinguishable.left()))
	m.listedAt.Set(seconds(began))
}

func (m *metrics) watched(kind provider.InstanceEventKind) {
	m.events.WithLabelValues(kind.String()).Inc()
}

func (m *metrics) marked(at time.Time, known *snapshot) {
	m.instances.Set(float64(len(known.byProviderID)))
	m.leftOut.Set(float64(known.indistinguishable.left()))
	m.markedAt.Set(seconds(at))
}

func (m *metrics) watchEnded(err error) {
	reason := "error"
	switch {
	case errors.Is(err, provider.ErrWatchExpired):
		reason = "expired"
	case errors.Is(err, errSilent):
		reason = "silent"
	}
	m.ends.WithLabelValues(reason).Inc()
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
