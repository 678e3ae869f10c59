package api

import "time"

// InstanceState is where an instance is in its life.
type InstanceState string

// The states of an instance. One that was deleted is not found.
const (
	InstancePending InstanceState = "pending"
	InstanceRunning InstanceState = "running"
	InstanceStopped InstanceState = "stopped"
	InstanceFailed  InstanceState = "error"
)

// Power says whether an instance shall run.
type Power string

// The values of Power. Empty means PowerOn.
const (
	PowerOn  Power = "on"
	PowerOff Power = "off"
)

// AddressType is the kind of an address, with the names that Kubernetes gives to the kinds of a node's addresses.
type AddressType string

// The kinds of addresses.
const (
	AddressHostname    AddressType = "Hostname"
	AddressInternalIP  AddressType = "InternalIP"
	AddressExternalIP  AddressType = "ExternalIP"
	AddressInternalDNS AddressType = "InternalDNS"
	AddressExternalDNS AddressType = "ExternalDNS"
)

// IPFamily is the family of an IP address.
type IPFamily string

// The IP families.
const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// Address is one address of an instance.
type Address struct {
	// Type is the kind of the address.
	Type AddressType `json:"type"`
	// Address is an IP address or a name, as Type says.
	Address string `json:"address"`
	// Family is the family of an IP address and empty for a name. The cloud fills it in when a client leaves it out.
	Family IPFamily `json:"family,omitempty"`
}

// InstanceSpec is what a client asks for.
type InstanceSpec struct {
	// Name is unique among the instances that exist, an RFC 1123 subdomain, and cannot be changed. A node that has no
	// provider ID is found by it.
	Name string `json:"name"`
	// Zone is the name of a Zone. Changing it is a migration.
	Zone string `json:"zone"`
	// MachineType is the name of a MachineType. Changing it is a resize.
	MachineType string `json:"machineType"`
	// Addresses are the instance's addresses in the order in which a node shows them.
	Addresses []Address `json:"addresses,omitempty"`
	// Labels are free. A cloud controller manager may copy them to the node.
	Labels map[string]string `json:"labels,omitempty"`
	// Power says whether the instance shall run; empty means on.
	Power Power `json:"power,omitempty"`
}

// Instance is a machine of the cloud.
type Instance struct {
	InstanceSpec
	// ID is given by the cloud, never changes and is never given again.
	ID string `json:"id"`
	// Region is the region of the zone.
	Region string `json:"region"`
	// State is where the instance is in its life.
	State InstanceState `json:"state"`
	// StateReason says why the state is error.
	StateReason string `json:"stateReason,omitempty"`
	// Generation starts at 1 and grows with every write.
	Generation int64 `json:"generation"`
	// CreatedAt is when the cloud accepted the instance.
	CreatedAt time.Time `json:"createdAt"`
}

// Zone is a failure domain.
type Zone struct {
	// Name is unique over all regions.
	Name string `json:"name"`
	// Region is the region that the zone is in.
	Region string `json:"region"`
}

// MachineType is a size of instances.
type MachineType struct {
	// Name is what InstanceSpec.MachineType refers to.
	Name string `json:"name"`
	// CPUs is the number of processors.
	CPUs int `json:"cpus"`
	// MemoryMiB is the memory in MiB.
	MemoryMiB int `json:"memoryMiB"`
}
