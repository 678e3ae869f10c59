package power

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics show what controllers say, and which do not.
type metrics struct {
	readings *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer, poller *Poller) *metrics {
	factory := promauto.With(registerer)
	if registerer != nil {
		registerer.MustRegister(&collector{
			poller: poller,
			machines: prometheus.NewDesc("mooring_metal_machines_power",
				"Machines that have a BMC, by power state as it counts: on, off (confirmed) or unknown.", []string{"state"}, nil),
			systems: prometheus.NewDesc("mooring_metal_bmc_systems",
				"Machines that have a BMC, by whether it is theirs: verified (it gives the systemUUID of the inventory), unverified "+
					"(one of the two is not known), wrong (it gives another one) or unknown (it does not answer).", []string{"result"}, nil),
			failing: prometheus.NewDesc("mooring_metal_bmc_failures",
				"Attempts in a row to read the power state of a machine that failed, for machines of which the last attempt did.",
				[]string{"machine"}, nil),
		})
	}
	return &metrics{
		readings: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_power_readings_total",
			Help: "Attempts to read a power state, by protocol (redfish, ipmi or command) and result: on, off, unknown or error.",
		}, []string{"protocol", "result"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "mooring_metal_power_reading_duration_seconds",
			Help:    "How long attempts to read a power state took, by protocol.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2.5, 8), // 10 ms to 6 s
		}, []string{"protocol"}),
	}
}

func (m *metrics) read(protocol string, state State, err error, took time.Duration) {
	result := state.String()
	if err != nil {
		result = "error"
	}
	m.readings.WithLabelValues(protocol, result).Inc()
	m.duration.WithLabelValues(protocol).Observe(took.Seconds())
}

// collector counts when it is asked, because states stop to count without anything happening.
type collector struct {
	poller                     *Poller
	machines, systems, failing *prometheus.Desc
}

// Describe is of prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.machines
	descs <- c.systems
	descs <- c.failing
}

// Collect is of prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	states := map[State]int{On: 0, Off: 0, Unknown: 0}
	systems := map[string]int{"verified": 0, "unverified": 0, "wrong": 0, "unknown": 0}
	failing := map[string]int{}
	c.poller.mu.Lock()
	for _, w := range c.poller.watched {
		observed := w.history.observe(time.Now(), counts(c.poller.settings))
		states[observed.State]++
		systems[observed.system()]++
		if w.history.failures > 0 {
			failing[w.machine.Name] = w.history.failures
		}
	}
	c.poller.mu.Unlock()
	for state, count := range states {
		metrics <- prometheus.MustNewConstMetric(c.machines, prometheus.GaugeValue, float64(count), state.String())
	}
	for result, count := range systems {
		metrics <- prometheus.MustNewConstMetric(c.systems, prometheus.GaugeValue, float64(count), result)
	}
	for machine, failures := range failing {
		metrics <- prometheus.MustNewConstMetric(c.failing, prometheus.GaugeValue, float64(failures), machine)
	}
}

// system says whether the controller is the machine's.
func (o Observation) system() string {
	var wrong *WrongSystemError
	switch {
	case errors.As(o.Err, &wrong):
		return "wrong"
	case o.Verified:
		return "verified"
	case o.State != Unknown:
		return "unverified"
	default:
		return "unknown"
	}
}
