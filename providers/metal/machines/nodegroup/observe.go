package nodegroup

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/dead"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// group is a group of the config in force, with its machines.
type group struct {
	*config.NodeGroup
	machines []*config.Machine
}

// groupsOf returns the groups of a config.
func groupsOf(c *config.CloudConfig) []group {
	groups := make([]group, len(c.NodeGroups))
	for i := range c.NodeGroups {
		groups[i] = group{&c.NodeGroups[i], c.MachinesOf(&c.NodeGroups[i])}
	}
	return groups
}

func (g group) limits() limits {
	l := limits{name: g.Name, max: g.MaxSize, shutDown: g.ShutDownTimeout.Duration, wake: g.WakeTimeout.Duration}
	if g.MinCycleTime != nil {
		l.minCycle = g.MinCycleTime.Duration
	}
	return l
}

// has reports whether a machine is one of the group.
func (g group) has(id string) bool {
	return slices.ContainsFunc(g.machines, func(m *config.Machine) bool { return m.ID == id })
}

// factsOf returns what matters of a machine, but for what this leader has told its BMC.
func factsOf(m *config.Machine, recorded recordedIntents, observed metalpower.Observation, nodes nodeFacts) facts {
	f := facts{id: m.ID, name: m.Name, providerID: m.ProviderID(), maintenance: m.Maintenance, node: nodes, intent: intent{Want: awake}}
	if one, ok := recorded.intents[m.ID]; ok {
		f.intent, f.recorded = one, true
	}
	_, f.unreadable = recorded.unreadable[m.ID]
	switch {
	case observed.State == metalpower.On:
		f.power = nodestate.On
	case observed.State == metalpower.Off && observed.Verified:
		f.power = nodestate.Off
	}
	if f.power != nodestate.Unknown {
		f.powerSince, f.powerSeen = observed.Since, observed.Seen
	}
	return f
}

// nodeFactsOf returns what matters of the nodes that are, or may be, one machine's.
func nodeFactsOf(nodes []*v1.Node, own func(*v1.Node) bool) nodeFacts {
	f := nodeFacts{}
	for _, node := range nodes {
		f = f.with(node, own(node))
	}
	return f
}

// with returns the facts with those of another node.
func (f nodeFacts) with(node *v1.Node, own bool) nodeFacts {
	needed := nodestate.Ready(node) && !hasTaint(node, names.TaintToBeDeleted)
	_, controlPlane := node.Labels[nodestate.ControlPlaneLabel]
	f.count++
	if f.name == "" || needed || controlPlane || own {
		f.name, f.uid = node.Name, node.UID
	}
	f.needed, f.controlPlane, f.own = f.needed || needed, f.controlPlane || controlPlane, f.own || own
	if _, marked := node.Annotations[dead.OutOfServiceAnnotation]; marked || hasTaint(node, v1.TaintNodeOutOfService) {
		f.held = "out of service"
	}
	return f
}

func hasTaint(node *v1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == key })
}
