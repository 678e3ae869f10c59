package instances

import (
	"context"

	"k8s.io/apimachinery/pkg/util/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
)

// legacyCloud is an older plugin, with Instances and Zones, whose answers about types and zones are kept for an hour, by provider ID: they change seldom
// if ever, and cost a call each. Only answers are kept, no errors. Addresses are asked for each time.
type legacyCloud struct {
	cloudprovider.Interface
	facts *cache.Expiring
	anew  bool // for a node that waits for its initialization: the instance may have changed while it was off
}

// legacyFact is what is kept: the type or the zone of an instance.
type legacyFact struct{ what, providerID string }

// factOf returns what is known of an instance, unless that has to be asked for anew, or asks.
func factOf[T any](c legacyCloud, fact legacyFact, ask func() (T, error)) (T, error) {
	if known, ok := c.facts.Get(fact); ok && !c.anew {
		return known.(T), nil
	}
	value, err := ask()
	if err == nil {
		c.facts.Set(fact, value, 6*classify.MaxRetryAfter)
	}
	return value, err
}

// Instances returns the plugin's, with types by provider ID from memory.
func (c legacyCloud) Instances() (cloudprovider.Instances, bool) {
	instances, ok := c.Interface.Instances()
	if !ok || instances == nil {
		return instances, ok
	}
	return legacyInstances{Instances: instances, cloud: c}, true
}

// Zones returns the plugin's, with zones by provider ID from memory.
func (c legacyCloud) Zones() (cloudprovider.Zones, bool) {
	zones, ok := c.Interface.Zones()
	if !ok || zones == nil {
		return zones, ok
	}
	return legacyZones{Zones: zones, cloud: c}, true
}

type legacyInstances struct {
	cloudprovider.Instances
	cloud legacyCloud
}

func (i legacyInstances) InstanceTypeByProviderID(ctx context.Context, providerID string) (string, error) {
	return factOf(i.cloud, legacyFact{"type", providerID}, func() (string, error) { return i.Instances.InstanceTypeByProviderID(ctx, providerID) })
}

type legacyZones struct {
	cloudprovider.Zones
	cloud legacyCloud
}

func (z legacyZones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	return factOf(z.cloud, legacyFact{"zone", providerID}, func() (cloudprovider.Zone, error) { return z.Zones.GetZoneByProviderID(ctx, providerID) })
}
