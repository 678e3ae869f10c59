package metal

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/dead"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// deadMachines returns what looks after the nodes of machines that are off or silent, as the config in force says.
func (c *Cloud) deadMachines(l *leader, nodes coreinformers.NodeInformer) (*dead.Controller, error) {
	lease := c.began.Power.OutOfService.Fence.Lease.WithDefaults() // another one takes another process
	return dead.New(dead.Options{
		Client: l.client.CoreV1(), Leases: l.client.CoordinationV1(), LeaseNamespace: lease.Namespace, LeaseName: lease.Name,
		Machines: c.instances, Nodes: nodes, Recorder: l.recorder, Self: self.Observe, Registerer: c.registry,
		Settings: func() dead.Settings {
			settings := c.source.Current().Power.OutOfService
			return dead.Settings{Enabled: settings.Enabled, After: settings.After.Duration, Fence: dead.Fence{
				Enabled: settings.Fence.Enabled, After: settings.Fence.After.Duration, MaxUnknownPercent: settings.Fence.MaxUnknownPercent,
				Interval: settings.Fence.Interval.Duration, Timeout: settings.Fence.Timeout.Duration, OutsideCluster: settings.Fence.OutsideCluster,
			}}
		},
	})
}

// GoesToSleep reports whether the machine of a node is to be asleep: its node group turns it off.
func (i *Instances) GoesToSleep(node *v1.Node) bool {
	return i.goesToSleep != nil && slices.ContainsFunc(i.Claims(node), i.goesToSleep)
}

// Named returns the machine that the inventory calls like a node, nil if there is none.
func (i *Instances) Named(node string) *config.Machine {
	found, _ := i.index.Load().Named(node)
	return found
}

// Known reports whether the inventory has a machine with an ID.
func (i *Instances) Known(id string) bool {
	_, ok := i.index.Load().Get(id)
	return ok
}

// TurnOff turns the machine of a node off by its management controller, which has to name the machine. See power.TurnOff.
func (i *Instances) TurnOff(ctx context.Context, node *v1.Node) error {
	found, err := i.index.Load().Find(node)
	if err != nil {
		return err
	}
	return power.TurnOff(ctx, found, node.Status.NodeInfo.SystemUUID)
}
