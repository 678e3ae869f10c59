package ownership_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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
		name   string
		rules  ownership.Rules
		node   *corev1.Node
		proven []string
		want   ownership.Owner
	}{
		{"the provider's name is its scheme", plain, node("sim://1"), nil, ownership.Ours},
		{"a scheme with an empty host", plain, node("sim:///zone/1"), nil, ownership.Ours},
		{"another scheme, none declared", plain, node("aws:///z/i-1"), nil, ownership.Unproven},
		{"another scheme, proven", plain, node("aws:///z/i-1"), []string{"aws"}, ownership.Ours},
		{"schemes are compared exactly", plain, node("SIM://1"), nil, ownership.Unproven},
		{"declared schemes", declared, node("robot://1"), nil, ownership.Ours},
		{"a declaration replaces the provider's name", declared, node("sim://1"), nil, ownership.Foreign},
		{"another scheme, some declared", declared, node("aws:///z/i-1"), nil, ownership.Foreign},
		{"evidence does not overrule a declaration", declared, node("aws:///z/i-1"), []string{"aws"}, ownership.Foreign},
		{"no provider ID", declared, node(""), nil, ownership.Unproven},
		{"an ID without scheme", declared, node("i-1"), nil, ownership.Unproven},
		{"an ID with an empty scheme", declared, node("://i-1"), nil, ownership.Unproven},
		{"an ID without scheme, declared", bare, node("i-1"), nil, ownership.Ours},
		{"an ID with an empty scheme, declared", bare, node("://i-1"), nil, ownership.Ours},
		{"a scheme beside IDs without", bare, node("cloud://1"), nil, ownership.Ours},
		{"another scheme than those and none", bare, node("sim://1"), nil, ownership.Foreign},
		{"an ID without scheme, and only those declared", onlyBare, node("i-1"), nil, ownership.Ours},
		{"the provider's name, and only IDs without scheme declared", onlyBare, node("sim://1"), nil, ownership.Foreign},
		{"no provider ID, and IDs without scheme declared", onlyBare, node(""), nil, ownership.Unproven},
		{"an ID without scheme, declared, ignored", bare, node("i-1", annotated("true")), nil, ownership.Foreign},
		{"ignored", plain, node("sim://1", annotated("true")), nil, ownership.Foreign},
		{"ignored, spelled otherwise", plain, node("sim://1", annotated("True")), nil, ownership.Foreign},
		{"explicitly not ignored", plain, node("sim://1", annotated("false")), nil, ownership.Ours},
		{"an annotation that is no boolean", plain, node("sim://1", annotated("please")), nil, ownership.Ours},
		{"selected", selecting, node("sim://1", labeled("pool", "a")), nil, ownership.Ours},
		{"not selected", selecting, node("sim://1", labeled("pool", "b")), nil, ownership.Foreign},
		{"not selected, without provider ID", selecting, node("", tainted), nil, ownership.Foreign},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			proven := func(scheme string) bool { return slices.Contains(test.proven, scheme) }
			got := test.rules.Decide(test.node, proven)
			if got.Owner != test.want {
				t.Errorf("owner %s (%s), want %s", got.Owner, got.Reason, test.want)
			}
			if got.Reason == "" {
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
		{"another provider ID", node("robot://1"), "sim://1", false},
		{"no provider ID in the answer", node("robot://1"), "", false},
		{"a bare ID, the same", node("i-1"), "i-1", true},
		{"a bare ID, none in the answer", node("i-1"), "", true},
		{"a bare ID, another", node("i-1"), "sim://1", false},
		{"a node to be initialized, found", node("", tainted), "sim://1", true},
		{"a node to be initialized, in a cloud without provider IDs", node("", tainted), "", true},
		{"a node of no cloud that shares a name", node(""), "sim://1", false},
		{"an initialized node of a cloud without provider IDs", node(""), "", true},
		{"ours already, another provider ID", node("sim://1"), "sim:///zone/1", true},
		{"foreign, the same provider ID", node("sim://1", annotated("true")), "sim://1", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			decision := rules.Decide(test.node, nil)
			if got := decision.ProvenBy(test.answered); got != test.want {
				t.Errorf("ProvenBy(%q) = %t for a node that is %s, want %t", test.answered, got, decision.Owner, test.want)
			}
		})
	}
}

func TestNamesUnknownProvider(t *testing.T) {
	rules := ownership.Rules{ProviderName: "sim"}
	for providerID, want := range map[string]bool{"aws://1": true, "sim://1": false, "i-1": false, "": false} {
		if got := rules.Decide(node(providerID), nil).NamesUnknownProvider(); got != want {
			t.Errorf("provider ID %q: NamesUnknownProvider() = %t, want %t", providerID, got, want)
		}
	}
}

func TestEvidence(t *testing.T) {
	var evidence ownership.Evidence
	if evidence.Proven("robot") {
		t.Error("a scheme is proven without evidence")
	}
	now := time.Now()
	evidence.Record(node("robot://1"), "robot://1", now)
	evidence.Record(node("robot://2"), "robot://2", now)
	evidence.Record(node("aws://1"), "aws://2", now)
	evidence.Record(node("i-1"), "i-1", now)
	evidence.Record(node(""), "", now)
	if !evidence.Proven("robot") || evidence.Proven("i-1") || evidence.Proven("") || evidence.Proven("aws") {
		t.Error("want exactly the scheme robot proven")
	}
	if !evidence.ProvenNode(node("i-1")) || evidence.ProvenNode(node("i-2")) || evidence.ProvenNode(node("")) {
		t.Error("of nodes whose provider IDs have no scheme, want exactly the one proven that was answered for")
	}
	nobody := func(types.UID) bool { return false }
	if evidence.Forget(nobody, now.Add(time.Second)); !evidence.ProvenNode(node("i-1")) {
		t.Error("a node was forgotten by a list that may be from before it came")
	}
	if evidence.Forget(nobody, now.Add(time.Hour)); evidence.ProvenNode(node("i-1")) || !evidence.Proven("robot") {
		t.Error("want nodes that are gone to be forgotten, and nothing else")
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

		decision := rules.Decide(n, nil)
		if decision.Owner == ownership.Foreign && decision.ProvenBy(answered) {
			t.Fatalf("a foreign node was proven by %q", answered)
		}
		if _, has := ownership.Scheme(id); has && len(rules.Schemes) > 0 && decision.Owner == ownership.Unproven {
			t.Fatalf("the scheme of %q is in doubt although %q are declared", id, rules.Schemes)
		}
		if decision.Owner == ownership.Ours && id == "" {
			t.Fatal("a node without provider ID is ours without being asked for")
		}
	})
}
