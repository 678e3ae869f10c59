package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// The labels by which an instance is one of a group.
const (
	labelGroup   = "sim.mooring.dev/node-group"
	labelCluster = "sim.mooring.dev/cluster"
)

// maxPods is how many Pods a node of a group takes: a kubelet's default.
const maxPods = 110

// codeCreationFailed is the code of an instance whose creation failed.
const codeCreationFailed = "creation-failed"

// nodeGroups is provider.NodeGroups. The cloud knows no groups: the instances of one have its labels, and its target size is how many
// there are.
type nodeGroups struct {
	*Cloud

	mu sync.Mutex
	// unlisted are, by ID, the created instances that no list has shown yet. Gone are the deleted instances that a list may still show:
	// lists may lag.
	unlisted map[string]api.Instance
	gone     map[string]bool
}

var _ provider.NodeGroups = &nodeGroups{}

func newNodeGroups(c *Cloud) *nodeGroups {
	return &nodeGroups{Cloud: c, unlisted: map[string]api.Instance{}, gone: map[string]bool{}}
}

// ListNodeGroups returns the groups of the config, without a call.
func (n *nodeGroups) ListNodeGroups(context.Context) ([]provider.NodeGroup, error) {
	groups := make([]provider.NodeGroup, len(n.config.NodeGroups))
	for i, g := range n.config.NodeGroups {
		groups[i] = provider.NodeGroup{
			ID: g.Name, Min: g.MinSize, Max: g.MaxSize, Options: g.Options.options(),
			Description: fmt.Sprintf("%s in %s, %d to %d", g.MachineType, g.Zone, g.MinSize, g.MaxSize),
		}
	}
	return groups, nil
}

// group returns the group of a name.
func (n *nodeGroups) group(name string) (NodeGroup, error) {
	i := slices.IndexFunc(n.config.NodeGroups, func(g NodeGroup) bool { return g.Name == name })
	if i < 0 {
		return NodeGroup{}, fmt.Errorf("%w: %q", provider.ErrNodeGroupNotFound, name)
	}
	return n.config.NodeGroups[i], nil
}

// NodeGroupStatus lists the instances.
func (n *nodeGroups) NodeGroupStatus(ctx context.Context, name string) (provider.NodeGroupStatus, error) {
	group, err := n.group(name)
	if err != nil {
		return provider.NodeGroupStatus{}, err
	}
	all, err := n.all(ctx)
	if err != nil {
		return provider.NodeGroupStatus{}, err
	}
	status := provider.NodeGroupStatus{}
	for _, instance := range all {
		if n.has(group, instance) {
			status.Instances = append(status.Instances, groupInstance(instance))
		}
	}
	status.TargetSize = len(status.Instances)
	return status, nil
}

// has reports whether an instance is one of a group of this cluster.
func (n *nodeGroups) has(group NodeGroup, instance api.Instance) bool {
	return instance.Labels[labelGroup] == group.Name && instance.Labels[labelCluster] == n.config.ClusterName
}

func groupInstance(instance api.Instance) provider.NodeGroupInstance {
	status := provider.NodeGroupInstance{ProviderID: ProviderID(instance.ID), NodeName: types.NodeName(instance.Name)}
	switch instance.State {
	case api.InstanceRunning:
		status.State = provider.NodeGroupInstanceRunning
	case api.InstancePending:
		status.State = provider.NodeGroupInstanceCreating
	case api.InstanceFailed:
		status.State = provider.NodeGroupInstanceCreating
		status.Error = &provider.NodeGroupInstanceError{
			OutOfResources: true, Code: codeCreationFailed, Message: cmp.Or(instance.StateReason, "the cloud does not say why"),
		}
	}
	return status
}

// all lists all instances as they are, whatever lists lag behind: it gets the instances that this process created and deleted one by one
// until lists have caught up.
func (n *nodeGroups) all(ctx context.Context) ([]api.Instance, error) {
	listed := map[string]api.Instance{}
	err := n.client.ListInstances(ctx, func(page []api.Instance) error {
		for _, instance := range page {
			listed[instance.ID] = instance
		}
		return nil
	})
	if err != nil {
		return nil, classify(err)
	}
	for _, id := range n.caughtUp(listed) {
		instance, err := n.client.GetInstance(ctx, id)
		switch {
		case isNotFound(err):
			n.forget(id)
		case err != nil:
			return nil, classify(err)
		default:
			listed[id] = *instance
		}
	}
	return slices.SortedFunc(maps.Values(listed), func(a, b api.Instance) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// caughtUp takes from a list what is gone, and returns the IDs of what it should show and does not.
func (n *nodeGroups) caughtUp(listed map[string]api.Instance) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.gone {
		if _, shown := listed[id]; !shown {
			delete(n.gone, id)
		}
		delete(listed, id)
	}
	for id := range n.unlisted {
		if _, shown := listed[id]; shown {
			delete(n.unlisted, id)
		}
	}
	return slices.Sorted(maps.Keys(n.unlisted))
}

func (n *nodeGroups) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.unlisted, id)
}

// NodeGroupTemplate returns a node of the group's machine type.
func (n *nodeGroups) NodeGroupTemplate(ctx context.Context, name string) (*v1.Node, error) {
	group, err := n.group(name)
	if err != nil {
		return nil, err
	}
	machine, region, err := n.offered(ctx, group)
	if err != nil {
		return nil, err
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(machine.CPUs), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(machine.MemoryMiB)<<20, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: group.Name + "-template", Labels: n.labels(group)},
		Status: v1.NodeStatus{
			Capacity: capacity, Allocatable: maps.Clone(capacity),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
	for key, value := range map[string]string{
		v1.LabelHostname: node.Name, v1.LabelInstanceTypeStable: group.MachineType, v1.LabelTopologyZone: group.Zone, v1.LabelTopologyRegion: region,
	} {
		node.Labels[key] = value
	}
	for _, taint := range group.Taints {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: taint.Key, Value: taint.Value, Effect: v1.TaintEffect(taint.Effect)})
	}
	return node, nil
}

// labels are those of a group's instances.
func (n *nodeGroups) labels(group NodeGroup) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, group.Labels)
	labels[labelGroup], labels[labelCluster] = group.Name, n.config.ClusterName
	return labels
}

// offered returns what the cloud says of a group's machine type, and of its zone the region.
func (n *nodeGroups) offered(ctx context.Context, group NodeGroup) (machine api.MachineType, region string, err error) {
	err = n.client.ListMachineTypes(ctx, func(page []api.MachineType) error {
		for _, offered := range page {
			if offered.Name == group.MachineType {
				machine = offered
			}
		}
		return nil
	})
	if err == nil {
		err = n.client.ListZones(ctx, func(page []api.Zone) error {
			for _, zone := range page {
				if zone.Name == group.Zone {
					region = zone.Region
				}
			}
			return nil
		})
	}
	switch {
	case err != nil:
		return machine, "", classify(err)
	case machine.Name == "":
		return machine, "", provider.Terminal(fmt.Errorf("node group %q: the cloud has no machine type %q", group.Name, group.MachineType))
	case region == "":
		return machine, "", provider.Terminal(fmt.Errorf("node group %q: the cloud has no zone %q", group.Name, group.Zone))
	default:
		return machine, region, nil
	}
}

// IncreaseNodeGroup creates instances.
func (n *nodeGroups) IncreaseNodeGroup(ctx context.Context, name string, delta int) error {
	group, err := n.group(name)
	if err != nil {
		return err
	}
	all, err := n.all(ctx)
	if err != nil {
		return err
	}
	size := 0
	used := map[string]bool{}
	for _, instance := range all {
		if n.has(group, instance) {
			size++
		}
		for _, address := range instance.Addresses {
			used[address.Address] = true
		}
	}
	if delta < 1 || size+delta > group.MaxSize {
		return fmt.Errorf("%w: %q has %d, by %d more it would not be within its maximum of %d", provider.ErrNodeGroupSize, name, size, delta, group.MaxSize)
	}
	for made := range delta {
		if err := n.create(ctx, group, used); err != nil {
			return fmt.Errorf("node group %q: creating instance %d of %d: %w", name, made+1, delta, err)
		}
	}
	return nil
}

// create creates one instance, with an address that is not used, which it then is.
func (n *nodeGroups) create(ctx context.Context, group NodeGroup, used map[string]bool) error {
	network := netip.MustParsePrefix(group.Network) // was validated
	address := network.Addr().Next()
	for network.Contains(address) && used[address.String()] {
		address = address.Next()
	}
	if !network.Contains(address) {
		return provider.Terminal(fmt.Errorf("no address of %s is free", group.Network))
	}
	for range 3 { // names are random
		name := group.Name + "-" + utilrand.String(5)
		created, err := n.client.CreateInstance(ctx, api.InstanceSpec{
			Name: name, Zone: group.Zone, MachineType: group.MachineType, Labels: n.labels(group),
			Addresses: []api.Address{{Type: api.AddressHostname, Address: name}, {Type: api.AddressInternalIP, Address: address.String()}},
		})
		if err == nil {
			used[address.String()] = true
			n.mu.Lock()
			n.unlisted[created.ID] = *created
			n.mu.Unlock()
			return nil
		}
		if !api.HasCode(err, api.CodeConflict) {
			return classify(err)
		}
	}
	return errors.New("three random names in a row were taken")
}

// DecreaseNodeGroupTarget deletes instances that do not run yet: failed ones first, then the newest.
func (n *nodeGroups) DecreaseNodeGroupTarget(ctx context.Context, name string, delta int) error {
	group, err := n.group(name)
	if err != nil {
		return err
	}
	all, err := n.all(ctx)
	if err != nil {
		return err
	}
	var failed, pending []string
	for _, instance := range slices.Backward(all) {
		switch {
		case !n.has(group, instance):
		case instance.State == api.InstanceFailed:
			failed = append(failed, instance.ID)
		case instance.State == api.InstancePending:
			pending = append(pending, instance.ID)
		}
	}
	unfulfilled := append(failed, pending...)
	if delta < 1 || delta > len(unfulfilled) {
		return fmt.Errorf("%w: %q waits for %d, which cannot be reduced by %d", provider.ErrNodeGroupSize, name, len(unfulfilled), delta)
	}
	return n.remove(ctx, unfulfilled[:delta])
}

// DeleteNodeGroupInstances deletes instances, once all of them were looked at.
func (n *nodeGroups) DeleteNodeGroupInstances(ctx context.Context, name string, providerIDs []string) error {
	group, err := n.group(name)
	if err != nil {
		return err
	}
	var doomed []string
	for _, providerID := range providerIDs {
		instance, err := n.instanceByProviderID(ctx, providerID)
		switch {
		case errors.Is(err, provider.ErrInstanceNotFound):
		case err != nil:
			return err
		case !n.has(group, *instance):
			return fmt.Errorf("%w: %s and %q", provider.ErrNotInNodeGroup, providerID, name)
		default:
			doomed = append(doomed, instance.ID)
		}
	}
	return n.remove(ctx, doomed)
}

// remove deletes instances. One that is gone is no error.
func (n *nodeGroups) remove(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := n.client.DeleteInstance(ctx, id, 0); err != nil && !isNotFound(err) {
			return fmt.Errorf("deleting instance %s: %w", id, classify(err))
		}
		n.mu.Lock()
		delete(n.unlisted, id)
		n.gone[id] = true
		n.mu.Unlock()
	}
	return nil
}
