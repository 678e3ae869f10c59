package instances

import (
	"context"
	"maps"
	"sync"
	"time"

	cloudprovider "k8s.io/cloud-provider"
)

// legacyAge is how old the type and the zone of an instance may be that an older plugin is asked for. They change seldom if ever, and
// cost such a plugin a call each.
const legacyAge = time.Hour

// legacyFacts are what older plugins, those with Instances and Zones, said of instances' types and zones, by provider ID. Only answers are
// kept, no errors.
type legacyFacts struct {
	mu    sync.Mutex
	types map[string]fact[string]
	zones map[string]fact[cloudprovider.Zone]
}

// fact is what was said, and when it was asked for.
type fact[T any] struct {
	value T
	at    time.Time
}

func newLegacyFacts() *legacyFacts {
	return &legacyFacts{types: map[string]fact[string]{}, zones: map[string]fact[cloudprovider.Zone]{}}
}

// expire forgets what is too old.
func (f *legacyFacts) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.types, func(_ string, known fact[string]) bool { return now.Sub(known.at) >= legacyAge })
	maps.DeleteFunc(f.zones, func(_ string, known fact[cloudprovider.Zone]) bool { return now.Sub(known.at) >= legacyAge })
}

// factOf returns what is known of a provider ID, unless that is too old or has to be asked for anew, or asks.
func factOf[T any](f *legacyFacts, facts map[string]fact[T], providerID string, anew bool, ask func() (T, error)) (T, error) {
	now := time.Now()
	f.mu.Lock()
	known, ok := facts[providerID]
	f.mu.Unlock()
	if ok && !anew && now.Sub(known.at) < legacyAge {
		return known.value, nil
	}
	value, err := ask()
	if err == nil {
		f.mu.Lock()
		facts[providerID] = fact[T]{value, now}
		f.mu.Unlock()
	}
	return value, err
}

// legacyCloud is an older plugin whose answers about types and zones are kept for a while. Addresses are asked for each time.
type legacyCloud struct {
	cloudprovider.Interface
	facts *legacyFacts
	anew  bool // for a node that waits for its initialization: the instance may have changed while it was off
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
	facts := i.cloud.facts
	return factOf(facts, facts.types, providerID, i.cloud.anew, func() (string, error) {
		return i.Instances.InstanceTypeByProviderID(ctx, providerID)
	})
}

type legacyZones struct {
	cloudprovider.Zones
	cloud legacyCloud
}

func (z legacyZones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	facts := z.cloud.facts
	return factOf(facts, facts.zones, providerID, z.cloud.anew, func() (cloudprovider.Zone, error) {
		return z.Zones.GetZoneByProviderID(ctx, providerID)
	})
}
