package cloudsim

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// The region and the machine types of DefaultSeed.
const (
	DefaultRegion = "sim-1"
	TypeSmall     = "sim.small"
	TypeMedium    = "sim.medium"
	TypeLarge     = "sim.large"
)

// DefaultZones are the zones of DefaultSeed, all of DefaultRegion.
func DefaultZones() []string { return []string{"sim-1a", "sim-1b", "sim-1c"} }

// DefaultSeed returns one region with three zones, three machine types, and a number of instances "node-001" and so on,
// spread over the zones, each with a host name, an internal and an external IPv4 address. At most 60,000 fit.
func DefaultSeed(instances int) *api.Seed {
	seed := &api.Seed{
		APIVersion: api.SeedAPIVersion, Kind: api.SeedKind,
		MachineTypes: []api.MachineType{
			{Name: TypeSmall, CPUs: 2, MemoryMiB: 4096},
			{Name: TypeMedium, CPUs: 4, MemoryMiB: 16384},
			{Name: TypeLarge, CPUs: 8, MemoryMiB: 32768},
		},
	}
	for _, zone := range DefaultZones() {
		seed.Zones = append(seed.Zones, api.Zone{Name: zone, Region: DefaultRegion})
	}
	for n := 1; n <= instances; n++ {
		seed.Instances = append(seed.Instances, DefaultInstance(n))
	}
	return seed
}

// DefaultInstance returns the n-th instance of DefaultSeed, counted from 1.
func DefaultInstance(n int) api.InstanceSpec {
	zones := DefaultZones()
	types := []string{TypeSmall, TypeMedium, TypeLarge}
	name := fmt.Sprintf("node-%03d", n)
	return api.InstanceSpec{
		Name: name, Zone: zones[(n-1)%len(zones)], MachineType: types[((n-1)/len(zones))%len(types)],
		Addresses: []api.Address{
			{Type: api.AddressHostname, Address: name},
			{Type: api.AddressInternalIP, Address: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1)},
			{Type: api.AddressExternalIP, Address: fmt.Sprintf("100.64.%d.%d", n/250, n%250+1)},
		},
		Power: api.PowerOn,
	}
}

// ReadSeed reads a seed file. All errors come at once, with the path and the value of each field.
func ReadSeed(data []byte) (*api.Seed, field.ErrorList) {
	var seed api.Seed
	decoded := strict.YAML(data, &seed)
	errs := field.ErrorList{}
	if seed.APIVersion != api.SeedAPIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), seed.APIVersion, []string{api.SeedAPIVersion}))
	}
	if seed.Kind != api.SeedKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), seed.Kind, []string{api.SeedKind}))
	}
	if errs = strict.Merge(decoded, append(errs, ValidateSeed(seed)...)); len(errs) > 0 {
		return nil, errs
	}
	return &seed, nil
}

// ValidateSeed returns everything that is wrong with a seed.
func ValidateSeed(seed api.Seed) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("zones")
	errs = append(errs, duplicateNames(path, seed.Zones, func(z api.Zone) string { return z.Name })...)
	for i, zone := range seed.Zones {
		errs = append(errs, validateName(path.Index(i).Child("name"), zone.Name)...)
		errs = append(errs, validateName(path.Index(i).Child("region"), zone.Region)...)
	}
	path = field.NewPath("machineTypes")
	errs = append(errs, duplicateNames(path, seed.MachineTypes, func(m api.MachineType) string { return m.Name })...)
	for i, machineType := range seed.MachineTypes {
		errs = append(errs, validateMachineType(path.Index(i), machineType)...)
	}
	path = field.NewPath("instances")
	errs = append(errs, duplicateNames(path, seed.Instances, func(i api.InstanceSpec) string { return i.Name })...)
	zones, types := catalogOf(seed)
	for i, spec := range seed.Instances {
		errs = append(errs, validateInstance(spec, catalog{zones, types}, path.Index(i))...)
	}
	return errs
}

func duplicateNames[T any](path *field.Path, values []T, name func(T) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, value := range values {
		if seen[name(value)] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), name(value)))
		}
		seen[name(value)] = true
	}
	return errs
}

// catalogOf returns by name what a seed offers.
func catalogOf(seed api.Seed) (map[string]api.Zone, map[string]api.MachineType) {
	byDefault := DefaultSeed(0)
	if len(seed.Zones) == 0 {
		seed.Zones = byDefault.Zones
	}
	if len(seed.MachineTypes) == 0 {
		seed.MachineTypes = byDefault.MachineTypes
	}
	zones, types := map[string]api.Zone{}, map[string]api.MachineType{}
	for _, zone := range seed.Zones {
		zones[zone.Name] = zone
	}
	for _, machineType := range seed.MachineTypes {
		types[machineType.Name] = machineType
	}
	return zones, types
}
