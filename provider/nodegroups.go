package provider

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What is wrong with a call of NodeGroups, for errors.Is. None of them changes anything.
var (
	// ErrNodeGroupNotFound says that there is no group of that ID.
	ErrNodeGroupNotFound = errors.New("there is no such node group")
	// ErrNodeGroupSize says that the group cannot have the size that a call asks for.
	ErrNodeGroupSize = errors.New("the node group cannot have that size")
	// ErrNotInNodeGroup says that an instance is not one of the group.
	ErrNotInNodeGroup = errors.New("the instance is not in the node group")
)

// NodeGroups makes and removes machines on demand, in groups of machines that are alike. With it, the Cluster Autoscaler scales the cluster
// by its external gRPC provider.
//
// Each method is about one group, except for ListNodeGroups: what is wrong with one group must not keep the others from being served. An
// unknown group is an ErrNodeGroupNotFound. Methods may be called at once, methods that change something once at a time for each group.
type NodeGroups interface {
	// ListNodeGroups returns all groups, in any order. It is complete or an error. It is called often, and should not call the cloud where the
	// groups are configured.
	ListNodeGroups(ctx context.Context) ([]NodeGroup, error)

	// NodeGroupStatus returns what the cloud says of a group now: its whole target size and all its instances, or an error, never less.
	NodeGroupStatus(ctx context.Context, group string) (NodeGroupStatus, error)

	// NodeGroupTemplate returns a node as the next one of the group would be: labels, taints, capacity and allocatable. Its name does not
	// matter. ErrNotImplemented says that this is not known, and the group is not scaled up from no nodes. The caller may change it.
	NodeGroupTemplate(ctx context.Context, group string) (*v1.Node, error)

	// IncreaseNodeGroup raises the target size by delta, at least 1, and returns when that is accepted, not when the machines run. A target
	// above the group's maximum is an ErrNodeGroupSize. After any other error the target may have been raised by a part of delta.
	// What fails later is the error of an instance.
	IncreaseNodeGroup(ctx context.Context, group string, delta int) error

	// DecreaseNodeGroupTarget lowers the target size by delta, at least 1, by what was asked for and is not there yet. If that is less than
	// delta it is an ErrNodeGroupSize, and nothing changes. No instance that has run is deleted.
	DecreaseNodeGroupTarget(ctx context.Context, group string, delta int) error

	// DeleteNodeGroupInstances deletes instances, by their provider IDs, and lowers the target size by as many; the group does not replace
	// them. It returns when that is accepted. One that is being deleted or is gone already is no error and does not count. One that exists and
	// is not in the group is an ErrNotInNodeGroup, and then nothing is deleted. After any other error some may have been
	// deleted.
	//
	// Whether the group may become that small is not looked at: that is for who calls.
	DeleteNodeGroupInstances(ctx context.Context, group string, providerIDs []string) error
}

// NodeGroup is a group of machines that are alike.
type NodeGroup struct {
	// ID is unique and stays. It is shown in logs and metrics.
	ID string
	// Min and Max are how many machines the group keeps and may have: 0 <= Min <= Max.
	Min, Max int
	// Description is for people, in the autoscaler's log.
	Description string
	// Options are what differs from the autoscaler's own options.
	Options NodeGroupOptions
}

// NodeGroupOptions are options of the Cluster Autoscaler for one group. What is nil is as the autoscaler's flags say. The names are
// those of its flags, where they are described.
type NodeGroupOptions struct {
	// ScaleDownUtilizationThreshold and ScaleDownGPUUtilizationThreshold are fractions, 0 to 1.
	ScaleDownUtilizationThreshold, ScaleDownGPUUtilizationThreshold *float64
	// ScaleDownUnneededTime and ScaleDownUnreadyTime are how long a node is not needed, or not ready, before it is removed.
	ScaleDownUnneededTime, ScaleDownUnreadyTime *time.Duration
	// MaxNodeProvisionTime is how long an instance may take until its node has registered, and MaxNodeStartupTime how long that may take until
	// it is ready. Autoscalers up to 1.36 know only the first.
	MaxNodeProvisionTime, MaxNodeStartupTime *time.Duration
	// ZeroOrMaxNodeScaling says that the group has no nodes or all of them.
	ZeroOrMaxNodeScaling *bool
	// AllowNonAtomicScaleUpToMax lets such a group get some machines when it cannot get all. Autoscalers up to 1.36 do not know it.
	AllowNonAtomicScaleUpToMax *bool
	// IgnoreDaemonSetsUtilization says that Pods of DaemonSets do not count for the utilization.
	IgnoreDaemonSetsUtilization *bool
}

// NodeGroupStatus is what the cloud says of a group.
type NodeGroupStatus struct {
	// TargetSize is how many machines the group is to have: machines that exist and are not being deleted, and machines that are still to come.
	TargetSize int
	// Instances are the machines that exist, in any order.
	Instances []NodeGroupInstance
}

// NodeGroupInstance is one machine of a group.
type NodeGroupInstance struct {
	// ProviderID is its node's. Required.
	ProviderID string
	// NodeName is the name under which its kubelet registers; empty if the cloud does not know it.
	NodeName types.NodeName
	// State is where the machine is in its life.
	State NodeGroupInstanceState
	// Error says why a machine that is being made will not run, nil if nothing is known to be wrong. The autoscaler then deletes it, and tries
	// another group for a while.
	Error *NodeGroupInstanceError
}

// NodeGroupInstanceState is where a machine of a group is in its life.
type NodeGroupInstanceState int

// The states of a machine.
const (
	// NodeGroupInstanceUnknown is one of which nothing more is known.
	NodeGroupInstanceUnknown NodeGroupInstanceState = iota
	// NodeGroupInstanceCreating is one that is being made or starts, and one whose creation has failed.
	NodeGroupInstanceCreating
	// NodeGroupInstanceRunning is one that runs.
	NodeGroupInstanceRunning
	// NodeGroupInstanceDeleting is one that is being deleted. It does not count in the target size.
	NodeGroupInstanceDeleting
)

// NodeGroupInstanceError says why a machine will not run.
type NodeGroupInstanceError struct {
	// OutOfResources says that the cloud has no more of it, or that a quota is used up: that another group may do better.
	OutOfResources bool
	// Code is short and the same for the same reason, such as "quota-exceeded". Required.
	Code string
	// Message is for people.
	Message string
}
