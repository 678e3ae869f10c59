package metal

import (
	"context"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/fencing"
	"github.com/mooring-ccm/mooring/providers/metal/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// fencer returns what turns off the machines of nodes that are silent, if the config in force says so.
func (c *Cloud) fencer(l *leader, nodes coreinformers.NodeInformer) (*fencing.Controller, error) {
	return fencing.New(fencing.Options{
		Client: l.client.CoreV1(), Nodes: nodes, Recorder: l.recorder, Observe: c.instances.Observe, TurnOff: c.instances.TurnOff,
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

// TurnOff turns the machine of a node off by its management controller, which has to name the machine. See power.TurnOff.
func (i *Instances) TurnOff(ctx context.Context, node *v1.Node) error {
	found, err := i.index.Load().Find(node)
	if err != nil {
		return err
	}
	return power.TurnOff(ctx, found, node.Status.NodeInfo.SystemUUID)
}
