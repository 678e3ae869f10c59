package ownership

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzRecord puts arbitrary text where we record that a node was proven to be ours. Only our own record of this provider and this node is accepted,
// and it is what we would write.
func FuzzRecord(f *testing.F) {
	for _, record := range []string{
		"", "{", "null", "[]", `{"provider":"sim","providerID":"sim://1"}`, `{"provider":"other","providerID":"sim://1"}`, `{"provider":"sim","providerID":"sim://2"}`,
		`{"provider":"sim","providerID":"sim://1","x":[[[]]]}`, `{"PROVIDER":"sim","ProviderID":"sim://1"}`, `{"provider":1}`, strings.Repeat("[", 10_000),
	} {
		f.Add(record, "sim://1")
		f.Add(record, "")
		f.Add(record, "\xff")
	}
	rules := Rules{ProviderName: "sim"}
	f.Fuzz(func(t *testing.T, record, providerID string) {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{AnnotationProven: record}}, Spec: corev1.NodeSpec{ProviderID: providerID},
		}
		if rules.recorded(node) && (providerID == "" || !strings.Contains(record, "sim")) {
			t.Errorf("%q is taken for a record of the node %q", record, providerID)
		}
		node.Annotations[AnnotationProven] = rules.Record(providerID, providerID)
		if written := node.Annotations[AnnotationProven]; written != "" && strings.ToValidUTF8(providerID, "") == providerID && !rules.recorded(node) {
			t.Errorf("our own record %q of the node %q is not taken", written, providerID)
		}
		node.Spec.ProviderID += "x"
		if rules.recorded(node) {
			t.Errorf("the record of %q is taken for another node", providerID)
		}
	})
}
