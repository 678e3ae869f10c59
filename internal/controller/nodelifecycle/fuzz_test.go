package nodelifecycle

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// FuzzDeletionLog puts arbitrary text where deletions are recorded. The controller reads a record without deletions in the future, or returns an
// error that says what to do. The limit never works without its record.
func FuzzDeletionLog(f *testing.F) {
	at := today.Add(-time.Minute).Format(time.RFC3339)
	for _, noted := range []string{
		"", "[]", "null", "{}", `[{"at":"` + at + `","count":3}]`, `[{"at":"9999-01-01T00:00:00Z","count":1}]`, `[{"count":-1}]`, `[{"at":"x"}]`, "[null]",
		`[{"at":"` + at + `","count":99999999999999999999}]`, strings.Repeat("[", 10000), "\x1b[2J", `[{"count":9223372036854775807},{"count":9223372036854775807}]`,
	} {
		f.Add(noted)
	}
	f.Fuzz(func(t *testing.T, noted string) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "deletions", Annotations: map[string]string{annotationDeletions: noted},
		}}
		log := &DeletionLog{Leases: fake.NewClientset(lease).CoordinationV1(), Namespace: "kube-system", Name: "deletions"}
		spent, err := log.read(t.Context(), today)
		if err != nil {
			if text := err.Error(); len(text) > 1000 || !strings.Contains(text, "remove the Lease") || spent != nil {
				t.Errorf("%d bytes: %.500s", len(text), text)
			}
			return
		}
		for _, one := range spent {
			if one.At.After(today) {
				t.Errorf("deletions at %s, after %s", one.At, today)
			}
			if one.Count < 0 {
				t.Errorf("%d deletions", one.Count)
			}
		}
		if used := total(recent(spent, testSettings(), today)); used < 0 {
			t.Errorf("%d deletions count", used)
		}
	})
}
