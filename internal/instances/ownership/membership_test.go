package ownership_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func TestMembership(t *testing.T) {
	rules := ownership.Rules{ProviderName: "sim"}
	all := []ownership.AnswerKind{ownership.NoAnswer, ownership.Inconclusive, ownership.Denied, ownership.Proven}
	undecided, outsider, presumed, member := ownership.Undecided, ownership.Outsider, ownership.Presumed, ownership.Member
	for name, test := range map[string]struct {
		node *corev1.Node
		want []ownership.Membership // in the order of all
	}{
		"ours by the scheme": {node("sim://1"), []ownership.Membership{member, member, member, member}},
		"ignored":            {node("sim://1", annotated("true")), []ownership.Membership{outsider, outsider, outsider, outsider}},
		"another scheme":     {node("aws://1"), []ownership.Membership{member, member, member, member}},
		"a bare ID":          {node("i-1"), []ownership.Membership{member, member, member, member}},
		"no provider ID":     {node(""), []ownership.Membership{presumed, presumed, presumed, member}},
		"no provider ID, waits to be initialized": {node("", tainted), []ownership.Membership{undecided, undecided, undecided, member}},
		"no provider ID, ignored":                 {node("", annotated("true")), []ownership.Membership{outsider, outsider, outsider, outsider}},
		"another scheme, waits to be initialized": {node("aws://1", tainted), []ownership.Membership{member, member, member, member}},
	} {
		t.Run(name, func(t *testing.T) {
			decision := rules.Decide(test.node)
			for i, answer := range all {
				if got := decision.Membership(answer); got != test.want[i] {
					t.Errorf("with an answer of kind %d it is %s, want %s", answer, got, test.want[i])
				}
			}
		})
	}
}

// known is memberships over a few nodes, at a time of their own.
type known struct {
	*ownership.Memberships
	now time.Time
}

func knowing(initial ...*corev1.Node) *known {
	k := &known{
		Memberships: ownership.NewMemberships(ownership.Rules{ProviderName: "sim"}, time.Hour),
		now:         time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
	k.see(initial...)
	return k
}

func (k *known) see(nodes ...*corev1.Node) {
	var list []corev1.Node
	for _, n := range nodes {
		list = append(list, *n)
	}
	k.Observe(list)
}

func (k *known) expect(t *testing.T, n *corev1.Node, want ownership.Membership, doubted bool) {
	t.Helper()
	if got := k.Of(n); got != want {
		t.Errorf("the node with the provider ID %q is %s, want %s", n.Spec.ProviderID, got, want)
	}
	if got := len(k.Doubtful([]*corev1.Node{n}, k.now)) > 0; got != doubted {
		t.Errorf("the node with the provider ID %q is to be asked about: %t, want %t", n.Spec.ProviderID, got, doubted)
	}
}

func TestMembershipsOutliveErrors(t *testing.T) {
	old, joining := node(""), node("", tainted)
	t.Run("a provider ID needs no answer", func(t *testing.T) {
		k := knowing()
		for _, id := range []string{"sim://1", "SIM:///1", "aws://1", "i-1"} {
			n := node(id)
			k.see(n)
			k.RecordAnswer(n, ownership.Answer{Denied: true}, k.now)
			k.expect(t, n, ownership.Member, false)
		}
	})
	t.Run("a proof", func(t *testing.T) {
		k := knowing(old)
		k.expect(t, old, ownership.Presumed, true)
		k.RecordAnswer(old, ownership.Answer{Found: true}, k.now)
		k.now = k.now.Add(24 * time.Hour)
		k.RecordError(old)
		k.RecordAnswer(old, ownership.Answer{Denied: true}, k.now) // it has ended
		k.expect(t, old, ownership.Member, false)
	})
	t.Run("a denial", func(t *testing.T) {
		k := knowing(old)
		k.RecordAnswer(old, ownership.Answer{Denied: true}, k.now)
		k.expect(t, old, ownership.Presumed, false)
	})
	t.Run("a member that gets the uninitialized taint again", func(t *testing.T) {
		k := knowing(old)
		k.expect(t, old, ownership.Presumed, true)
		k.RecordError(joining)
		k.expect(t, joining, ownership.Presumed, true)
	})
	t.Run("never initialized", func(t *testing.T) {
		k := knowing()
		k.see(joining)
		k.expect(t, joining, ownership.Undecided, true)
		k.RecordError(joining)
		k.expect(t, joining, ownership.Undecided, true)
	})
	t.Run("another node of the name", func(t *testing.T) {
		k := knowing(old)
		k.RecordAnswer(old, ownership.Answer{Found: true}, k.now)
		other := joining.DeepCopy()
		other.UID = types.UID("another")
		k.see(other)
		k.expect(t, other, ownership.Undecided, true)
		k.expect(t, old, ownership.Presumed, true) // what is gone is forgotten
	})
}

// Whatever is said of other nodes, and in whatever order, leaves a node what it is, unless it proves the node's scheme.
func TestMembershipsDoNotDependOnOtherNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"sim://1", "aws://2", "gce://3", "i-4", ""}
		nodes := make([]*corev1.Node, len(ids))
		for i, id := range ids {
			nodes[i] = node(id, func(n *corev1.Node) { n.UID = types.UID(id) })
		}
		together, alone := knowing(nodes...), make([]*known, len(nodes))
		for i := range nodes {
			alone[i] = knowing(nodes[i])
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			i := rapid.IntRange(0, len(nodes)-1).Draw(t, "node")
			answer := rapid.SampledFrom([]ownership.Answer{{}, {Denied: true}, {Found: true, ProviderID: ids[i]}, {Found: true, ProviderID: "sim://9"}}).Draw(t, "answer")
			fails := rapid.Bool().Draw(t, "fails")
			for _, k := range []*known{together, alone[i]} {
				if fails {
					k.RecordError(nodes[i])
				} else {
					k.RecordAnswer(nodes[i], answer, k.now)
				}
			}
			for j := range nodes {
				if got, want := together.Of(nodes[j]), alone[j].Of(nodes[j]); got != want {
					t.Fatalf("the node with the provider ID %q is %s beside the others, and %s alone", ids[j], got, want)
				}
			}
		}
	})
}
