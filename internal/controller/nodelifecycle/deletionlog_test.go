package nodelifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"
)

// What a clock that was ahead has noted counts for the window and no longer, however many leaders read it.
func TestDeletionsNotedByAClockThatWasAhead(t *testing.T) {
	leases := fake.NewClientset().CoordinationV1()
	leader := func() *DeletionLog { return &DeletionLog{Leases: leases, Namespace: "kube-system", Name: "deletions"} }
	honest := spending{At: today.Add(-time.Minute), Count: 1}
	if err := leader().write(t.Context(), []spending{honest, {At: today.Add(5 * time.Hour), Count: 3}}, today); err != nil {
		t.Fatal(err)
	}
	want := []spending{honest, {At: today, Count: 3}}
	for restart := range 4 {
		now := today.Add(time.Duration(restart) * 4 * time.Minute)
		spent, err := leader().read(t.Context(), now)
		if diff := cmp.Diff(want, spent); err != nil || diff != "" {
			t.Errorf("after %s, error %v (-want +got):\n%s", now.Sub(today), err, diff)
		}
		if left := total(recent(spent, testSettings(), now)); (left > 0) != (restart < 3) {
			t.Errorf("after %s %d deletions count", now.Sub(today), left)
		}
	}
}

func TestAClockThatIsPutBackProlongsNothing(t *testing.T) {
	settings := testSettings()
	remembered := guard{spent: []spending{{At: today.Add(time.Hour), Count: 2}}}
	for _, pass := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {10 * time.Minute, 2}, {11 * time.Minute, 0}} {
		var planned plan
		planned, remembered = decide(nil, nil, remembered, settings, today.Add(pass.after))
		if planned.spent != pass.want {
			t.Errorf("after %s %d deletions count, want %d", pass.after, planned.spent, pass.want)
		}
	}
}
