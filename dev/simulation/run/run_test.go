package run_test

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

func TestMain(m *testing.M) {
	managers.Prepare(logr.Discard())
	m.Run()
}

// TestCorpus runs the scenarios that failed once. What they break beside that is listed or fails.
func TestCorpus(t *testing.T) {
	for _, scenario := range must.Value(run.Corpus())(t) {
		t.Run(scenario.File, func(t *testing.T) {
			t.Parallel()
			outcome := must.Value(run.Draw(t, scenario.Draw))(t)
			outcome.Findings = slices.DeleteFunc(outcome.Findings, func(finding rules.Finding) bool {
				return run.Known(finding.Kind()) != "" && !(run.Scenario{Kinds: scenario.Kinds}).Lists(finding.Kind())
			})
			if len(outcome.Findings) == 0 {
				return
			}
			confirmed := must.Value(run.Repeat(t, outcome))(t)
			if confirmed = must.Value(run.Beyond(t, scenario.Draw, managers.Mooring, confirmed))(t); len(confirmed) > 0 {
				t.Errorf("breaks %q: %v", confirmed, outcome.Findings)
			}
		})
	}
}

// mostKnown is how many kinds of failures are listed. It only becomes smaller.
const mostKnown = 0

// TestKnown runs the scenarios of known failures. One that no longer fails is to be removed.
func TestKnown(t *testing.T) {
	known := must.Value(run.KnownScenarios())(t)
	if len(known) != mostKnown {
		t.Errorf("%d kinds are listed, and mostKnown is %d: a new kind is mended, not listed; if there are fewer, make it smaller", len(known), mostKnown)
	}
	for _, scenario := range known {
		t.Run(scenario.File, func(t *testing.T) {
			t.Parallel()
			if len(scenario.Kinds) == 0 {
				t.Fatal("names no kind")
			}
			if !must.Value(run.Shows(t, scenario))(t) {
				t.Error("passes five times: remove me, or move me to the corpus")
			}
		})
	}
}

// TestShrink shrinks a draw in which a mutant deletes a node, and runs the scenario that is left.
func TestShrink(t *testing.T) {
	const rule = "10"
	i := slices.IndexFunc(mutants(), func(one mutant) bool { return slices.Contains(one.breaks, rule) })
	program := managers.Mooring.Wrapped("mutant", mutants()[i].wrapper)
	text := must.Value(run.Shrink(t, mutantDraw(1), program, rule))(t)
	scenario := must.Value(run.ParseScenario("scenario", text))(t)
	if len(scenario.Draw.Events) > 0 || len(scenario.Draw.Nodes) > 1 || !slices.Equal(scenario.Kinds, []string{"10 x plain x none"}) {
		t.Errorf("not shrunk:\n%s", text)
	}
	if outcome := must.Value(run.Compare(t, scenario.Draw, program))(t); !slices.Contains(outcome.Rules(), rule) {
		t.Errorf("the scenario breaks %v:\n%s", outcome.Rules(), text)
	}
}

// TestRepeat has a failure that no repetition shows not count.
func TestRepeat(t *testing.T) {
	outcome := run.Outcome{Draw: mutantDraw(1), Findings: []rules.Finding{{Rule: "99"}}}
	if confirmed := must.Value(run.Repeat(t, outcome))(t); len(confirmed) > 0 {
		t.Errorf("confirmed %v", confirmed)
	}
}

// TestBeyond has chance explain what Mooring does not break under another chance, and not what a mutant breaks under each. Absolute rules stay.
func TestBeyond(t *testing.T) {
	if left := must.Value(run.Beyond(t, mutantDraw(1), managers.Mooring, []string{"1", "2a-deleted", "10"}))(t); !slices.Equal(left, []string{"2a-deleted", "10"}) {
		t.Errorf("left are %v", left)
	}
	for _, rule := range []string{"1", "4-excluded", "6"} {
		i := slices.IndexFunc(mutants(), func(one mutant) bool { return slices.Contains(one.breaks, rule) })
		program := managers.Mooring.Wrapped("mutant", mutants()[i].wrapper)
		if left := must.Value(run.Beyond(t, mutantDraw(1), program, []string{rule}))(t); len(left) != 1 {
			t.Errorf("chance explains rule %s of a mutant", rule)
		}
	}
}

// TestLists has kinds that a scenario with one character and one disturbance lists.
func TestLists(t *testing.T) {
	for _, test := range []struct {
		listed, kind string
		want         bool
	}{
		{"9 x plain x none", "9 x denying+mutating x crash", true},
		{"9 x denying x crash", "9 x denying+mutating x crash", true},
		{"9 x denying x crash", "9 x mutating x crash", false},
		{"9 x denying x crash", "9 x denying x silent", false},
		{"9 x denying+mutating x none", "9 x denying x none", false},
		{"9 x plain x none", "10 x plain x none", false},
	} {
		if got := (run.Scenario{Kinds: []string{test.listed}}).Lists(test.kind); got != test.want {
			t.Errorf("%s lists %s: %t", test.listed, test.kind, got)
		}
	}
}
