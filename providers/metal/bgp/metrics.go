package bgp

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics shows the status of the speaker's sessions.
type metrics struct {
	speaker *Speaker

	up, since, flaps, updates, prefixes, paths, leftOut *prometheus.Desc
}

func newMetrics(speaker *Speaker) *metrics {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mooring_metal_bgp_"+name, help, labels, nil)
	}
	return &metrics{
		speaker: speaker,
		up:      describe("session_up", "Whether the session with a router is established.", "peer"),
		since: describe("session_last_transition_timestamp_seconds",
			"When the session with a router came up or went down.", "peer"),
		flaps: describe("session_flaps_total", "How often the session with a router went down.", "peer"),
		updates: describe("updates_sent_total",
			"Messages with routes that were sent to a router, since its configuration last changed.", "peer"),
		prefixes: describe("prefixes",
			"Destinations that a router was told. Zero while the session is not up.", "peer", "family"),
		paths: describe("paths",
			"Paths that a router was told: with ADD-PATH one for each next hop of a destination.", "peer", "family"),
		leftOut: describe("next_hops_left_out",
			"Next hops that are not announced because their destination has more than can be."),
	}
}

// Describe sends what there is to be measured.
func (m *metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{m.up, m.since, m.flaps, m.updates, m.prefixes, m.paths, m.leftOut} {
		descriptions <- description
	}
}

// Collect sends the values.
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		values <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	for _, peer := range m.speaker.Peers() {
		up := 0.0
		if peer.Up() {
			up = 1
		}
		gauge(m.up, up, peer.Name)
		gauge(m.since, float64(peer.Since.UnixMilli())/1000, peer.Name)
		values <- prometheus.MustNewConstMetric(m.flaps, prometheus.CounterValue, float64(peer.Flaps), peer.Name)
		values <- prometheus.MustNewConstMetric(m.updates, prometheus.CounterValue, float64(peer.UpdatesSent), peer.Name)
		for _, family := range peer.Families {
			gauge(m.prefixes, float64(family.Prefixes), peer.Name, string(family.Family))
			gauge(m.paths, float64(family.Paths), peer.Name, string(family.Family))
		}
	}
	gauge(m.leftOut, float64(m.speaker.sessions.leftOut()))
}
