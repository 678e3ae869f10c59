package bgp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/internal/names"
)

var (
	upDesc = prometheus.NewDesc(names.MetricSessionUp,
		"Whether the session with a router is established.", []string{"peer"}, nil)
	stateDesc = prometheus.NewDesc(names.MetricSessionState,
		"1 for the state that the session with a router is in, by the names of RFC 4271, 0 for the others.", []string{"peer", "state"}, nil)
	problemDesc = prometheus.NewDesc(names.MetricSessionProblem,
		"1 for each problem that keeps a router from having everything that is announced. The family is empty for a problem of the whole session.",
		[]string{"peer", "family", "problem"}, nil)
	failuresDesc = prometheus.NewDesc("mooring_metal_bgp_session_failures_total",
		"How often the session with a router ended or could not begin, by problem.", []string{"peer", "problem"}, nil)
	sinceDesc = prometheus.NewDesc(names.MetricSessionChanged,
		"When the session with a router came up or went down.", []string{"peer"}, nil)
	flapsDesc = prometheus.NewDesc(names.MetricSessionFlaps,
		"How often the session with a router went down.", []string{"peer"}, nil)
	updatesDesc = prometheus.NewDesc("mooring_metal_bgp_updates_sent_total",
		"Messages with routes that were sent to a router, since its configuration last changed.", []string{"peer"}, nil)
	prefixesDesc = prometheus.NewDesc(names.MetricSessionPrefixes,
		"Destinations that were announced to a router. Zero while the session is not up.", []string{"peer", "family"}, nil)
	pathsDesc = prometheus.NewDesc(names.MetricSessionPaths,
		"Paths that were announced to a router: with ADD-PATH one for each next hop of a destination.", []string{"peer", "family"}, nil)
	leftOutDesc = prometheus.NewDesc("mooring_metal_bgp_next_hops_left_out",
		"Next hops that are not announced because their destination has more than can be.", nil, nil)
)

// collector shows the status of the speaker's sessions when it is asked.
type collector struct{ speaker *Speaker }

// Describe sends the descriptions of all metrics.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		upDesc, stateDesc, problemDesc, failuresDesc, sinceDesc, flapsDesc, updatesDesc, prefixesDesc, pathsDesc, leftOutDesc,
	} {
		descriptions <- description
	}
}

// peers returns the sessions of a replica that is to have them. In mode GracefulRestart a standby is to have none: shown as down, they
// would look like missing sessions.
func (c collector) peers() []PeerStatus {
	if c.speaker.running.Load() == nil && c.speaker.sessions.isGraceful() {
		return nil
	}
	return c.speaker.Peers()
}

// Collect sends the metrics.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	counter := func(description *prometheus.Desc, value uint64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(value), labels...)
	}
	for _, peer := range c.peers() {
		gauge(upDesc, flag(peer.Up()), peer.Name)
		for _, state := range states {
			gauge(stateDesc, flag(peer.State == state), peer.Name, state)
		}
		for _, problem := range peer.FamilyProblems() {
			gauge(problemDesc, 1, peer.Name, string(problem.Family), string(problem.Problem))
		}
		for problem, count := range peer.Failures {
			counter(failuresDesc, count, peer.Name, string(problem))
		}
		gauge(sinceDesc, float64(peer.Since.UnixMilli())/1000, peer.Name)
		counter(flapsDesc, peer.Flaps, peer.Name)
		counter(updatesDesc, peer.UpdatesSent, peer.Name)
		for _, family := range peer.Families {
			gauge(prefixesDesc, float64(family.Prefixes), peer.Name, string(family.Family))
			gauge(pathsDesc, float64(family.Paths), peer.Name, string(family.Family))
		}
	}
	gauge(leftOutDesc, float64(c.speaker.sessions.leftOut()))
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
