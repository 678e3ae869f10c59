package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mooring-ccm/mooring/provider"
)

// wholeStatus is why a status that fails must say so.
var wholeStatus = Source{"provider.NodeGroups.NodeGroupStatus", "its whole target size and all its instances, or an error, never less"}

func nodeGroupRules() []Rule {
	return []Rule{
		{
			ID:     "node-groups-list",
			Text:   "Every group is listed once, with an ID, and its minimum is not above its maximum.",
			Source: Source{"provider.NodeGroup.Min", "Min and Max are how many machines the group keeps and may have: 0 <= Min <= Max."},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsList,
		},
		{
			ID:     "node-groups-unknown",
			Text:   "Every call about a group that does not exist says so.",
			Source: Source{"provider.NodeGroups", "An unknown group is an ErrNodeGroupNotFound."},
			Needs:  []Need{NeedNodeGroups},
			check:  checkNodeGroupsUnknown,
		},
		{
			ID:     "node-groups-template",
			Text:   "A template has capacity and allocatable for CPU, memory and Pods, and may be changed by who asked for it.",
			Source: Source{"provider.NodeGroups.NodeGroupTemplate", "labels, taints, capacity and allocatable"},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsTemplate,
		},
		{
			ID:     "node-groups-increase",
			Text:   "A group that is increased has the greater target size at once, and then an instance more that runs, with a provider ID that no other has.",
			Source: Source{"provider.NodeGroups.IncreaseNodeGroup", "IncreaseNodeGroup raises the target size by delta"},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsIncrease,
		},
		{
			ID:     "node-groups-maximum",
			Text:   "An increase beyond the maximum is refused, and changes nothing.",
			Source: Source{"provider.NodeGroups.IncreaseNodeGroup", "A target above the group's maximum is an ErrNodeGroupSize."},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsMaximum,
		},
	}
}

func nodeGroupDeletionRules() []Rule {
	return []Rule{
		{
			ID:     "node-groups-delete",
			Text:   "The instance that is to be deleted leaves its group, no other does, and no other takes its place.",
			Source: Source{"provider.NodeGroups.DeleteNodeGroupInstances", "lowers the target size by as many; the group does not replace them"},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsDelete,
		},
		{
			ID:     "node-groups-delete-again",
			Text:   "To delete an instance that was deleted is no error, and lowers no target size.",
			Source: Source{"provider.NodeGroups.DeleteNodeGroupInstances", "One that is being deleted or is gone already is no error and does not count."},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsDeleteAgain,
		},
		{
			ID:     "node-groups-delete-foreign",
			Text:   "A call that names an instance of no group is refused, and deletes none of its instances.",
			Source: Source{"provider.NodeGroups.DeleteNodeGroupInstances", "One that exists and is not in the group is an ErrNotInNodeGroup, and then nothing is deleted."},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup, NeedInstance},
			check:  checkNodeGroupsDeleteForeign,
		},
		{
			ID:     "node-groups-decrease",
			Text:   "A decrease of the target beyond what is still to come is refused, and deletes no instance that runs.",
			Source: Source{"provider.NodeGroups.DecreaseNodeGroupTarget", "No instance that has run is deleted."},
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check:  checkNodeGroupsDecrease,
		},
	}
}

func nodeGroupFailureRules() []Rule {
	return []Rule{
		{
			ID:     "node-groups-failure",
			Text:   "When the cloud fails, the status of a group is an error or whole, and no increase that was not made is reported as made.",
			Source: wholeStatus,
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup, NeedFault},
			check:  checkNodeGroupsFailure,
		},
		{
			ID:     "node-groups-context",
			Text:   "A status whose context has been canceled returns an error, and soon.",
			Source: contexts,
			Needs:  []Need{NeedNodeGroups, NeedNodeGroup},
			check: func(ctx context.Context, t *trial) error {
				status, err := t.statusCall(ctx)
				if err == nil {
					t.endWithContext(ctx, status)
				}
				return err
			},
		},
	}
}

func checkNodeGroupsList(ctx context.Context, t *trial) error {
	all, err := t.groups().ListNodeGroups(ctx)
	if err != nil {
		return fmt.Errorf("ListNodeGroups: %w", err)
	}
	seen := sets.New[string]()
	for _, group := range all {
		switch {
		case group.ID == "":
			t.sawf("a group without an ID")
		case seen.Has(group.ID):
			t.sawf("group %s is listed twice", group.ID)
		case group.Min < 0 || group.Min > group.Max:
			t.sawf("group %s has a minimum of %d and a maximum of %d", group.ID, group.Min, group.Max)
		}
		seen.Insert(group.ID)
	}
	if !seen.Has(t.NodeGroup) {
		t.sawf("group %s is not listed", t.NodeGroup)
	}
	return nil
}

func checkNodeGroupsUnknown(ctx context.Context, t *trial) error {
	unknown := "conformance-" + t.options.RunID + "-never-created"
	for name, call := range map[string]func() error{
		"NodeGroupStatus":          func() error { _, err := t.groups().NodeGroupStatus(ctx, unknown); return err },
		"NodeGroupTemplate":        func() error { _, err := t.groups().NodeGroupTemplate(ctx, unknown); return err },
		"IncreaseNodeGroup":        func() error { return t.groups().IncreaseNodeGroup(ctx, unknown, 1) },
		"DecreaseNodeGroupTarget":  func() error { return t.groups().DecreaseNodeGroupTarget(ctx, unknown, 1) },
		"DeleteNodeGroupInstances": func() error { return t.groups().DeleteNodeGroupInstances(ctx, unknown, nil) },
	} {
		if err := call(); !errors.Is(err, provider.ErrNodeGroupNotFound) {
			t.sawf("%s of a group that does not exist: %v", name, err)
		}
	}
	return nil
}

func checkNodeGroupsTemplate(ctx context.Context, t *trial) error {
	template, err := t.groups().NodeGroupTemplate(ctx, t.NodeGroup)
	if errors.Is(err, provider.ErrNotImplemented) {
		return unavailable("the provider knows no templates")
	}
	if err == nil && template == nil {
		err = errors.New("nil, and no error")
	}
	if err != nil {
		return fmt.Errorf("NodeGroupTemplate: %w", err)
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
		capacity, allocatable := template.Status.Capacity[name], template.Status.Allocatable[name]
		if capacity.Sign() <= 0 || allocatable.Sign() <= 0 || allocatable.Cmp(capacity) > 0 {
			t.sawf("of %s the template has a capacity of %s, of which %s is allocatable", name, capacity.String(), allocatable.String())
		}
	}
	template.Labels = map[string]string{"changed": "by the caller"}
	clear(template.Status.Capacity)
	again, err := t.groups().NodeGroupTemplate(ctx, t.NodeGroup)
	if err != nil {
		return fmt.Errorf("NodeGroupTemplate: %w", err)
	}
	if again.Labels["changed"] != "" || len(again.Status.Capacity) == 0 {
		t.sawf("a caller's change to a template appears in the next one")
	}
	return nil
}

func checkNodeGroupsIncrease(ctx context.Context, t *trial) error {
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	grown, err := t.grow(ctx)
	if err != nil {
		return err
	}
	after, err := t.status(ctx)
	if err != nil {
		return err
	}
	if after.TargetSize != before.TargetSize+1 {
		t.sawf("the target size was %d, and is %d after an increase by one", before.TargetSize, after.TargetSize)
	}
	seen := sets.New[string]()
	for _, instance := range after.Instances {
		if instance.ProviderID == "" || seen.Has(instance.ProviderID) {
			t.sawf("an instance has the provider ID %q, which is empty or another instance's", instance.ProviderID)
		}
		seen.Insert(instance.ProviderID)
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		return t.known(ctx, grown)
	})
}

func checkNodeGroupsMaximum(ctx context.Context, t *trial) error {
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	beyond, err := t.beyondMaximum(ctx, before)
	if err != nil {
		return err
	}
	t.removeLater("what was made beyond the maximum", func(ctx context.Context) error { return t.shrinkTo(ctx, before) })
	if err := t.groups().IncreaseNodeGroup(ctx, t.NodeGroup, beyond); !errors.Is(err, provider.ErrNodeGroupSize) {
		t.sawf("an increase by %d, beyond the maximum: %v", beyond, err)
	}
	return t.unchanged(ctx, before, "an increase that was refused")
}

func checkNodeGroupsDelete(ctx context.Context, t *trial) error {
	kept, err := t.grow(ctx)
	if err != nil {
		return err
	}
	doomed, err := t.grow(ctx)
	if err != nil {
		return err
	}
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	if err := t.groups().DeleteNodeGroupInstances(ctx, t.NodeGroup, []string{doomed.ProviderID}); err != nil {
		return fmt.Errorf("DeleteNodeGroupInstances of an instance of the group: %w", err)
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		after, err := t.status(ctx)
		switch {
		case err != nil:
			return err
		case after.TargetSize != before.TargetSize-1:
			return fmt.Errorf("the target size was %d, and is %d after the deletion of one", before.TargetSize, after.TargetSize)
		case lives(after, doomed.ProviderID):
			return fmt.Errorf("%s, which was to be deleted, is in the group", doomed.ProviderID)
		case !lives(after, kept.ProviderID):
			return fmt.Errorf("%s, which was not to be deleted, is not in the group", kept.ProviderID)
		default:
			return nil
		}
	})
}

func checkNodeGroupsDeleteAgain(ctx context.Context, t *trial) error {
	doomed, err := t.grow(ctx)
	if err != nil {
		return err
	}
	remove := func(ctx context.Context) error {
		return t.groups().DeleteNodeGroupInstances(ctx, t.NodeGroup, []string{doomed.ProviderID})
	}
	if err := remove(ctx); err != nil {
		return fmt.Errorf("DeleteNodeGroupInstances of an instance of the group: %w", err)
	}
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	if err := remove(ctx); err != nil {
		t.sawf("DeleteNodeGroupInstances of an instance that was deleted: %v", err)
	}
	after, err := t.status(ctx)
	if err == nil && after.TargetSize != before.TargetSize {
		t.sawf("the target size was %d, and is %d after the same instance was deleted again", before.TargetSize, after.TargetSize)
	}
	return err
}

func checkNodeGroupsDeleteForeign(ctx context.Context, t *trial) error {
	foreign, err := t.instance(ctx)
	if err != nil {
		return err
	}
	own, err := t.grow(ctx)
	if err != nil {
		return err
	}
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	err = t.groups().DeleteNodeGroupInstances(ctx, t.NodeGroup, []string{own.ProviderID, foreign.ProviderID})
	if !errors.Is(err, provider.ErrNotInNodeGroup) {
		t.sawf("DeleteNodeGroupInstances of %s, which is in no group: %v", foreign.ProviderID, err)
	}
	return t.unchanged(ctx, before, "a deletion that was refused")
}

func checkNodeGroupsDecrease(ctx context.Context, t *trial) error {
	if _, err := t.grow(ctx); err != nil {
		return err
	}
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	running := slices.ContainsFunc(before.Instances, func(i provider.NodeGroupInstance) bool { return i.State == provider.NodeGroupInstanceRunning })
	if !running {
		return unavailable("no instance of the group runs")
	}
	if err := t.groups().DecreaseNodeGroupTarget(ctx, t.NodeGroup, before.TargetSize); !errors.Is(err, provider.ErrNodeGroupSize) {
		t.sawf("a decrease of the target by %d, of which some run: %v", before.TargetSize, err)
	}
	return t.unchanged(ctx, before, "a decrease that was refused")
}

func checkNodeGroupsFailure(ctx context.Context, t *trial) error {
	status, err := t.statusCall(ctx)
	if err != nil {
		return err
	}
	before, err := t.status(ctx)
	if err != nil {
		return err
	}
	t.removeLater("what was made while the cloud failed", func(ctx context.Context) error { return t.shrinkTo(ctx, before) })
	return t.failWithCloud(ctx, FaultError, append(status, named{"IncreaseNodeGroup", func(ctx context.Context) error {
		return t.groups().IncreaseNodeGroup(ctx, t.NodeGroup, 1)
	}}))
}
