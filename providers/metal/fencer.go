package metal

import (
	"context"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/fencing"
	"github.com/mooring-ccm/mooring/providers/metal/nodestate"
	"github.com/mooring-ccm/mooring/providers/metal/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// fencer returns what turns off the machines of nodes that are silent, if the config in force says so.
func (c *Cloud) fencer(l *leader, nodes coreinformers.NodeInformer) (*fencing.Controller, error) {
	lease := c.began.Power.OutOfService.Fence.Lease.WithDefaults() // another one takes another process
	return fencing.New(fencing.Options{
		Client: l.client.CoreV1(), Leases: l.client.CoordinationV1(), LeaseNamespace: lease.Namespace, LeaseName: lease.Name,
		Named: c.instances.named, Known: c.instances.known, Claims: c.instances.machinesOf, Nodes: nodes, Recorder: l.recorder, Observe: c.observeForFencing, TurnOff: c.instances.TurnOff,
		Self: self.Observe, Registerer: c.registry,
		Settings: func() fencing.Settings {
			settings := c.source.Current().Power.OutOfService
			return fencing.Settings{
				Enabled: settings.Enabled && settings.Fence.Enabled, After: settings.Fence.After.Duration,
				MaxUnknownPercent: settings.Fence.MaxUnknownPercent, Interval: settings.Fence.Interval.Duration,
				Timeout: settings.Fence.Timeout.Duration, OutsideCluster: settings.Fence.OutsideCluster,
			}
		},
	})
}

// observeForFencing returns what is known of the power of a node's machine, and nothing of one that goes to sleep: that its node falls
// silent is no fault, and its node group turns it off.
func (c *Cloud) observeForFencing(node *v1.Node) power.Observation {
	for _, id := range c.instances.machinesOf(node) {
		if c.groups.goesToSleep(id) {
			return power.Observation{}
		}
	}
	return c.instances.Observe(node)
}

// named returns the machine that the inventory calls like a node, nil if there is none.
func (i *Instances) named(node string) *fencing.Machine {
	found, ok := i.index.Load().Named(node)
	if !ok {
		return nil
	}
	_, controlPlane := found.Labels[nodestate.ControlPlaneLabel]
	return &fencing.Machine{ID: found.ID, ProviderID: found.ProviderID(), ControlPlane: controlPlane, Maintenance: found.Maintenance}
}

// known reports whether the inventory has a machine with an ID.
func (i *Instances) known(id string) bool {
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
