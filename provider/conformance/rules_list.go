package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/mooring-ccm/mooring/provider"
)

// whole is why a list that fails must say so.
var whole = Source{"provider.ListInstancesFunc",
	"It returns nil only after yield has seen every instance: a list is complete or an error, never short."}

func listRules() []Rule {
	return []Rule{
		{
			ID:     "list-complete",
			Text:   "Every instance that exists is in the list, once, with a provider ID.",
			Source: whole,
			Needs:  []Need{NeedListInstances, NeedTwoInstances},
			check:  checkListComplete,
		},
		{
			ID:   "list-agrees",
			Text: "What the list says of an instance is what InstanceMetadata and InstanceShutdown say.",
			Source: Source{"provider.Instance.InstanceMetadata",
				"InstanceMetadata is what cloudprovider.InstancesV2.InstanceMetadata would say of it."},
			Needs: []Need{NeedListInstances, NeedInstancesV2, NeedInstance},
			check: checkListAgrees,
		},
		{
			ID:     "list-stopped",
			Text:   "An instance that is shut down is in the list, and is not said to run.",
			Source: Source{"provider.InstanceStopped", "InstanceStopped is an instance that exists and is shut down"},
			Needs:  []Need{NeedListInstances, NeedCreate, NeedStop},
			check:  checkListStopped,
		},
		{
			ID:     "list-deleted",
			Text:   "An instance that was deleted leaves the list.",
			Source: Source{"provider.ListInstancesFunc", "ListInstancesFunc lists all instances"},
			Needs:  []Need{NeedListInstances, NeedCreate, NeedDelete},
			check:  checkListDeleted,
		},
		{
			ID:     "list-yield-error",
			Text:   "An error of yield ends the list and is returned.",
			Source: Source{"provider.ListInstancesFunc", "An error of yield ends the listing and is returned as it is."},
			Needs:  []Need{NeedListInstances, NeedInstance},
			check:  checkListYieldError,
		},
		{
			ID:     "list-failure",
			Text:   "When the cloud fails, a list is an error or whole, never short.",
			Source: whole,
			Needs:  []Need{NeedListInstances, NeedInstance, NeedFault},
			check: func(ctx context.Context, t *trial) error {
				list, err := t.listCall(ctx)
				if err != nil {
					return err
				}
				return t.failWithCloud(ctx, FaultError, list)
			},
		},
		{
			ID:     "list-context",
			Text:   "A list whose context has been canceled returns an error, and soon.",
			Source: contexts,
			Needs:  []Need{NeedListInstances, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				list, err := t.listCall(ctx)
				if err != nil {
					return err
				}
				t.endWithContext(ctx, list)
				return nil
			},
		},
	}
}

// listCall is a list of all instances, of which one exists.
func (t *trial) listCall(ctx context.Context) ([]named, error) {
	instance, err := t.instance(ctx)
	return []named{{"ListInstances", func(ctx context.Context) error {
		found, err := t.listed(ctx, instance.ProviderID)
		return answered(found != nil, err)
	}}}, err
}

// list lists all instances.
func (t *trial) list(ctx context.Context) ([]provider.Instance, error) {
	var all []provider.Instance
	err := provider.CapabilitiesOf(t.Cloud).ListInstances(ctx, func(page []provider.Instance) error {
		all = append(all, page...)
		return nil
	})
	return all, err
}

// listed lists all instances and returns the one with a provider ID, nil if it is not there.
func (t *trial) listed(ctx context.Context, providerID string) (*provider.Instance, error) {
	all, err := t.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("ListInstances: %w", err)
	}
	for _, instance := range all {
		if instance.ProviderID == providerID {
			return &instance, nil
		}
	}
	return nil, nil
}

func checkListComplete(ctx context.Context, t *trial) error {
	want, err := t.instances(ctx, 2)
	if err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		all, err := t.list(ctx)
		if err != nil {
			return fmt.Errorf("ListInstances: %w", err)
		}
		times := map[string]int{}
		var wrong []error
		for _, instance := range all {
			if times[instance.ProviderID]++; times[instance.ProviderID] == 2 {
				wrong = append(wrong, fmt.Errorf("ListInstances lists %q more than once", instance.ProviderID))
			}
		}
		if times[""] > 0 {
			wrong = append(wrong, errors.New("ListInstances lists an instance without a provider ID"))
		}
		for _, instance := range want {
			if times[instance.ProviderID] == 0 {
				wrong = append(wrong, fmt.Errorf("ListInstances does not list %s, which exists", instance.ProviderID))
			}
		}
		return errors.Join(wrong...)
	})
}

func checkListAgrees(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		found, err := t.listed(ctx, instance.ProviderID)
		if err != nil || found == nil {
			return errors.Join(err, fmt.Errorf("ListInstances: %s: %v", instance.ProviderID, found))
		}
		metadata, err := t.v2().InstanceMetadata(ctx, namedNode(instance.NodeName))
		if err != nil {
			return fmt.Errorf("InstanceMetadata of %s: %w", instance.NodeName, err)
		}
		if !reflect.DeepEqual(*metadata, found.InstanceMetadata) {
			return fmt.Errorf("ListInstances says %+v; InstanceMetadata says %+v", found.InstanceMetadata, *metadata)
		}
		if found.NodeName != "" && found.NodeName != instance.NodeName {
			return fmt.Errorf("ListInstances says that the node of %s is %q; it is %q",
				instance.ProviderID, found.NodeName, instance.NodeName)
		}
		if found.State == provider.InstanceStopped {
			return fmt.Errorf("ListInstances says that %s is stopped; it runs", instance.ProviderID)
		}
		return nil
	})
}

func checkListStopped(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.stop(ctx, instance); err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		found, err := t.listed(ctx, instance.ProviderID)
		switch {
		case err != nil:
			return err
		case found == nil:
			return fmt.Errorf("ListInstances does not list %s, which exists and is shut down", instance.ProviderID)
		case found.State == provider.InstanceRunning:
			return fmt.Errorf("ListInstances says that %s is %s; it is shut down", instance.ProviderID, found.State)
		default:
			return nil
		}
	})
}

func checkListDeleted(ctx context.Context, t *trial) error {
	instance, err := t.instance(ctx)
	if err != nil {
		return err
	}
	if err := t.delete(ctx, instance); err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		found, err := t.listed(ctx, instance.ProviderID)
		if err == nil && found != nil {
			err = fmt.Errorf("ListInstances lists %s, which was deleted", instance.ProviderID)
		}
		return err
	})
}

// errOfYield is what the suite's own yield returns.
var errOfYield = errors.New("the suite wants no more")

func checkListYieldError(ctx context.Context, t *trial) error {
	if _, err := t.instance(ctx); err != nil {
		return err
	}
	calls := 0
	err := provider.CapabilitiesOf(t.Cloud).ListInstances(ctx, func([]provider.Instance) error { calls++; return errOfYield })
	if calls != 1 || !errors.Is(err, errOfYield) {
		t.sawf("ListInstances called yield %d times, which returned %q each time, and returned: %v", calls, errOfYield, err)
	}
	return nil
}
