package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mooring-ccm/mooring/provider"
)

// groups is for rules that need it.
func (t *trial) groups() provider.NodeGroups { return provider.CapabilitiesOf(t.Cloud).NodeGroups }

// status returns the status of the subject's group.
func (t *trial) status(ctx context.Context) (provider.NodeGroupStatus, error) {
	status, err := t.groups().NodeGroupStatus(ctx, t.NodeGroup)
	if err != nil {
		return status, fmt.Errorf("NodeGroupStatus of %s: %w", t.NodeGroup, err)
	}
	return status, nil
}

// statusCall is a call of the status of a group that has an instance.
func (t *trial) statusCall(ctx context.Context) ([]named, error) {
	grown, err := t.grow(ctx)
	return []named{{"NodeGroupStatus", func(ctx context.Context) error {
		status, err := t.groups().NodeGroupStatus(ctx, t.NodeGroup)
		return answered(lives(status, grown.ProviderID), err)
	}}}, err
}

// grow increases the subject's group by one, and returns the instance when it runs. It is deleted when the trial has ended.
func (t *trial) grow(ctx context.Context) (provider.NodeGroupInstance, error) {
	before, err := t.status(ctx)
	if err != nil {
		return provider.NodeGroupInstance{}, err
	}
	t.removeLater("an instance of the group "+t.NodeGroup, func(ctx context.Context) error { return t.shrinkTo(ctx, before) })
	if err := t.groups().IncreaseNodeGroup(ctx, t.NodeGroup, 1); err != nil {
		return provider.NodeGroupInstance{}, fmt.Errorf("IncreaseNodeGroup of %s by one: %w", t.NodeGroup, err)
	}
	var grown provider.NodeGroupInstance
	err = t.eventually(ctx, func(ctx context.Context) error {
		after, err := t.status(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(after.Instances, func(i provider.NodeGroupInstance) bool {
			return !lives(before, i.ProviderID) && i.State == provider.NodeGroupInstanceRunning
		})
		if i < 0 {
			return fmt.Errorf("no new instance of the group %s runs", t.NodeGroup)
		}
		grown = after.Instances[i]
		return nil
	})
	return grown, err
}

// shrinkTo deletes the instances of the group that were not there before.
func (t *trial) shrinkTo(ctx context.Context, before provider.NodeGroupStatus) error {
	now, err := t.status(ctx)
	if err != nil {
		return err
	}
	var added []string
	for _, instance := range now.Instances {
		if instance.State != provider.NodeGroupInstanceDeleting && !lives(before, instance.ProviderID) {
			added = append(added, instance.ProviderID)
		}
	}
	if len(added) == 0 {
		return nil
	}
	return t.groups().DeleteNodeGroupInstances(ctx, t.NodeGroup, added)
}

// unchanged looks that a group has the size and the instances that it had.
func (t *trial) unchanged(ctx context.Context, before provider.NodeGroupStatus, by string) error {
	after, err := t.status(ctx)
	if err != nil {
		return err
	}
	if after.TargetSize != before.TargetSize {
		t.sawf("the target size was %d, and is %d after %s", before.TargetSize, after.TargetSize, by)
	}
	for _, instance := range before.Instances {
		if instance.State != provider.NodeGroupInstanceDeleting && !lives(after, instance.ProviderID) {
			t.sawf("instance %s is gone after %s", instance.ProviderID, by)
		}
	}
	return nil
}

// beyondMaximum returns by how much a group would be greater than it may be.
func (t *trial) beyondMaximum(ctx context.Context, status provider.NodeGroupStatus) (int, error) {
	all, err := t.groups().ListNodeGroups(ctx)
	if err != nil {
		return 0, fmt.Errorf("ListNodeGroups: %w", err)
	}
	i := slices.IndexFunc(all, func(g provider.NodeGroup) bool { return g.ID == t.NodeGroup })
	if i < 0 {
		return 0, unavailable("group %s is not listed", t.NodeGroup)
	}
	return all[i].Max - status.TargetSize + 1, nil
}

// known looks that the provider knows an instance of a group as it knows those of nodes, where it can be asked.
func (t *trial) known(ctx context.Context, instance provider.NodeGroupInstance) error {
	v2, ok := t.Cloud.InstancesV2()
	if !ok {
		return nil
	}
	node := namedNode(instance.NodeName)
	node.Spec.ProviderID = instance.ProviderID
	metadata, err := v2.InstanceMetadata(ctx, node)
	if err == nil && metadata == nil {
		err = errors.New("nil, and no error")
	}
	if err != nil {
		return fmt.Errorf("InstanceMetadata of %s, an instance of a group: %w", instance.ProviderID, err)
	}
	if metadata.ProviderID != instance.ProviderID {
		return fmt.Errorf("an instance of the group has the provider ID %s, and its metadata %s", instance.ProviderID, metadata.ProviderID)
	}
	return nil
}

// lives reports whether an instance is in a group and is not being deleted.
func lives(status provider.NodeGroupStatus, providerID string) bool {
	return slices.ContainsFunc(status.Instances, func(i provider.NodeGroupInstance) bool {
		return i.ProviderID == providerID && i.State != provider.NodeGroupInstanceDeleting
	})
}
