package bgp

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	upDesc = prometheus.NewDesc("mooring_metal_bgp_session_up",
		"Whether the session with a router is established.", []string{"peer"}, nil)
	sinceDesc = prometheus.NewDesc("mooring_metal_bgp_session_last_transition_timestamp_seconds",
		"When the session with a router came up or went down.", []string{"peer"}, nil)
	flapsDesc = prometheus.NewDesc("mooring_metal_bgp_session_flaps_total",
		"How often the session with a router went down.", []string{"peer"}, nil)
	updatesDesc = prometheus.NewDesc("mooring_metal_bgp_updates_sent_total",
		"Messages with routes that were sent to a router, since its configuration last changed.", []string{"peer"}, nil)
	prefixesDesc = prometheus.NewDesc("mooring_metal_bgp_prefixes",
		"Destinations that were announced to a router. Zero while the session is not up.", []string{"peer", "family"}, nil)
	pathsDesc = prometheus.NewDesc("mooring_metal_bgp_paths",
		"Paths that were announced to a router: with ADD-PATH one for each next hop of a destination.", []string{"peer", "family"}, nil)
	leftOutDesc = prometheus.NewDesc("mooring_metal_bgp_next_hops_left_out",
		"Next hops that are not announced because their destination has more than can be.", nil, nil)
)

// collector shows the status of the speaker's sessions when it is asked.
type collector struct{ speaker *Speaker }

// Describe sends the descriptions of all metrics.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{upDesc, sinceDesc, flapsDesc, updatesDesc, prefixesDesc, pathsDesc, leftOutDesc} {
		descriptions <- description
	}
}

// Collect sends the metrics.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	for _, peer := range c.speaker.Peers() {
		up := 0.0
		if peer.Up() {
			up = 1
		}
		gauge(upDesc, up, peer.Name)
		gauge(sinceDesc, float64(peer.Since.UnixMilli())/1000, peer.Name)
		metrics <- prometheus.MustNewConstMetric(flapsDesc, prometheus.CounterValue, float64(peer.Flaps), peer.Name)
		metrics <- prometheus.MustNewConstMetric(updatesDesc, prometheus.CounterValue, float64(peer.UpdatesSent), peer.Name)
		for _, family := range peer.Families {
			gauge(prefixesDesc, float64(family.Prefixes), peer.Name, string(family.Family))
			gauge(pathsDesc, float64(family.Paths), peer.Name, string(family.Family))
		}
	}
	gauge(leftOutDesc, float64(c.speaker.sessions.leftOut()))
}
