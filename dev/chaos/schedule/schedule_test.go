package schedule_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

func TestGenerated(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(40) {
		made := schedule.Generate(seed, 10*time.Minute, schedule.Usual())
		if again := schedule.Generate(seed, 10*time.Minute, schedule.Usual()); !slices.EqualFunc(made, again, same) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
		read, err := schedule.Parse(strings.NewReader(made.String()))
		if err != nil {
			t.Fatalf("seed %d: what was printed cannot be read: %v", seed, err)
		}
		if diff := cmp.Diff(made.String(), read.String()); diff != "" {
			t.Fatalf("seed %d: printed and read (-want +got):\n%s", seed, diff)
		}
		for _, o := range made {
			seen[o.Verb] = true
			// See ADR 85: a longer lie about some instances would be believed, and rightly so.
			lies := []string{schedule.CloudPartial, schedule.CloudStale, misbehavior.Denies}
			if slices.Contains(lies, o.Verb) && o.For() > 3*time.Second {
				t.Errorf("seed %d: a lie that is believed: %s", seed, o)
			}
		}
	}
	for _, kind := range schedule.Kinds() {
		if !seen[kind.Name] {
			t.Errorf("no seed has %s", kind.Name)
		}
	}
}

func same(a, b schedule.Operation) bool { return a.String() == b.String() }

// Other seeds give other schedules, and the first operations bring the system up.
func TestSeeds(t *testing.T) {
	one, two := schedule.Generate(1, time.Minute, schedule.Short()), schedule.Generate(2, time.Minute, schedule.Short())
	if one.String() == two.String() {
		t.Error("two seeds give one schedule")
	}
	for i, verb := range []string{schedule.NodesJoin, schedule.ServicesCreate, schedule.Converge} {
		if one[i].Verb != verb || one[i].At != 0 {
			t.Errorf("operation %d is %s, want %s at 0", i, one[i], verb)
		}
	}
	if end := one.End(); end < 50*time.Second || end > 2*time.Minute {
		t.Errorf("a schedule of a minute ends after %s", end)
	}
}

func TestParse(t *testing.T) {
	got, err := schedule.Parse(strings.NewReader(`
		# what it shows
		0s    nodes-join names=n-1,n-2
		1.5s  cloud-status operation=* code=503 for=2s object=s-1 # why
	`))
	want := schedule.Schedule{
		{Verb: schedule.NodesJoin, Args: map[string]string{"names": "n-1,n-2"}},
		{At: 1500 * time.Millisecond, Verb: schedule.CloudStatus, Args: map[string]string{"operation": "*", "code": "503", "for": "2s", "object": "s-1"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if got[1].Scope() != schedule.One || got[1].For() != 2*time.Second || got[1].Number(schedule.ArgCode) != 503 || len(got[0].Names()) != 2 {
		t.Error("the arguments are not what they say")
	}
}

func TestWrongLines(t *testing.T) {
	_, err := schedule.Parse(strings.NewReader("soon converge\n2s dance\n1s nodes-join\n1s api-down for=0s more=1\n1s manager-kill replica=c for=1s\n" +
		"1s manager-crash write=x side=left\n0s converge\n1s cloud-async count=many\n1s converge converge\n"))
	if err == nil {
		t.Fatal("all lines are read")
	}
	for _, part := range []string{
		`line 1: "soon"`, `line 2: there is no operation "dance"`, "line 3: nodes-join: the argument names is missing", "line 4: for=0s",
		"api-down has no argument more", "line 5: replica=c", "line 6: side=left", "line 8: count=many", `line 9: argument "converge"`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in\n%v", part, err)
		}
	}
	if _, err := schedule.Parse(strings.NewReader("2s converge\n1s converge\n")); err == nil || !strings.Contains(err.Error(), "before the line above") {
		t.Errorf("lines out of order: %v", err)
	}
}
