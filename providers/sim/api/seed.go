package api

// SeedAPIVersion and SeedKind mark a seed file.
const (
	SeedAPIVersion = "sim.mooring.dev/v1alpha1"
	SeedKind       = "Seed"
)

// Seed is what a new cloud starts with. It is used once, when the state file is new.
type Seed struct {
	// APIVersion and Kind are SeedAPIVersion and SeedKind in a file, and may be empty in Go.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Zones and MachineTypes are what the cloud offers; empty means those of service.DefaultSeed.
	Zones        []Zone        `json:"zones,omitempty"`
	MachineTypes []MachineType `json:"machineTypes,omitempty"`
	// Instances are created in this order and run at once.
	Instances []InstanceSpec `json:"instances,omitempty"`
}
