package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/provider"
)

// service answers the calls of the autoscaler. Reading calls are answered from what was last observed, so a cloud that is slow makes none
// of them late: the autoscaler ends its round when one of them fails.
type service struct {
	externalgrpc.UnimplementedCloudProviderServer

	groups   provider.NodeGroups
	observer *observer
	pending  *pending
	cached   client.Reader // of nodes, with the indexes of package deletion
	live     client.Reader // of the API server
	writer   client.Client
	ours     func(*corev1.Node) bool
	locks    locks
	metrics  *metrics
	log      logr.Logger
}

// Refresh looks at all groups anew.
func (s *service) Refresh(ctx context.Context, _ *externalgrpc.RefreshRequest) (*externalgrpc.RefreshResponse, error) {
	if err := s.observer.refresh(ctx); err != nil {
		return nil, failure("looking at the node groups", err)
	}
	return &externalgrpc.RefreshResponse{}, nil
}

// NodeGroups returns the groups whose state is known.
func (s *service) NodeGroups(ctx context.Context, _ *externalgrpc.NodeGroupsRequest) (*externalgrpc.NodeGroupsResponse, error) {
	if err := s.observer.ensure(ctx); err != nil {
		return nil, failure("looking at the node groups", err)
	}
	response := &externalgrpc.NodeGroupsResponse{}
	for _, known := range s.observer.all() {
		response.NodeGroups = append(response.NodeGroups, groupOf(known.group))
	}
	return response, nil
}

// NodeGroupForNode returns the group of a node by its provider ID, or before it has one by its name.
func (s *service) NodeGroupForNode(ctx context.Context, request *externalgrpc.NodeGroupForNodeRequest) (*externalgrpc.NodeGroupForNodeResponse, error) {
	if err := s.observer.ensure(ctx); err != nil {
		return nil, failure("looking for the node's group", err)
	}
	response := &externalgrpc.NodeGroupForNodeResponse{NodeGroup: &externalgrpc.NodeGroup{}}
	providerID, name := request.GetNode().GetProviderID(), request.GetNode().GetName()
	for _, known := range s.observer.all() {
		if slices.ContainsFunc(known.status.Instances, func(instance provider.NodeGroupInstance) bool {
			if providerID != "" {
				return instance.ProviderID == providerID
			}
			return name != "" && string(instance.NodeName) == name
		}) {
			response.NodeGroup = groupOf(known.group)
		}
	}
	return response, nil
}

// known returns what is known of a group.
func (s *service) known(ctx context.Context, id string) (snapshot, error) {
	if err := s.observer.ensure(ctx); err != nil {
		return snapshot{}, err
	}
	return s.observer.get(id)
}

// NodeGroupTargetSize returns the size that a group will have when what is to be deleted is.
func (s *service) NodeGroupTargetSize(ctx context.Context, request *externalgrpc.NodeGroupTargetSizeRequest) (*externalgrpc.NodeGroupTargetSizeResponse, error) {
	known, err := s.known(ctx, request.GetId())
	if err != nil {
		return nil, failure("target size of the node group", err)
	}
	size, err := s.pending.size(ctx, known)
	if err != nil {
		return nil, failure("target size of the node group", err)
	}
	return &externalgrpc.NodeGroupTargetSizeResponse{TargetSize: number(size)}, nil
}

// NodeGroupNodes returns the instances of a group.
func (s *service) NodeGroupNodes(ctx context.Context, request *externalgrpc.NodeGroupNodesRequest) (*externalgrpc.NodeGroupNodesResponse, error) {
	known, err := s.known(ctx, request.GetId())
	if err != nil {
		return nil, failure("instances of the node group", err)
	}
	leaving, err := s.pending.of(ctx, known.group.ID)
	if err != nil {
		return nil, failure("instances of the node group", err)
	}
	return &externalgrpc.NodeGroupNodesResponse{Instances: instancesOf(known.status, leaving)}, nil
}

// NodeGroupTemplateNodeInfo returns a node as the next one of a group would be. What cannot be said now is not said, because the autoscaler would
// not go on with the other groups.
func (s *service) NodeGroupTemplateNodeInfo(ctx context.Context, request *externalgrpc.NodeGroupTemplateNodeInfoRequest) (*externalgrpc.NodeGroupTemplateNodeInfoResponse, error) {
	known, err := s.known(ctx, request.GetId())
	if err != nil {
		return nil, failure("template of the node group", err)
	}
	if known.template == nil {
		reason := known.templateErr
		if reason == nil {
			reason = errors.New("the cloud has not answered yet")
		}
		return nil, status.Errorf(codes.Unimplemented, "the template of the node group %q is not known: %v", known.group.ID, reason)
	}
	encoded, err := known.template.Marshal()
	if err != nil {
		return nil, failure("encoding the template of the node group", err)
	}
	return &externalgrpc.NodeGroupTemplateNodeInfoResponse{NodeBytes: encoded}, nil
}

// NodeGroupGetOptions returns what differs for a group from the autoscaler's own options.
func (s *service) NodeGroupGetOptions(ctx context.Context, request *externalgrpc.NodeGroupAutoscalingOptionsRequest) (*externalgrpc.NodeGroupAutoscalingOptionsResponse, error) {
	known, err := s.known(ctx, request.GetId())
	if err != nil {
		return nil, failure("options of the node group", err)
	}
	options := optionsOf(known.group.Options, request.GetDefaults())
	if options == nil {
		return nil, status.Errorf(codes.Unimplemented, "the node group %q has no options of its own", known.group.ID)
	}
	return &externalgrpc.NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: options}, nil
}

// GPULabel returns none: nodes are not told apart by their GPUs.
func (s *service) GPULabel(context.Context, *externalgrpc.GPULabelRequest) (*externalgrpc.GPULabelResponse, error) {
	return &externalgrpc.GPULabelResponse{}, nil
}

// GetAvailableGPUTypes returns none.
func (s *service) GetAvailableGPUTypes(context.Context, *externalgrpc.GetAvailableGPUTypesRequest) (*externalgrpc.GetAvailableGPUTypesResponse, error) {
	return &externalgrpc.GetAvailableGPUTypesResponse{}, nil
}

// Cleanup does nothing: nothing outlives a call on the autoscaler's behalf but what it asked for.
func (s *service) Cleanup(context.Context, *externalgrpc.CleanupRequest) (*externalgrpc.CleanupResponse, error) {
	return &externalgrpc.CleanupResponse{}, nil
}

// invalid is a request that makes no sense whatever the state of the cluster is.
func invalid(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return status.Error(codes.InvalidArgument, fmt.Sprintf("invalid request: %v", errors.Join(problems...)))
}
