package provider

import (
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// InstanceState is what the cloud says about an instance that exists.
type InstanceState int

const (
	// InstanceStateUnknown is an instance of which the cloud does not say whether it runs. It is never treated as stopped.
	InstanceStateUnknown InstanceState = iota
	// InstanceRunning is an instance that runs or is about to.
	InstanceRunning
	// InstanceStopped is an instance that exists and is shut down, as in cloudprovider.InstancesV2.InstanceShutdown.
	InstanceStopped
)

// String returns the state in lower case, as in logs and tables.
func (s InstanceState) String() string {
	switch s {
	case InstanceRunning:
		return "running"
	case InstanceStopped:
		return "stopped"
	default:
		return "unknown"
	}
}

// Instance is one machine of the cloud, as a list shows it.
type Instance struct {
	// NodeName is the name under which the instance's kubelet registers. It finds the instance of a node that has no
	// provider ID yet; empty if the cloud does not know it.
	NodeName types.NodeName
	// State says whether the instance runs.
	State InstanceState
	// InstanceMetadata is what cloudprovider.InstancesV2.InstanceMetadata would say of it. Its ProviderID is required.
	cloudprovider.InstanceMetadata
}
