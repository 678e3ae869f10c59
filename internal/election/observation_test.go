package election

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func TestObservation(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record := func(holder string, renewed time.Time) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, RenewTime: metav1.NewTime(renewed)}
	}
	after := func(elapsed time.Duration) time.Time { return start.Add(elapsed) }
	type look struct {
		record *resourcelock.LeaderElectionRecord
		at     time.Duration
	}
	for name, test := range map[string]struct {
		looks []look
		now   time.Duration
		free  bool
	}{
		"held":                    {[]look{{record("other", start), 0}}, 14 * time.Second, false},
		"not renewed":             {[]look{{record("other", start), 0}, {record("other", start), 14 * time.Second}}, 15 * time.Second, true},
		"renewed meanwhile":       {[]look{{record("other", start), 0}, {record("other", after(9*time.Second)), 9 * time.Second}}, 23 * time.Second, false},
		"renewed, then not":       {[]look{{record("other", start), 0}, {record("other", after(9*time.Second)), 9 * time.Second}}, 24 * time.Second, true},
		"renewed within a second": {[]look{{record("other", start), 0}, {record("other", after(time.Millisecond)), 14 * time.Second}}, 28 * time.Second, false},
		"released":                {[]look{{record("other", start), 0}, {record("", start), time.Second}}, time.Second, true},
		"our own":                 {[]look{{record("us", start), 0}}, 0, true},
		"a holder whose clock is an hour behind, seen just now": {[]look{{record("other", after(-time.Hour)), 0}}, 14 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			var seen observation
			for _, look := range test.looks {
				seen.see(look.record, after(look.at))
			}
			if got := seen.freeFor("us", after(test.now)); got != test.free {
				t.Errorf("free = %v, want %v", got, test.free)
			}
		})
	}
}
