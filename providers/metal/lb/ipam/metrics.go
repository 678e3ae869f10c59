package ipam

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

var (
	addressesDesc = prometheus.NewDesc("mooring_metal_pool_addresses",
		"Addresses of each pool, by state (assigned, free). A pool that runs out refuses Services.",
		[]string{"pool", "family", "state"}, nil)
	outsideDesc = prometheus.NewDesc("mooring_metal_addresses_outside_pools",
		"Addresses that Services have and that are in no pool: the pools have changed, or another implementation assigns them.", nil, nil)
	nodesDesc = prometheus.NewDesc("mooring_metal_pool_addresses_of_nodes",
		"Addresses of nodes that are in a pool. No Service gets one, and the pool should not have it.", nil, nil)
	refusedDesc = prometheus.NewDesc("mooring_metal_services_without_address",
		"Services that were refused an address and wait for a change.", nil, nil)
)

// collector reads the allocations when metrics are collected, on the replica that leads.
type collector struct{ a *Allocator }

// Describe sends the descriptions of all metrics.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- addressesDesc
	descriptions <- outsideDesc
	descriptions <- nodesDesc
	descriptions <- refusedDesc
}

// Collect sends the metrics.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	usage, outside, ofNodes, refused, leads := c.read()
	if !leads {
		return
	}
	for _, one := range usage {
		for state, value := range map[string]float64{"assigned": one.Taken, "free": one.Size - one.Taken} {
			metrics <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, value, one.Pool, string(one.Family), state)
		}
	}
	metrics <- prometheus.MustNewConstMetric(outsideDesc, prometheus.GaugeValue, float64(outside))
	metrics <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(ofNodes))
	metrics <- prometheus.MustNewConstMetric(refusedDesc, prometheus.GaugeValue, float64(refused))
}

func (c collector) read() (usage []pool.Usage, outside, ofNodes, refused int, leads bool) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if c.a.allocations == nil {
		return nil, 0, 0, 0, false
	}
	state := c.a.allocations.state
	return state.Usage(), state.Outside(), len(state.Reserved()), len(c.a.waiting), true
}
