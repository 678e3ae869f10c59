package ipam

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/ipam/pool"
)

var (
	addressesDesc = prometheus.NewDesc("mooring_metal_pool_addresses",
		"Addresses of each pool, by whether a Service has them. A pool that runs out refuses Services.",
		[]string{"pool", "family", "state"}, nil)
	outsideDesc = prometheus.NewDesc("mooring_metal_addresses_outside_pools",
		"Addresses that Services have and that are in no pool: the pools have changed, or somebody else assigns them.", nil, nil)
	refusedDesc = prometheus.NewDesc("mooring_metal_services_without_address",
		"Services that were refused an address and wait for a change.", nil, nil)
)

// collector reads the allocations when metrics are collected, on the replica that leads.
type collector struct{ a *Allocator }

// Describe sends the descriptions of all metrics.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- addressesDesc
	descriptions <- outsideDesc
	descriptions <- refusedDesc
}

// Collect sends the metrics.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	usage, outside, refused, leads := c.read()
	if !leads {
		return
	}
	for _, one := range usage {
		for state, value := range map[string]float64{"assigned": one.Taken, "free": one.Size - one.Taken} {
			metrics <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, value, one.Pool, string(one.Family), state)
		}
	}
	metrics <- prometheus.MustNewConstMetric(outsideDesc, prometheus.GaugeValue, float64(outside))
	metrics <- prometheus.MustNewConstMetric(refusedDesc, prometheus.GaugeValue, float64(refused))
}

func (c collector) read() (usage []pool.Usage, outside, refused int, leads bool) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	if c.a.allocations == nil {
		return nil, 0, 0, false
	}
	return c.a.allocations.state.Usage(), c.a.allocations.state.Outside(), len(c.a.waiting), true
}
