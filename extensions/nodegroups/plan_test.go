package nodegroups

import (
	"strings"
	"testing"
	"time"
)

// TestDecide is the table of what is done about a node, with load balancers waited for a minute.
func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name  string
		known facts
		want  decision
		late  string
	}{
		{name: "no load balancer has it", known: facts{announced: true, asked: ago(time.Second), targets: targetOfNone}, want: decision{kind: remove}},
		{name: "some have it", known: facts{announced: true, asked: ago(time.Second), targets: targetOf}, want: decision{after: lookAgain}},
		{name: "some have it, almost to the end", known: facts{announced: true, asked: ago(59 * time.Second), targets: targetOf}, want: decision{after: time.Second}},
		{name: "some have it for too long", known: facts{announced: true, asked: ago(time.Minute), targets: targetOf, balancers: []string{"default/web"}},
			want: decision{kind: remove}, late: "default/web"},
		{name: "the list fails", known: facts{announced: true, asked: ago(31 * time.Second), targets: targetNotListed}, want: decision{after: lookAgain}},
		{name: "the list fails for too long", known: facts{announced: true, asked: ago(time.Minute), targets: targetNotListed}, want: decision{kind: remove}, late: "could not be listed"},
		{name: "there is no list", known: facts{announced: true, asked: ago(29 * time.Second), targets: targetUnknown}, want: decision{after: time.Second}},
		{name: "there is no list, half of the time later", known: facts{announced: true, asked: ago(30 * time.Second), targets: targetUnknown}, want: decision{kind: remove}},
		{name: "taken back", known: facts{asked: ago(time.Second), targets: targetOf}, want: decision{kind: cancel}},
		{name: "taken back after a failure", known: facts{asked: ago(time.Minute), next: now.Add(time.Hour), targets: targetOfNone}, want: decision{kind: cancel}},
		{name: "after a failure", known: facts{announced: true, asked: ago(time.Hour), next: now.Add(time.Minute), targets: targetOfNone}, want: decision{after: time.Minute}},
		{name: "done", known: facts{announced: true, asked: ago(time.Hour), accepted: ago(time.Minute)}, want: decision{after: time.Minute}},
		{name: "done long ago, and the node is still there", known: facts{announced: true, asked: ago(time.Hour), accepted: ago(insist)}, want: decision{kind: remove}},
		{name: "taken back after it was done", known: facts{asked: ago(time.Hour), accepted: ago(time.Hour)}, want: decision{after: insist}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decide(c.known, time.Minute, now)
			if (got.late != "") != (c.late != "") || !strings.Contains(got.late, c.late) {
				t.Errorf("late: %q", got.late)
			}
			if got.late = ""; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
