package announce

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

type metrics struct {
	nextHops, services, destinations *prometheus.GaugeVec
	failures                         *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		nextHops: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_next_hops",
			Help: "Nodes by what they are to load balancers: in, draining, fallback, or out.",
		}, []string{"state"}),
		services: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_services",
			Help: "Services with a load balancer of this provider, by whether all their addresses have next hops (true, false).",
		}, []string{"announced"}),
		destinations: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_destinations",
			Help: "Destinations that are announced, by kind (pod-cidr, service-address, aggregate).",
		}, []string{"kind"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_announce_failures_total",
			Help: "Tables that could not be announced, by sink.",
		}, []string{"sink"}),
	}
}

// record counts what is announced.
func (m *metrics) record(snapshot Snapshot) {
	states := map[model.NextHopState]int{}
	for _, state := range snapshot.Nodes {
		states[state.NextHop]++
	}
	for _, state := range []model.NextHopState{model.In, model.Draining, model.Fallback, model.Out} {
		m.nextHops.WithLabelValues(state.String()).Set(float64(states[state]))
	}
	announced := map[bool]int{}
	for _, state := range snapshot.Services {
		announced[state.Announced()]++
	}
	for _, is := range []bool{true, false} {
		m.services.WithLabelValues(strconv.FormatBool(is)).Set(float64(announced[is]))
	}
	kinds := map[routing.Kind]int{}
	for _, route := range snapshot.Table {
		kinds[route.Kind]++
	}
	for _, kind := range []routing.Kind{routing.PodCIDR, routing.ServiceAddress, routing.Aggregate} {
		m.destinations.WithLabelValues(kind.String()).Set(float64(kinds[kind]))
	}
}
