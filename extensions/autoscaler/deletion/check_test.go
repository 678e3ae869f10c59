package deletion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/provider"
)

// node is a node of an instance of the same name, with the autoscaler's taint.
func node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	made := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: "x://" + name, Taints: []corev1.Taint{{Key: deletion.Taint}}},
	}
	for _, edit := range edits {
		edit(made)
	}
	return made
}

// instance runs, and has a node of its name.
func instance(name string, edits ...func(*provider.NodeGroupInstance)) provider.NodeGroupInstance {
	made := provider.NodeGroupInstance{ProviderID: "x://" + name, NodeName: types.NodeName(name), State: provider.NodeGroupInstanceRunning}
	for _, edit := range edits {
		edit(&made)
	}
	return made
}

func failed(i *provider.NodeGroupInstance) {
	i.State, i.NodeName = provider.NodeGroupInstanceCreating, ""
	i.Error = &provider.NodeGroupInstanceError{Code: "quota"}
}

func deleting(i *provider.NodeGroupInstance) { i.State = provider.NodeGroupInstanceDeleting }

func bare(i *provider.NodeGroupInstance) { i.NodeName = "" }

// TestCheck has what is asked for held against the facts. The group is of a, b, c and d, of which d has no node, with a minimum of 2.
func TestCheck(t *testing.T) {
	named := func(names ...string) (asked []deletion.Asked) {
		for _, name := range names {
			asked = append(asked, deletion.Asked{Name: name, ProviderID: "x://" + name})
		}
		return asked
	}
	unregistered := func(name string) deletion.Asked {
		return deletion.Asked{Name: "x://" + name, ProviderID: "x://" + name}
	}
	for _, c := range []struct {
		name    string
		asked   []deletion.Asked
		change  func(*deletion.Facts)
		mark    string
		delete  string
		refused []string
	}{
		{name: "a node", asked: named("a"), mark: "a"},
		{name: "two, one of them twice", asked: named("a", "b", "a"), mark: "a b"},
		{name: "down to the minimum and beyond", asked: named("a", "b", "c"), refused: []string{"would have 1, and its minimum is 2"}},
		{name: "an instance without a node", asked: []deletion.Asked{unregistered("d")}, delete: "x://d"},
		{name: "both kinds", asked: append(named("a"), unregistered("d")), mark: "a", delete: "x://d"},
		{name: "an instance that is gone", asked: []deletion.Asked{unregistered("z")}},
		{name: "a node that is gone with its instance", asked: named("z")},
		{name: "a node that is gone without its instance", asked: named("d"), refused: []string{"the node does not exist"}},
		{name: "one that is asked for again", asked: named("a"), change: func(f *deletion.Facts) { f.Pending = map[string]types.NodeName{"x://a": "a"} }},
		{name: "one that is asked for again, and its taint is gone", asked: named("a"), change: func(f *deletion.Facts) {
			f.Pending = map[string]types.NodeName{"x://a": "a"}
			f.Nodes["a"].Spec.Taints = nil
		}, refused: []string{"does not carry the taint"}},
		{name: "one whose deletion was accepted", asked: named("a"), change: func(f *deletion.Facts) {
			f.Pending, f.Status.Instances = map[string]types.NodeName{"x://a": "a"}, f.Status.Instances[1:]
		}},
		{name: "one that is being deleted", asked: named("a"), change: func(f *deletion.Facts) { deleting(&f.Status.Instances[0]) }},
		{name: "what waits counts for the minimum", asked: named("a"), change: func(f *deletion.Facts) {
			f.Pending = map[string]types.NodeName{"x://b": "b", "x://c": "c"}
		}, refused: []string{"would have 1"}},
		{name: "what the cloud deletes already counts once", asked: named("a"), change: func(f *deletion.Facts) {
			f.Pending, f.Status.TargetSize = map[string]types.NodeName{"x://b": "b"}, 3
			deleting(&f.Status.Instances[1])
		}, mark: "a"},
		{name: "one that failed, at the minimum", asked: []deletion.Asked{unregistered("d")}, change: func(f *deletion.Facts) {
			f.Group.Min = 4
			failed(&f.Status.Instances[3])
		}, delete: "x://d"},
		{name: "one of the cloud's, but of no group", asked: named("e"), change: func(f *deletion.Facts) { f.Nodes["e"] = node("e") },
			refused: []string{`"e"`, "not in the group", "none that is known"}},
		{name: "one of another group, without a node", asked: []deletion.Asked{unregistered("o")}, refused: []string{`of the group "other"`}},
		{name: "a foreign one", asked: named("a"), change: func(f *deletion.Facts) { f.Ours = func(*corev1.Node) bool { return false } },
			refused: []string{"not a node of this cloud controller manager"}},
		{name: "one that has taken another's provider ID", asked: []deletion.Asked{{Name: "a", ProviderID: "x://b"}}, change: func(f *deletion.Facts) {
			f.Nodes["a"].Spec.ProviderID = "x://b"
			f.Holders["x://b"] = []string{"a", "b"}
		}, refused: []string{`belongs to the node "b"`}},
		{name: "one whose provider ID another has taken", asked: named("a"), change: func(f *deletion.Facts) {
			f.Holders["x://a"] = []string{"a", "thief"}
			bare(&f.Status.Instances[0])
		}, refused: []string{"other nodes have its provider ID: thief"}},
		{name: "everything at once", asked: append(named("a", "z"), deletion.Asked{Name: "b", ProviderID: "x://other"}, deletion.Asked{Name: "", ProviderID: "x://n"}, unregistered("o")),
			change:  func(f *deletion.Facts) { f.Nodes["a"].Spec.Taints = nil },
			refused: []string{`"a": it does not carry`, `"b": its provider ID is "x://b"`, "both are needed", `of the group "other"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			facts := deletion.Facts{
				Group:   provider.NodeGroup{ID: "group", Min: 2, Max: 9},
				Status:  provider.NodeGroupStatus{TargetSize: 4, Instances: []provider.NodeGroupInstance{instance("a"), instance("b"), instance("c"), instance("d", bare)}},
				Nodes:   map[string]*corev1.Node{"a": node("a"), "b": node("b"), "c": node("c")},
				Holders: map[string][]string{"x://a": {"a"}, "x://b": {"b"}, "x://c": {"c"}},
				Ours:    func(*corev1.Node) bool { return true },
				GroupOf: func(id string) string {
					return map[string]string{"x://o": "other", "x://a": "group", "x://b": "group", "x://c": "group", "x://d": "group"}[id]
				},
			}
			if c.change != nil {
				c.change(&facts)
			}
			plan, violations := deletion.Check(c.asked, facts)
			var marked []string
			for _, node := range plan.Mark {
				marked = append(marked, node.Name)
			}
			if strings.Join(marked, " ") != c.mark || strings.Join(plan.Delete, " ") != c.delete {
				t.Errorf("marked are %v, and deleted %v", marked, plan.Delete)
			}
			said := fmt.Sprint(violations)
			for _, want := range c.refused {
				if !strings.Contains(said, want) {
					t.Errorf("refused with %v, which does not say %q", said, want)
				}
			}
			if len(c.refused) == 0 && len(violations) > 0 {
				t.Errorf("refused with %v", said)
			}
		})
	}
}

// FuzzCheck has any request held against any state of a group. What is marked is tainted, ours and in the group; what is deleted at once has no
// node; and the group keeps its minimum of what has not failed.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{0, 1, 2}, []byte{1, 1, 1, 1, 1, 1, 1, 1}, uint8(1), uint8(4))
	f.Add([]byte{3, 3, 9}, []byte{2, 3, 4, 255, 6, 7, 8, 9}, uint8(0), uint8(2))
	f.Fuzz(func(t *testing.T, asking, shapes []byte, minimum, target uint8) {
		if len(asking) > 64 || len(shapes) > 64 {
			return // more of the same
		}
		facts := deletion.Facts{
			Group: provider.NodeGroup{ID: "group", Min: int(minimum)}, Status: provider.NodeGroupStatus{TargetSize: int(target)},
			Nodes: map[string]*corev1.Node{}, Holders: map[string][]string{}, Pending: map[string]types.NodeName{},
			Ours:    func(node *corev1.Node) bool { return !strings.HasPrefix(node.Labels["owner"], "other") },
			GroupOf: func(string) string { return "" },
		}
		for i, shape := range shapes {
			name := fmt.Sprint("n", i)
			one := node(name)
			if shape&1 != 0 {
				facts.Status.Instances = append(facts.Status.Instances, instance(name, func(i *provider.NodeGroupInstance) {
					i.State = provider.NodeGroupInstanceState(shape >> 6)
					if shape&32 != 0 {
						failed(i)
					}
				}))
			}
			if shape&2 != 0 {
				facts.Nodes[name], facts.Holders[one.Spec.ProviderID] = one, []string{name}
			}
			if shape&4 != 0 {
				one.Spec.Taints = nil
			}
			if shape&8 != 0 {
				one.Labels = map[string]string{"owner": "other"}
			}
			if shape&16 != 0 {
				facts.Pending[one.Spec.ProviderID] = types.NodeName(name)
			}
		}
		var asked []deletion.Asked
		for i, which := range asking {
			name := fmt.Sprint("n", which%64)
			asked = append(asked, deletion.Asked{Name: name, ProviderID: "x://" + name})
			switch i % 5 {
			case 3:
				asked[i].Name = asked[i].ProviderID
			case 4:
				asked[i].ProviderID = "x://n" + fmt.Sprint(which/2)
			}
		}
		plan, violations := deletion.Check(asked, facts)
		if len(violations) > 0 && len(plan.Mark)+len(plan.Delete) > 0 {
			t.Fatalf("refused with %v, and planned %v", violations, plan)
		}
		of := func(id string) *provider.NodeGroupInstance {
			i := slices.IndexFunc(facts.Status.Instances, func(i provider.NodeGroupInstance) bool { return i.ProviderID == id })
			if i < 0 {
				return nil
			}
			return &facts.Status.Instances[i]
		}
		healthy := 0
		for _, node := range plan.Mark {
			instance := of(node.Spec.ProviderID)
			if !deletion.Announced(node) || !facts.Ours(node) || instance == nil || facts.Nodes[node.Name] != node {
				t.Fatalf("%v is marked", node)
			}
			if instance.Error == nil {
				healthy++
			}
		}
		for _, id := range plan.Delete {
			instance := of(id)
			if instance == nil || len(facts.Holders[id]) > 0 {
				t.Fatalf("%s is deleted", id)
			}
			if instance.Error == nil {
				healthy++
			}
		}
		if size := deletion.TargetSize(facts.Status, facts.Pending); healthy > 0 && size-len(plan.Mark)-len(plan.Delete) < int(minimum) {
			t.Fatalf("%v of %d are planned to go, with a minimum of %d", plan, size, minimum)
		}
	})
}
