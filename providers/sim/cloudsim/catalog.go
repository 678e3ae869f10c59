package cloudsim

import (
	"maps"
	"slices"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// catalog is what a spec may refer to.
type catalog struct {
	zones        map[string]api.Zone
	machineTypes map[string]api.MachineType
}

// catalog returns what the cloud offers. Called with mu held.
func (s *Service) catalog() catalog { return catalog{s.zones.live, s.machineTypes.live} }

func (c catalog) hasRegion(region string) bool {
	for zone := range maps.Values(c.zones) {
		if zone.Region == region {
			return true
		}
	}
	return false
}

func sortedNames[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

func (s *Service) listZones(_ *request) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return anys(s.zones.list(s.clock.Now()))
}

func (s *Service) listMachineTypes(_ *request) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return anys(s.machineTypes.list(s.clock.Now()))
}

func anys[T any](values []T) []any {
	items := make([]any, len(values))
	for i, value := range values {
		items[i] = value
	}
	return items
}
