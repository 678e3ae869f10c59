// Package plugins registers the two cloud provider plugins of the benchmark. Both are the provider of the simulated cloud,
// with the same code for every call; they differ in what they declare, which only Mooring reads.
package plugins

import (
	"io"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
)

// The names of the plugins, for --cloud-provider.
const (
	// Plain is a plugin as it is written for the reference. It declares nothing.
	Plain = "sim-plain"
	// Bulk declares all that the provider of the simulated cloud can do.
	Bulk = "sim-bulk"
)

// Writes is how many changes of load balancers the simulated cloud bears at once. The tuned reference is given the same by
// --concurrent-service-syncs.
const Writes = 50

func init() {
	cloudprovider.RegisterCloudProvider(Plain, func(config io.Reader) (cloudprovider.Interface, error) {
		cloud, err := build(config)
		return plain{cloud}, err
	})
	cloudprovider.RegisterCloudProvider(Bulk, func(config io.Reader) (cloudprovider.Interface, error) {
		cloud, err := build(config)
		return bulk{cloud}, err
	})
}

func build(from io.Reader) (*sim.Cloud, error) {
	config, err := sim.ReadConfig(from)
	if err != nil {
		return nil, err
	}
	return sim.New(config)
}

// plain hides what its provider can do beyond cloudprovider.Interface.
type plain struct{ cloudprovider.Interface }

// bulk declares all that its provider does.
type bulk struct{ *sim.Cloud }

// Capabilities are those of the provider, for a cloud that bears as many changes of load balancers as the tuned variants make.
func (b bulk) Capabilities() provider.Capabilities {
	capabilities := b.Cloud.Capabilities()
	capabilities.LoadBalancerWrites = Writes
	return capabilities
}
