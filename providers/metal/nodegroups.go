package metal

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/machine"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodegroup"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// newNodeGroups returns the node groups of a config, which nothing looks after yet.
func newNodeGroups(source *config.Source, poller *power.Poller, instances *Instances, registry *prometheus.Registry) (*nodegroup.Controller, error) {
	return nodegroup.New(nodegroup.Options{
		Config: source.Current, Observe: poller.Observe, MachinesOf: instances.Claims, Self: self.Observe, Changed: instances.wake,
		Registerer: registry,
	})
}

// leadNodeGroups looks after the groups of the config, if there are any.
func (c *Cloud) leadNodeGroups(l *leader, nodes coreinformers.NodeInformer, fenced func(id string) bool) error {
	if len(c.began.NodeGroups) == 0 {
		return nil
	}
	if err := c.groups.Lead(nodegroup.Sources{
		Client: l.client.CoreV1(), Leases: l.client.CoordinationV1(), Nodes: nodes, Recorder: l.recorder, Fenced: fenced,
	}); err != nil {
		return err
	}
	l.run("node groups", c.groups.Run)
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
