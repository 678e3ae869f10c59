package cloud

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

// groups are node groups of which some misbehave.
type groups struct{ provider.NodeGroups }

func (groups) ListNodeGroups(context.Context) ([]provider.NodeGroup, error) {
	return []provider.NodeGroup{{ID: "good"}, {ID: "hangs"}, {ID: "panics"}}, nil
}

func (groups) NodeGroupStatus(_ context.Context, group string) (provider.NodeGroupStatus, error) {
	return provider.NodeGroupStatus{TargetSize: 3}, misbehave(group)
}

func (groups) NodeGroupTemplate(_ context.Context, group string) (*v1.Node, error) {
	return &v1.Node{}, misbehave(group)
}

func (groups) IncreaseNodeGroup(_ context.Context, group string, _ int) error {
	return misbehave(group)
}

func (groups) DecreaseNodeGroupTarget(_ context.Context, group string, _ int) error {
	return misbehave(group)
}

func (groups) DeleteNodeGroupInstances(_ context.Context, group string, _ []string) error {
	return misbehave(group)
}

func misbehave(group string) error {
	switch group {
	case "hangs":
		time.Sleep(48 * time.Hour) // deaf to its context
	case "panics":
		panic("in the plugin")
	case "refused":
		return errors.New("429 Too Many Requests")
	}
	return nil
}

// Every method of node groups goes through the client: it is counted, its panic is an error, and while it hangs for one group
// it serves another.
func TestNodeGroups(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, groups provider.NodeGroups, group string) error{
		"NodeGroupStatus": func(ctx context.Context, groups provider.NodeGroups, group string) error {
			status, err := groups.NodeGroupStatus(ctx, group)
			if err == nil && status.TargetSize != 3 {
				return errors.New("the status was lost")
			}
			return err
		},
		"NodeGroupTemplate": func(ctx context.Context, groups provider.NodeGroups, group string) error {
			_, err := groups.NodeGroupTemplate(ctx, group)
			return err
		},
		"IncreaseNodeGroup": func(ctx context.Context, groups provider.NodeGroups, group string) error {
			return groups.IncreaseNodeGroup(ctx, group, 1)
		},
		"DecreaseNodeGroupTarget": func(ctx context.Context, groups provider.NodeGroups, group string) error {
			return groups.DecreaseNodeGroupTarget(ctx, group, 1)
		},
		"DeleteNodeGroupInstances": func(ctx context.Context, groups provider.NodeGroups, group string) error {
			return groups.DeleteNodeGroupInstances(ctx, group, []string{"x://1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				behind := Decorate(&declared{capabilities: provider.Capabilities{NodeGroups: groups{}}}, Options{})
				decorated := provider.CapabilitiesOf(behind).NodeGroups
				hung := make(chan error, 1)
				go func() { hung <- call(t.Context(), decorated, "hangs") }()
				synctest.Wait()
				if err := call(t.Context(), decorated, "good"); err != nil {
					t.Errorf("another group, while one hangs: %v", err)
				}
				var panicked *guard.PanicError
				if err := call(t.Context(), decorated, "panics"); !errors.As(err, &panicked) {
					t.Errorf("a panic is the error %v", err)
				}
				if err := call(t.Context(), decorated, "refused"); !provider.IsThrottled(err) {
					t.Errorf("a refusal is the error %v", err)
				}
				if err := <-hung; !errors.Is(err, classify.ErrStillRunning) {
					t.Errorf("a call that hangs returned %v", err)
				}
				time.Sleep(72 * time.Hour) // until it is back
				if n := counted(behind, name, classify.OutcomeOK); n != 1 {
					t.Errorf("%v calls were counted as ok", n)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		behind := Decorate(&declared{capabilities: provider.Capabilities{NodeGroups: groups{}}}, Options{})
		if all, err := provider.CapabilitiesOf(behind).NodeGroups.ListNodeGroups(t.Context()); len(all) != 3 || err != nil || counted(behind, "ListNodeGroups", classify.OutcomeOK) != 1 {
			t.Errorf("%v %v", all, err)
		}
	})
	if none := provider.CapabilitiesOf(Decorate(&declared{}, Options{})); none.NodeGroups != nil {
		t.Error("a provider without node groups has some behind the client")
	}
}

// Every method of provider.NodeGroups is one that the client knows, so none has the zero operation.
func TestNodeGroupOperations(t *testing.T) {
	methods := reflect.TypeFor[provider.NodeGroups]()
	for i := range methods.NumMethod() {
		if admission.Operations[methods.Method(i).Name].Group != admission.GroupInstances {
			t.Errorf("%s is no operation", methods.Method(i).Name)
		}
	}
}
