package node

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// An update writes what the patch would have written, by the library with which the API server applies it.
func TestUpdatesAreWhatThePatchesMake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node, _, planned := drawPlan(t)
		before := node.DeepCopy()
		for _, one := range planned.writes {
			want, err := patched(node, plan{writes: []write{one}})
			if err != nil {
				t.Fatalf("the plan does not fit its own node: %v", err)
			}
			if one.target == targetNode {
				want.Status = corev1.NodeStatus{}
			}
			if diff := cmp.Diff(want, planned.updated(one.target), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("an update differs from the patch %v (-patch +update):\n%s", one.patch, diff)
			}
		}
		if diff := cmp.Diff(before, node); diff != "" {
			t.Fatalf("the node in the cache was changed:\n%s", diff)
		}
	})
}

// writes counts what a manager writes, by its kind.
type writes struct {
	all []string
	// answers are errors for kinds of writes.
	answers map[string]error
}

func (w *writes) note(kind string) error {
	w.all = append(w.all, kind)
	return w.answers[kind]
}

func (w *writes) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := w.note("update"); err != nil {
				return err
			}
			// Unlike the API server, the fake takes the status of an update by the way.
			live := &corev1.Node{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
				return err
			}
			object.(*corev1.Node).Status = live.Status
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := w.note("patch"); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if err := w.note("update " + sub); err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := w.note("patch " + sub); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
	}
}

// joining is a cluster with one node that waits and that the cache holds whole.
func joining(answers map[string]error, whole func(*corev1.Node) bool) (*small, *writes) {
	w := &writes{answers: answers}
	s := newSmall(w.funcs(), newNode(withTaints(otherTaint, cloudTaint), withLabels("a", "1"), withAddresses(hostName("node0"))))
	s.writer.whole = whole
	s.cloud.show = []provider.Instance{instance("sim://0", "node0", "a", internalIP("10.0.0.1"))}
	return s, w
}

func TestANodeThatIsKnownWholeIsUpdated(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	forbidden := apierrors.NewForbidden(nodes, "node0", errors.New("no"))
	conflict := apierrors.NewConflict(nodes, "node0", errors.New("changed"))
	for name, test := range map[string]struct {
		answers map[string]error
		whole   func(*corev1.Node) bool
		want    []string
		waits   bool
	}{
		"whole":          {nil, ownership.Uninitialized, []string{"update status", "update"}, false},
		"not whole":      {nil, func(*corev1.Node) bool { return false }, []string{"patch status", "patch"}, false},
		"not known":      {nil, nil, []string{"patch status", "patch"}, false},
		"changed before": {map[string]error{"update status": conflict}, ownership.Uninitialized, []string{"update status", "patch status", "patch"}, false},
		"changed between": {
			map[string]error{"update": conflict}, ownership.Uninitialized, []string{"update status", "update", "patch"}, false,
		},
		"may not update": {
			map[string]error{"update status": forbidden, "update": forbidden}, ownership.Uninitialized, []string{"update status", "patch status", "patch"}, false,
		},
		"addresses refused": {
			map[string]error{"update status": forbidden, "patch status": forbidden}, ownership.Uninitialized,
			[]string{"update status", "patch status", "patch"}, false,
		},
		"overloaded": {map[string]error{"update status": apierrors.NewTooManyRequests("x", 1)}, ownership.Uninitialized, []string{"update status"}, true},
		"no answer":  {map[string]error{"update": context.DeadlineExceeded}, ownership.Uninitialized, []string{"update status", "update"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := joining(test.answers, test.whole)
			node, _ := s.pass(t, "node0")
			if !slices.Equal(w.all, test.want) {
				t.Errorf("writes %q, want %q", w.all, test.want)
			}
			if ownership.Uninitialized(node) != test.waits {
				t.Errorf("the node is %+v, and waits: %t", node.Spec, test.waits)
			}
			if !test.waits && (node.Spec.ProviderID != "sim://0" || node.Labels["a"] != "1" || !slices.Equal(node.Spec.Taints, []corev1.Taint{otherTaint})) {
				t.Errorf("the node is %+v with the labels %v", node.Spec, node.Labels)
			}
		})
	}
}

// A kubelet reports while the cloud takes its time. The write is for the node as it is by then.
func TestAHeartbeatDuringTheQuestionIsNoConflict(t *testing.T) {
	s, w := joining(nil, ownership.Uninitialized)
	s.cloud.asked = func() {
		node := s.node(t, "node0")
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := s.Status().Update(t.Context(), node); err != nil {
			t.Error(err)
		}
		w.all = nil
	}
	if node, _ := s.pass(t, "node0"); ownership.Uninitialized(node) || len(node.Status.Conditions) != 1 || len(node.Status.Addresses) != 2 {
		t.Errorf("the node is %+v with %+v", node.Spec, node.Status)
	}
	if want := []string{"update status", "update"}; !slices.Equal(w.all, want) {
		t.Errorf("writes %q, want %q", w.all, want)
	}
}

// Another writer takes the taint while the cloud is asked. As with the reference, the node gets what the cloud said of it all the same, also where
// the cache shows the change only after the write met it.
func TestATaintTakenWhileTheCloudIsAsked(t *testing.T) {
	for name, behind := range map[string]bool{"the cache shows it": false, "the cache is behind": true} {
		t.Run(name, func(t *testing.T) {
			s, w := joining(map[string]error{}, ownership.Uninitialized)
			if behind { // the patch tests the taint
				w.answers["patch"] = apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node0", errors.New("the taint is not there"))
			}
			reader := &delayedReader{Reader: s.reader}
			s.reader = reader
			s.cloud.asked = func() {
				node := s.node(t, "node0")
				if behind {
					reader.shows = node.DeepCopy()
				}
				node.Spec.Taints = []corev1.Taint{otherTaint}
				if err := s.Update(t.Context(), node); err != nil {
					t.Error(err)
				}
			}
			node, _ := s.pass(t, "node0")
			if behind {
				if node.Spec.ProviderID != "" {
					t.Fatal("the write took effect although it met a change")
				}
				reader.shows, s.cloud.asked = nil, nil
				delete(w.answers, "patch")
				node, _ = s.pass(t, "node0")
			}
			if node.Spec.ProviderID != "sim://0" || len(node.Status.Addresses) != 2 || node.Labels[corev1.LabelTopologyZone] != "a" {
				t.Errorf("provider ID %q, addresses %v, labels %v; want those of the cloud", node.Spec.ProviderID, node.Status.Addresses, node.Labels)
			}
			if len(node.Spec.Taints) != 1 {
				t.Errorf("taints %v, want the other one alone", node.Spec.Taints)
			}
		})
	}
}

// delayedReader is a cache that shows an older node, if it has one.
type delayedReader struct {
	client.Reader
	shows *corev1.Node
}

func (r *delayedReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if r.shows != nil {
		r.shows.DeepCopyInto(object.(*corev1.Node))
		return nil
	}
	return r.Reader.Get(ctx, key, object, options...)
}
