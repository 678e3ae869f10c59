package double

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/provider"
)

// listPage is how many instances a page of a list has.
const listPage = 7

// declaring is a plugin that declares what it can, rightly.
type declaring struct{ *plugin }

// Capabilities implements provider.Capable.
func (d declaring) Capabilities() provider.Capabilities {
	const bare = "" // IDs without a scheme, which kubelets may have set
	return provider.Capabilities{
		ProviderIDSchemes: []string{ProviderName, bare}, ListInstances: d.listInstances, LoadBalancerWrites: 1, RouteWrites: sharedSetting,
		Limits: provider.Limits{InFlight: sharedSetting},
	}
}

// listInstances is provider.ListInstancesFunc.
func (d declaring) listInstances(ctx context.Context, yield func([]provider.Instance) error) error {
	var all []provider.Instance
	err := d.process.Call("ListInstances", func() error {
		return d.call(ctx, "ListInstances", "", arguments{}, func(dice *rand.Rand) error {
			w := d.world
			lag := w.lag(draw.Lagging, dice)
			for _, name := range slices.Sorted(maps.Keys(w.instances)) {
				number, found := w.look(name, providerID(name, w.instances[name].generation), lag)
				if !found {
					continue
				}
				all = append(all, provider.Instance{NodeName: types.NodeName(name), State: provider.InstanceRunning, InstanceMetadata: w.metadata(name, number, dice)})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for page := range slices.Chunk(all, listPage) {
		if d.world.draw.Plugin.Has(draw.EmptyPages) {
			if err := yield(nil); err != nil {
				return err
			}
		}
		if err := yield(page); err != nil {
			return err
		}
	}
	return nil
}
