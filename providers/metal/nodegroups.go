package metal

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machine"
	"github.com/mooring-ccm/mooring/providers/metal/nodegroup"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// nodeGroups is provider.NodeGroups on every replica. Only the leader, which alone asks BMCs, can say or change more than the config
// does.
type nodeGroups struct {
	current func() *config.CloudConfig
	leading atomic.Pointer[nodegroup.Controller]
}

var _ provider.NodeGroups = &nodeGroups{}

// of returns what looks after a group.
func (n *nodeGroups) of(group string) (*nodegroup.Controller, error) {
	if err := nodegroup.Known(n.current(), group); err != nil {
		return nil, err
	}
	controller := n.leading.Load()
	if controller == nil {
		return nil, nodegroup.ErrNotLeading
	}
	return controller, nil
}

// ListNodeGroups returns the groups of the config in force.
func (n *nodeGroups) ListNodeGroups(context.Context) ([]provider.NodeGroup, error) {
	return nodegroup.List(n.current()), nil
}

// NodeGroupStatus is provider.NodeGroups.
func (n *nodeGroups) NodeGroupStatus(ctx context.Context, group string) (provider.NodeGroupStatus, error) {
	controller, err := n.of(group)
	if err != nil {
		return provider.NodeGroupStatus{}, err
	}
	return controller.NodeGroupStatus(ctx, group)
}

// NodeGroupTemplate is provider.NodeGroups.
func (n *nodeGroups) NodeGroupTemplate(ctx context.Context, group string) (*v1.Node, error) {
	controller, err := n.of(group)
	if err != nil {
		return nil, err
	}
	return controller.NodeGroupTemplate(ctx, group)
}

// IncreaseNodeGroup is provider.NodeGroups.
func (n *nodeGroups) IncreaseNodeGroup(ctx context.Context, group string, delta int) error {
	controller, err := n.of(group)
	if err != nil {
		return err
	}
	return controller.IncreaseNodeGroup(ctx, group, delta)
}

// DecreaseNodeGroupTarget is provider.NodeGroups.
func (n *nodeGroups) DecreaseNodeGroupTarget(ctx context.Context, group string, delta int) error {
	controller, err := n.of(group)
	if err != nil {
		return err
	}
	return controller.DecreaseNodeGroupTarget(ctx, group, delta)
}

// DeleteNodeGroupInstances is provider.NodeGroups.
func (n *nodeGroups) DeleteNodeGroupInstances(ctx context.Context, group string, providerIDs []string) error {
	controller, err := n.of(group)
	if err != nil {
		return err
	}
	return controller.DeleteNodeGroupInstances(ctx, group, providerIDs)
}

// sleeps reports whether a machine is asleep, and goesToSleep whether it is to be. Only the leader knows.
func (n *nodeGroups) sleeps(id string) bool {
	controller := n.leading.Load()
	return controller != nil && controller.Sleeps(id)
}

func (n *nodeGroups) goesToSleep(id string) bool {
	controller := n.leading.Load()
	return controller != nil && controller.GoesToSleep(id)
}

// leadNodeGroups looks after the groups of the config, if there are any.
func (c *Cloud) leadNodeGroups(l *leader, nodes coreinformers.NodeInformer, fenced func(id string) bool) error {
	if len(c.began.NodeGroups) == 0 {
		return nil
	}
	controller, err := nodegroup.New(nodegroup.Options{
		Config: c.source.Current, Client: l.client.CoreV1(), Leases: l.client.CoordinationV1(), Nodes: nodes, Recorder: l.recorder,
		Observe: c.poller.Observe, MachinesOf: c.instances.Claims, Self: self.Observe, Fenced: fenced, Changed: c.instances.wake, Registerer: c.registry,
	})
	if err != nil {
		return err
	}
	c.groups.leading.Store(controller)
	l.run("node groups", controller.Run)
	return nil
}

// Claims returns the IDs of the machines that a node is, or may be.
func (i *Instances) Claims(node *v1.Node) []string {
	found, err := i.index.Load().Find(node)
	var conflict *machine.ConflictError
	switch {
	case err == nil:
		return []string{found.ID}
	case errors.As(err, &conflict):
		ids := make([]string, len(conflict.Matches))
		for at, match := range conflict.Matches {
			ids[at] = match.Machine.ID
		}
		return ids
	default:
		return nil
	}
}
