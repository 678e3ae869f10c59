package nodegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

var _ provider.NodeGroups = &Controller{}

// ListNodeGroups returns the groups of the config in force, without a call.
func (c *Controller) ListNodeGroups(context.Context) ([]provider.NodeGroup, error) {
	listed := []provider.NodeGroup{}
	for _, g := range groupsOf(c.options.Config()) {
		listed = append(listed, provider.NodeGroup{
			ID: g.Name, Min: g.MinSize, Max: g.MaxSize, Options: optionsOf(g.Options),
			Description: fmt.Sprintf("%d machines, of which %d to %d are on", len(g.machines), g.MinSize, g.MaxSize),
		})
	}
	return listed, nil
}

func optionsOf(o config.NodeGroupOptions) provider.NodeGroupOptions {
	duration := func(d *metav1.Duration) *time.Duration {
		if d == nil {
			return nil
		}
		return &d.Duration
	}
	return provider.NodeGroupOptions{
		ScaleDownUtilizationThreshold: o.ScaleDownUtilizationThreshold, IgnoreDaemonSetsUtilization: o.IgnoreDaemonSetsUtilization,
		ScaleDownUnneededTime: duration(o.ScaleDownUnneededTime), ScaleDownUnreadyTime: duration(o.ScaleDownUnreadyTime),
		MaxNodeProvisionTime: duration(o.MaxNodeProvisionTime),
	}
}

// known returns an error unless the config in force has a group of a name.
func (c *Controller) known(name string) error {
	if !slices.ContainsFunc(c.options.Config().NodeGroups, func(g config.NodeGroup) bool { return g.Name == name }) {
		return fmt.Errorf("%w: %q", provider.ErrNodeGroupNotFound, name)
	}
	return nil
}

// group returns a group of what is known.
func (s snapshot) group(name string) (group, error) {
	i := slices.IndexFunc(s.groups, func(g group) bool { return g.Name == name })
	if i < 0 {
		return group{}, fmt.Errorf("%w: %q", provider.ErrNodeGroupNotFound, name)
	}
	return s.groups[i], nil
}

// NodeGroupStatus returns what machines are by the record and the last readings of their BMCs.
func (c *Controller) NodeGroupStatus(ctx context.Context, name string) (provider.NodeGroupStatus, error) {
	if err := c.known(name); err != nil {
		return provider.NodeGroupStatus{}, err
	}
	seen, err := c.look(ctx)
	if errors.Is(err, ErrNotLeading) { // the record may have to be read again
		err = c.change(ctx, func(s snapshot, _ time.Time) (changes, error) { seen = s; return nil, nil })
	}
	if err != nil {
		return provider.NodeGroupStatus{}, err
	}
	group, err := seen.group(name)
	if err != nil {
		return provider.NodeGroupStatus{}, err
	}
	return statusOf(seen.of(group), group.limits(), time.Now()), nil
}

// changeGroup plans and records new intents of one group.
func (c *Controller) changeGroup(ctx context.Context, name string, plan func(snapshot, group, time.Time) (changes, error)) error {
	if err := c.known(name); err != nil {
		return err
	}
	return c.change(ctx, func(seen snapshot, now time.Time) (changes, error) {
		group, err := seen.group(name)
		if err != nil {
			return nil, err
		}
		return plan(seen, group, now)
	})
}

// IncreaseNodeGroup records that more machines are to be awake. They are turned on after that.
func (c *Controller) IncreaseNodeGroup(ctx context.Context, name string, delta int) error {
	return c.changeGroup(ctx, name, func(seen snapshot, g group, now time.Time) (changes, error) {
		return increase(seen.of(g), g.limits(), delta, now)
	})
}

// DecreaseNodeGroupTarget records that machines which are not on yet stay off.
func (c *Controller) DecreaseNodeGroupTarget(ctx context.Context, name string, delta int) error {
	return c.changeGroup(ctx, name, func(seen snapshot, g group, now time.Time) (changes, error) {
		return decrease(seen.of(g), g.limits(), delta, now)
	})
}

// DeleteNodeGroupInstances records that machines go to sleep, after their nodes were read. They are shut down after that.
func (c *Controller) DeleteNodeGroupInstances(ctx context.Context, name string, providerIDs []string) error {
	return c.changeGroup(ctx, name, func(seen snapshot, g group, now time.Time) (changes, error) {
		ids, err := c.membersOfGroup(g, providerIDs)
		if err != nil {
			return nil, err
		}
		machines := seen.of(g)
		for i, m := range machines {
			if !slices.Contains(ids, m.id) || m.intent.Want == asleep {
				continue
			}
			if machines[i], err = c.lookAgain(ctx, m, seen.configs[m.id]); err != nil {
				return nil, err
			}
		}
		return remove(machines, ids, now)
	})
}

// membersOfGroup returns the IDs of machines of a group. One that is not in the inventory is gone, and left out.
func (c *Controller) membersOfGroup(g group, providerIDs []string) ([]string, error) {
	var ids []string
	for _, providerID := range providerIDs {
		id, ours := strings.CutPrefix(providerID, config.ProviderIDScheme+"://")
		inventory := c.options.Config().Inventory.Machines
		switch {
		case ours && g.has(id):
			ids = append(ids, id)
		case !ours || slices.ContainsFunc(inventory, func(m config.Machine) bool { return m.ID == id }):
			return nil, fmt.Errorf("%w: %s and %q", provider.ErrNotInNodeGroup, providerID, g.Name)
		}
	}
	return ids, nil
}

// NodeGroupTemplate returns a node as one of the group's machines would be: with the capacity of the config, or else the capacity of a node
// that the group has.
func (c *Controller) NodeGroupTemplate(_ context.Context, name string) (*v1.Node, error) {
	if err := c.known(name); err != nil {
		return nil, err
	}
	if !c.led.Load() {
		return nil, ErrNotLeading
	}
	groups := groupsOf(c.options.Config())
	g := groups[slices.IndexFunc(groups, func(g group) bool { return g.Name == name })]
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name + "-template", Labels: labelsOf(g)},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	node.Labels[v1.LabelHostname] = node.Name
	for _, taint := range g.Taints {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: taint.Key, Value: taint.Value, Effect: v1.TaintEffect(taint.Effect)})
	}
	if len(g.Capacity) == 0 {
		if err := c.likeANode(g, node); err != nil {
			return nil, err
		}
		return node, nil
	}
	node.Status.Capacity = v1.ResourceList{}
	for resourceName, amount := range g.Capacity {
		parsed, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("capacity of the node group %s: %s: %w", g.Name, resourceName, err)
		}
		node.Status.Capacity[v1.ResourceName(resourceName)] = parsed
	}
	node.Status.Allocatable = maps.Clone(node.Status.Capacity)
	return node, nil
}

// labelsOf returns the labels of the group, and the labels that all its machines have alike.
func labelsOf(g group) map[string]string {
	common := map[string]string{}
	for i, m := range g.machines {
		own := maps.Clone(m.Labels)
		if own == nil {
			own = map[string]string{}
		}
		own[v1.LabelInstanceTypeStable], own[v1.LabelTopologyZone], own[v1.LabelTopologyRegion] = m.MachineType, m.Zone, m.Region
		if i == 0 {
			common = own
		}
		maps.DeleteFunc(common, func(key, value string) bool { return value == "" || own[key] != value })
	}
	maps.Copy(common, g.Labels)
	return common
}

// likeANode gives a template the capacity of a node of the group, of one that the inventory names where there is one: a kubelet chooses all
// by which its node counts as a machine but the name. The error is ErrNotImplemented if the group has no node.
func (c *Controller) likeANode(g group, template *v1.Node) error {
	c.mu.Lock()
	leads := !c.begun.IsZero()
	c.mu.Unlock()
	if !leads {
		return ErrNotLeading
	}
	nodes, err := c.sources.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	named := map[string]int{}
	for _, m := range g.machines {
		named[m.Name] = -1
	}
	slices.SortFunc(nodes, func(a, b *v1.Node) int { return cmp.Or(named[a.Name]-named[b.Name], strings.Compare(a.Name, b.Name)) })
	for _, node := range nodes {
		if node.Status.Capacity == nil || node.Status.Allocatable == nil {
			continue
		}
		if slices.ContainsFunc(c.options.MachinesOf(node), g.has) {
			template.Status.Capacity, template.Status.Allocatable = node.Status.Capacity.DeepCopy(), node.Status.Allocatable.DeepCopy()
			return nil
		}
	}
	return fmt.Errorf("node group %s has no node, and its capacity is not configured: %w", g.Name, provider.ErrNotImplemented)
}
