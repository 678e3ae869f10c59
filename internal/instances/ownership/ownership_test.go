package ownership_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

func node(providerID string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func annotated(value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{ownership.AnnotationIgnore: value} }
}

func labeled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{key: value} }
}

func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
}

func TestDecide(t *testing.T) {
	plain := ownership.Rules{ProviderName: "sim"}
	declared := ownership.Rules{ProviderName: "sim", Schemes: []string{"cloud", "robot"}}
	selecting := ownership.Rules{ProviderName: "sim", Selector: labels.SelectorFromSet(labels.Set{"pool": "a"})}

	bare := ownership.Rules{ProviderName: "sim", Schemes: []string{"cloud", ownership.BareIDs}}
	onlyBare := ownership.Rules{ProviderName: "sim", Schemes: []string{ownership.BareIDs}}

	tests := []struct {
		name  string
		rules ownership.Rules
		node  *corev1.Node
		want  ownership.Owner
	}{
		{"the provider's name is its scheme", plain, node("sim://1"), ownership.Ours},
		{"a scheme with an empty host", plain, node("sim:///zone/1"), ownership.Ours},
		{"another scheme, none declared", plain, node("aws:///z/i-1"), ownership.Ours},
		{"another spelling, none declared", plain, node("SIM://1"), ownership.Ours},
		{"an ID without scheme, none declared", plain, node("i-1"), ownership.Ours},
		{"declared schemes", declared, node("robot://1"), ownership.Ours},
		{"declared schemes, spelled otherwise", declared, node("ROBOT://1"), ownership.Ours},
		{"a declaration replaces the provider's name", declared, node("sim://1"), ownership.Foreign},
		{"another scheme, some declared", declared, node("aws:///z/i-1"), ownership.Foreign},
		{"no provider ID", declared, node(""), ownership.Unproven},
		{"an ID without scheme, schemes declared", declared, node("i-1"), ownership.Foreign},
		{"an ID with an empty scheme, schemes declared", declared, node("://i-1"), ownership.Foreign},
		{"an ID without scheme, declared", bare, node("i-1"), ownership.Ours},
		{"an ID with an empty scheme, declared", bare, node("://i-1"), ownership.Ours},
		{"a scheme beside IDs without", bare, node("cloud://1"), ownership.Ours},
		{"another scheme than those and none", bare, node("sim://1"), ownership.Foreign},
		{"an ID without scheme, and only those declared", onlyBare, node("i-1"), ownership.Ours},
		{"the provider's name, and only IDs without scheme declared", onlyBare, node("sim://1"), ownership.Foreign},
		{"no provider ID, and IDs without scheme declared", onlyBare, node(""), ownership.Unproven},
		{"an ID without scheme, declared, ignored", bare, node("i-1", annotated("true")), ownership.Foreign},
		{"ignored", plain, node("sim://1", annotated("true")), ownership.Foreign},
		{"ignored, spelled otherwise", plain, node("sim://1", annotated("True")), ownership.Foreign},
		{"explicitly not ignored", plain, node("sim://1", annotated("false")), ownership.Ours},
		{"an annotation that is no boolean", plain, node("sim://1", annotated("please")), ownership.Ours},
		{"selected", selecting, node("sim://1", labeled("pool", "a")), ownership.Ours},
		{"not selected", selecting, node("sim://1", labeled("pool", "b")), ownership.Foreign},
		{"not selected, without provider ID", selecting, node("", tainted), ownership.Foreign},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.rules.Decide(test.node)
			if got.Owner != test.want {
				t.Errorf("owner %s (%s), want %s", got.Owner, got.Reason(), test.want)
			}
			if got.Reason() == "" {
				t.Error("the decision has no reason")
			}
		})
	}
}

func TestProvenBy(t *testing.T) {
	rules := ownership.Rules{ProviderName: "sim"}
	tests := []struct {
		name     string
		node     *corev1.Node
		answered string
		want     bool
	}{
		{"the same provider ID", node("robot://1"), "robot://1", true},
		{"another spelling", node("robot://1"), "ROBOT://1", true},
		{"no provider ID in the answer", node("robot://1"), "", true},
		{"a bare ID, another", node("i-1"), "sim://1", true},
		{"a node to be initialized, found", node("", tainted), "sim://1", true},
		{"a node to be initialized, in a cloud without provider IDs", node("", tainted), "", true},
		{"a node of no cloud that shares a name", node(""), "sim://1", false},
		{"an initialized node of a cloud without provider IDs", node(""), "", true},
		{"foreign, the same provider ID", node("sim://1", annotated("true")), "sim://1", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			decision := rules.Decide(test.node)
			if got := decision.ProvenBy(test.answered); got != test.want {
				t.Errorf("ProvenBy(%q) = %t for a node that is %s, want %t", test.answered, got, decision.Owner, test.want)
			}
		})
	}
}

func TestNamesUnknownProvider(t *testing.T) {
	rules := ownership.Rules{ProviderName: "sim"}
	for providerID, want := range map[string]bool{"aws://1": true, "sim://1": false, "i-1": false, "": false} {
		if got := rules.Decide(node(providerID)).NamesUnknownProvider(); got != want {
			t.Errorf("provider ID %q: NamesUnknownProvider() = %t, want %t", providerID, got, want)
		}
	}
}

// A foreign node is never proven, whatever the plugin answers, and a declared set of schemes leaves no scheme in doubt.
func TestDecisionsHoldForAnyNode(t *testing.T) {
	scheme := rapid.SampledFrom([]string{"", "sim", "aws", "robot"})
	rapid.Check(t, func(t *rapid.T) {
		declared := rapid.SliceOf(rapid.SampledFrom([]string{"sim", "robot"})).Draw(t, "declared")
		rules := ownership.Rules{ProviderName: "sim", Schemes: declared}
		id := rapid.SampledFrom([]string{"", "1", "zone/1"}).Draw(t, "id")
		if s := scheme.Draw(t, "scheme"); s != "" {
			id = s + "://" + id
		}
		n := node(id, annotated(rapid.SampledFrom([]string{"", "true", "false"}).Draw(t, "ignore")))
		if rapid.Bool().Draw(t, "tainted") {
			tainted(n)
		}
		answered := rapid.SampledFrom([]string{"", id, "sim://2", "aws://2"}).Draw(t, "answered")

		decision := rules.Decide(n)
		if decision.Owner == ownership.Foreign && decision.ProvenBy(answered) {
			t.Fatalf("a foreign node was proven by %q", answered)
		}
		if (decision.Owner == ownership.Unproven) != (id == "") && decision.Owner != ownership.Foreign {
			t.Fatalf("a node with the provider ID %q is %s", id, decision.Owner)
		}
		if decision.Owner == ownership.Ours && id == "" {
			t.Fatal("a node without provider ID is ours without being asked for")
		}
	})
}
