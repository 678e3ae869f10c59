package conformance_test

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// wrongGroups changes what its methods are given, do, or return.
type wrongGroups struct {
	provider.NodeGroups
	list     func([]provider.NodeGroup) []provider.NodeGroup
	status   func(status provider.NodeGroupStatus, err error) (provider.NodeGroupStatus, error)
	template func(*v1.Node, error) (*v1.Node, error)
	increase func(right provider.NodeGroups, ctx context.Context, group string, delta int) error
	decrease func(right provider.NodeGroups, ctx context.Context, group string, delta int) error
	remove   func(right provider.NodeGroups, ctx context.Context, group string, ids []string) error
}

func (w wrongGroups) ListNodeGroups(ctx context.Context) ([]provider.NodeGroup, error) {
	all, err := w.NodeGroups.ListNodeGroups(ctx)
	if w.list != nil {
		all = w.list(all)
	}
	return all, err
}

func (w wrongGroups) NodeGroupStatus(ctx context.Context, group string) (provider.NodeGroupStatus, error) {
	status, err := w.NodeGroups.NodeGroupStatus(ctx, group)
	if w.status != nil {
		return w.status(status, err)
	}
	return status, err
}

func (w wrongGroups) NodeGroupTemplate(ctx context.Context, group string) (*v1.Node, error) {
	node, err := w.NodeGroups.NodeGroupTemplate(ctx, group)
	if w.template != nil {
		return w.template(node, err)
	}
	return node, err
}

func (w wrongGroups) IncreaseNodeGroup(ctx context.Context, group string, delta int) error {
	if w.increase != nil {
		return w.increase(w.NodeGroups, ctx, group, delta)
	}
	return w.NodeGroups.IncreaseNodeGroup(ctx, group, delta)
}

func (w wrongGroups) DecreaseNodeGroupTarget(ctx context.Context, group string, delta int) error {
	if w.decrease != nil {
		return w.decrease(w.NodeGroups, ctx, group, delta)
	}
	return w.NodeGroups.DecreaseNodeGroupTarget(ctx, group, delta)
}

func (w wrongGroups) DeleteNodeGroupInstances(ctx context.Context, group string, ids []string) error {
	if w.remove != nil {
		return w.remove(w.NodeGroups, ctx, group, ids)
	}
	return w.NodeGroups.DeleteNodeGroupInstances(ctx, group, ids)
}

// grouped returns a mutation of node groups.
func grouped(wrong func(*wrongGroups)) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			groups := wrongGroups{NodeGroups: c.NodeGroups}
			wrong(&groups)
			c.NodeGroups = groups
		}
	}
}

func nodeGroupMutations() []mutation {
	one := &v1.Node{}
	return []mutation{
		{"node-groups-list", "a group is listed twice", grouped(func(w *wrongGroups) {
			w.list = func(all []provider.NodeGroup) []provider.NodeGroup { return append(all, all[0]) }
		})},
		{"node-groups-list", "the minimum is above the maximum", grouped(func(w *wrongGroups) {
			w.list = func(all []provider.NodeGroup) []provider.NodeGroup { all[0].Min = all[0].Max + 1; return all }
		})},
		{"node-groups-list", "no group is listed", grouped(func(w *wrongGroups) {
			w.list = func([]provider.NodeGroup) []provider.NodeGroup { return nil }
		})},
		{"node-groups-unknown", "a group that does not exist is empty", grouped(func(w *wrongGroups) {
			w.status = func(status provider.NodeGroupStatus, _ error) (provider.NodeGroupStatus, error) { return status, nil }
		})},
		{"node-groups-template", "nothing is allocatable", grouped(func(w *wrongGroups) {
			w.template = func(node *v1.Node, err error) (*v1.Node, error) { node.Status.Allocatable = nil; return node, err }
		})},
		{"node-groups-template", "all callers share one node", grouped(func(w *wrongGroups) {
			w.template = func(node *v1.Node, err error) (*v1.Node, error) {
				if len(one.Labels) == 0 {
					*one = *node
				}
				return one, err
			}
		})},
		{"node-groups-increase", "two are made", grouped(func(w *wrongGroups) {
			w.increase = func(right provider.NodeGroups, ctx context.Context, group string, delta int) error {
				return right.IncreaseNodeGroup(ctx, group, delta+1)
			}
		})},
		{"node-groups-increase", "instances have the IDs of the cloud", grouped(func(w *wrongGroups) {
			w.status = func(status provider.NodeGroupStatus, err error) (provider.NodeGroupStatus, error) {
				for i := range status.Instances {
					status.Instances[i].ProviderID = status.Instances[i].ProviderID[len("sim://"):]
				}
				return status, err
			}
			w.remove = func(right provider.NodeGroups, ctx context.Context, group string, ids []string) error {
				for i := range ids {
					ids[i] = "sim://" + ids[i]
				}
				return right.DeleteNodeGroupInstances(ctx, group, ids)
			}
		})},
		{"node-groups-maximum", "as many are made as may be", grouped(func(w *wrongGroups) {
			w.increase = func(right provider.NodeGroups, ctx context.Context, group string, delta int) error {
				for range delta {
					if err := right.IncreaseNodeGroup(ctx, group, 1); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		{"node-groups-maximum", "what is too much is done in part, and no error", grouped(func(w *wrongGroups) {
			w.increase = func(right provider.NodeGroups, ctx context.Context, group string, delta int) error {
				_ = right.IncreaseNodeGroup(ctx, group, delta)
				return nil
			}
		})},
		{"node-groups-delete", "what is deleted is replaced", grouped(func(w *wrongGroups) {
			w.remove = func(right provider.NodeGroups, ctx context.Context, group string, ids []string) error {
				return errors.Join(right.DeleteNodeGroupInstances(ctx, group, ids), right.IncreaseNodeGroup(ctx, group, 1))
			}
		})},
		{"node-groups-delete", "another is deleted", grouped(func(w *wrongGroups) {
			w.remove = func(right provider.NodeGroups, ctx context.Context, group string, _ []string) error {
				status, err := right.NodeGroupStatus(ctx, group)
				if err != nil || len(status.Instances) == 0 {
					return err
				}
				return right.DeleteNodeGroupInstances(ctx, group, []string{status.Instances[0].ProviderID})
			}
		})},
		{"node-groups-delete-again", "what is gone is an error", func(m *mutant) {
			grouped(func(w *wrongGroups) {
				w.remove = func(right provider.NodeGroups, ctx context.Context, group string, ids []string) error {
					if m.count() == 2 {
						return errors.New("no such instance")
					}
					return right.DeleteNodeGroupInstances(ctx, group, ids)
				}
			})(m)
		}},
		{"node-groups-delete-foreign", "what is foreign is passed over", grouped(func(w *wrongGroups) {
			w.remove = func(right provider.NodeGroups, ctx context.Context, group string, ids []string) error {
				return right.DeleteNodeGroupInstances(ctx, group, ids[:1])
			}
		})},
		{"node-groups-delete-foreign", "what comes before what is foreign is deleted", grouped(func(w *wrongGroups) {
			w.remove = func(right provider.NodeGroups, ctx context.Context, group string, ids []string) error {
				for _, id := range ids {
					if err := right.DeleteNodeGroupInstances(ctx, group, []string{id}); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		{"node-groups-decrease", "what runs is deleted", grouped(func(w *wrongGroups) {
			w.decrease = func(right provider.NodeGroups, ctx context.Context, group string, delta int) error {
				status, err := right.NodeGroupStatus(ctx, group)
				if err != nil {
					return err
				}
				for _, instance := range status.Instances[:delta] {
					err = errors.Join(err, right.DeleteNodeGroupInstances(ctx, group, []string{instance.ProviderID}))
				}
				return err
			}
		})},
		{"node-groups-failure", "no answer is an empty group", grouped(func(w *wrongGroups) {
			w.status = func(status provider.NodeGroupStatus, _ error) (provider.NodeGroupStatus, error) { return status, nil }
		})},
		{"node-groups-failure", "an increase that failed is reported as made", func(m *mutant) {
			grouped(func(w *wrongGroups) {
				w.increase = func(right provider.NodeGroups, ctx context.Context, group string, delta int) error {
					_ = right.IncreaseNodeGroup(ctx, group, delta)
					return nil
				}
			})(m)
		}},
		{"node-groups-context", "no answer is an empty group", grouped(func(w *wrongGroups) {
			w.status = func(status provider.NodeGroupStatus, _ error) (provider.NodeGroupStatus, error) { return status, nil }
		})},
	}
}
