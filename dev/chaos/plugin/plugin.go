// Package plugin is the provider of the simulated cloud for tests, which misbehaves as only code inside the process can, where the cloud or
// the runner asks for it: see package misbehavior. It keeps to two quirks at all times: it writes into the Services that it is given, and
// it fails as a whole if it is given the node of another cloud.
package plugin

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

func init() {
	cloudprovider.RegisterCloudProvider(misbehavior.ProviderName, func(config io.Reader) (cloudprovider.Interface, error) {
		parsed, err := sim.ReadConfig(config)
		if err != nil {
			return nil, err
		}
		built, err := sim.New(parsed)
		if err != nil {
			return nil, err
		}
		return wrap(built), nil
	})
}

// wrap returns a provider with the quirks that the runner asks for at the moment.
func wrap(cloud cloudprovider.Interface) *pluginfault.Plugin {
	p := &plugin{seen: map[string]cloudprovider.InstanceMetadata{}}
	p.balancers, _ = cloud.LoadBalancer()
	p.quirks = p.allQuirks()
	return pluginfault.Wrap(declaring{cloud}, p)
}

// declaring is the provider with what it declares: no lists, if the runner says that objects are asked for singly.
type declaring struct{ cloudprovider.Interface }

// Capabilities is provider.Capable.
func (d declaring) Capabilities() provider.Capabilities {
	all := provider.CapabilitiesOf(d.Interface)
	if os.Getenv(misbehavior.Singly) != "" {
		all.ListInstances, all.ListLoadBalancers, all.WatchInstances = nil, nil, nil
	}
	return all
}

// plugin is the quirks of a provider.
type plugin struct {
	balancers cloudprovider.LoadBalancer
	quirks    []quirk

	mu sync.Mutex
	// seen is the metadata that was read last, by the name of the node.
	seen map[string]cloudprovider.InstanceMetadata
}

// Begin is part of pluginfault.Faults.
func (p *plugin) Begin(call pluginfault.Call) (pluginfault.Fault, <-chan struct{}, func(error)) {
	faults := func(yield func(pluginfault.Fault) bool) {
		for _, one := range p.quirks {
			if one.concerns(call) && (one.name == "" || has(one.name)) && !yield(one.fault) {
				return
			}
		}
	}
	return pluginfault.Fault{After: obey}.Then(pluginfault.Each(faults)), nil, func(error) {}
}

// has says whether the plugin has a quirk now.
func has(quirk string) bool {
	return misbehavior.ReadQuirks(os.Getenv(misbehavior.QuirksFile)).Has(quirk)
}

// obey misbehaves if the cloud asked for it.
func obey(_ pluginfault.Call, answer any, err error) (any, error) {
	var refused *api.Error
	if errors.As(err, &refused) {
		switch refused.Status {
		case misbehavior.StatusPanic:
			panic("the plugin panics, as the schedule says")
		case misbehavior.StatusGoexit:
			runtime.Goexit()
		}
	}
	return answer, err
}

// quirk is a fault that some calls have while the runner asks for it.
type quirk struct {
	// name is the quirk's name in package misbehavior. Empty means at all times.
	name string
	// operations are operations of pluginfault.Call, and page for pages of lists. None means all but pages and watches. The manager keeps what a
	// watch reports, and nothing would correct it after the end of a quirk.
	operations []string
	fault      pluginfault.Fault
}

// page stands for the pages of a list of instances.
const page = "page of ListInstances"

func (q quirk) concerns(call pluginfault.Call) bool {
	switch {
	case call.Operation == "WatchInstances":
		return false
	case call.Part:
		return slices.Contains(q.operations, page)
	default:
		return len(q.operations) == 0 || slices.Contains(q.operations, call.Operation)
	}
}
