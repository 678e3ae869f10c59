package cloud

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// nodeGroups is provider.NodeGroups as others call it. Their calls are about instances, and draw on that quota.
type nodeGroups struct {
	plugin provider.NodeGroups
	calls  *client
}

// nodeGroup is the object of a call. Nodes are named without a slash, so it is never a node's.
func nodeGroup(id string) string { return "node group/" + id }

func (n *nodeGroups) ListNodeGroups(ctx context.Context) ([]provider.NodeGroup, error) {
	return once(ctx, n.calls, n.calls.methods.About("ListNodeGroups"), n.plugin.ListNodeGroups)
}

func (n *nodeGroups) NodeGroupStatus(ctx context.Context, group string) (provider.NodeGroupStatus, error) {
	about := n.calls.methods.About("NodeGroupStatus", nodeGroup(group))
	return once(ctx, n.calls, about, func(ctx context.Context) (provider.NodeGroupStatus, error) {
		return n.plugin.NodeGroupStatus(ctx, group)
	})
}

func (n *nodeGroups) NodeGroupTemplate(ctx context.Context, group string) (*v1.Node, error) {
	return once(ctx, n.calls, n.calls.methods.About("NodeGroupTemplate", nodeGroup(group)), func(ctx context.Context) (*v1.Node, error) {
		template, err := n.plugin.NodeGroupTemplate(ctx, group)
		return template.DeepCopy(), err
	})
}

func (n *nodeGroups) IncreaseNodeGroup(ctx context.Context, group string, delta int) error {
	return n.calls.change(ctx, n.calls.methods.About("IncreaseNodeGroup", nodeGroup(group)), func(ctx context.Context) error {
		return n.plugin.IncreaseNodeGroup(ctx, group, delta)
	})
}

func (n *nodeGroups) DecreaseNodeGroupTarget(ctx context.Context, group string, delta int) error {
	return n.calls.change(ctx, n.calls.methods.About("DecreaseNodeGroupTarget", nodeGroup(group)), func(ctx context.Context) error {
		return n.plugin.DecreaseNodeGroupTarget(ctx, group, delta)
	})
}

func (n *nodeGroups) DeleteNodeGroupInstances(ctx context.Context, group string, providerIDs []string) error {
	return n.calls.change(ctx, n.calls.methods.About("DeleteNodeGroupInstances", nodeGroup(group)), func(ctx context.Context) error {
		return n.plugin.DeleteNodeGroupInstances(ctx, group, slices.Clone(providerIDs))
	})
}
