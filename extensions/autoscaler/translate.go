package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// classOutOfResources and classOther are the autoscaler's cloudprovider.InstanceErrorClass.
	classOutOfResources, classOther = 1, 99
	// mostText is how long a text for people may be.
	mostText = 1024
)

// groupOf returns a group as the autoscaler knows it.
func groupOf(group provider.NodeGroup) *externalgrpc.NodeGroup {
	return &externalgrpc.NodeGroup{
		Id: group.ID, MinSize: number(group.Min), MaxSize: number(group.Max), Debug: message.Line(group.Description, mostText),
	}
}

// number returns a number of the protocol, the greatest for one that is greater.
func number(of int) int32 { return int32(min(max(of, 0), math.MaxInt32)) }

// instancesOf returns the instances of a group. Instances that are to be deleted are shown as being deleted, whatever the cloud says.
func instancesOf(group provider.NodeGroupStatus, pending map[string]types.NodeName) []*externalgrpc.Instance {
	instances := make([]*externalgrpc.Instance, 0, len(group.Instances))
	for _, instance := range group.Instances {
		if instance.ProviderID == "" { // of no use to the autoscaler, which knows it by that alone
			continue
		}
		if _, found := pending[instance.ProviderID]; found {
			instance.State = provider.NodeGroupInstanceDeleting
		}
		instances = append(instances, &externalgrpc.Instance{
			Id: instance.ProviderID, Status: &externalgrpc.InstanceStatus{InstanceState: stateOf(instance.State), ErrorInfo: errorOf(instance)},
		})
	}
	return instances
}

// stateOf returns the protocol's number for a state.
func stateOf(state provider.NodeGroupInstanceState) externalgrpc.InstanceStatus_InstanceState {
	switch state {
	case provider.NodeGroupInstanceCreating:
		return externalgrpc.InstanceStatus_instanceCreating
	case provider.NodeGroupInstanceRunning:
		return externalgrpc.InstanceStatus_instanceRunning
	case provider.NodeGroupInstanceDeleting:
		return externalgrpc.InstanceStatus_instanceDeleting
	default:
		return externalgrpc.InstanceStatus_unspecified
	}
}

// errorOf returns why an instance will not run. The autoscaler has no class 0, and takes an empty code for no error. What is being deleted
// has none: the autoscaler would ask for its deletion again.
func errorOf(instance provider.NodeGroupInstance) *externalgrpc.InstanceErrorInfo {
	if instance.Error == nil || instance.State == provider.NodeGroupInstanceDeleting {
		return nil
	}
	info := &externalgrpc.InstanceErrorInfo{
		ErrorCode: message.Line(instance.Error.Code, mostText), ErrorMessage: message.Line(instance.Error.Message, mostText), InstanceErrorClass: classOther,
	}
	if instance.Error.OutOfResources {
		info.InstanceErrorClass = classOutOfResources
	}
	if info.ErrorCode == "" {
		info.ErrorCode = "unknown"
	}
	return info
}

// optionsOf returns the autoscaler's own options with what differs for a group, nil if nothing does.
func optionsOf(options provider.NodeGroupOptions, defaults *externalgrpc.NodeGroupAutoscalingOptions) *externalgrpc.NodeGroupAutoscalingOptions {
	if options == (provider.NodeGroupOptions{}) {
		return nil
	}
	merged := &externalgrpc.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    either(options.ScaleDownUtilizationThreshold, defaults.GetScaleDownUtilizationThreshold()),
		ScaleDownGpuUtilizationThreshold: either(options.ScaleDownGPUUtilizationThreshold, defaults.GetScaleDownGpuUtilizationThreshold()),
		ZeroOrMaxNodeScaling:             either(options.ZeroOrMaxNodeScaling, defaults.GetZeroOrMaxNodeScaling()),
		IgnoreDaemonSetsUtilization:      either(options.IgnoreDaemonSetsUtilization, defaults.GetIgnoreDaemonSetsUtilization()),
		AllowNonAtomicScaleUpToMax:       either(options.AllowNonAtomicScaleUpToMax, defaults.GetAllowNonAtomicScaleUpToMax()),
		ScaleDownUnneededDuration:        duration(options.ScaleDownUnneededTime, defaults.GetScaleDownUnneededDuration()),
		ScaleDownUnreadyDuration:         duration(options.ScaleDownUnreadyTime, defaults.GetScaleDownUnreadyDuration()),
		MaxNodeProvisionDuration:         duration(options.MaxNodeProvisionTime, defaults.GetMaxNodeProvisionDuration()),
		MaxNodeStartupDuration:           duration(options.MaxNodeStartupTime, defaults.GetMaxNodeStartupDuration()),
	}
	return merged
}

func either[T any](said *T, otherwise T) T {
	if said != nil {
		return *said
	}
	return otherwise
}

func duration(said *time.Duration, otherwise *durationpb.Duration) *durationpb.Duration {
	if said != nil {
		return durationpb.New(*said)
	}
	return otherwise
}

// failure returns an error as the autoscaler shows it: what was tried, and a code by the provider's type of it. Codes.Unavailable says that
// nothing was changed, codes.Internal that something may have been. Codes.Unimplemented is not
// among them, because the autoscaler takes it for a statement about the cloud.
func failure(tried string, err error) error {
	if err == nil {
		return nil
	}
	code := codes.Unavailable
	var late *underWay
	var begun *begunError
	switch {
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, provider.ErrNodeGroupNotFound):
		code = codes.NotFound
	case errors.Is(err, provider.ErrNodeGroupSize), errors.Is(err, provider.ErrNotInNodeGroup):
		code = codes.FailedPrecondition
	case provider.IsThrottled(err):
		code = codes.ResourceExhausted
	case errors.As(err, &begun), provider.IsTerminal(err), errors.Is(err, provider.ErrNotImplemented):
		code = codes.Internal
	}
	return status.Error(code, message.Line(fmt.Sprintf("%s: %v", tried, err), mostText))
}
