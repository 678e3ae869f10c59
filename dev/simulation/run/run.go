// Package run simulates both managers on a draw, each in a bubble of its own, and judges Mooring by the reference.
//
// # Scenarios
//
// A scenario is a text file in the format of package draw. Comments that begin with "# kind: " name the kinds of failures that it shows: rule x
// character x disturbance. A failure is known if a listed kind has its rule, and no character or disturbance that the failure lacks.
//
// testdata/corpus has scenarios that failed once. They run always, and break no rule but in a way that is known.
//
// testdata/known has a scenario for each kind of failure that is known today. One that passes five repetitions fails the test: remove it, or
// move it to the corpus. The list only becomes shorter.
//
// To turn a failure into a scenario, shrink its seed and run the file:
//
//	bin/simulate --seed=53 --shrink=9 > scenario.txt
//	bin/simulate scenario.txt
//
// # What counts
//
// A failure counts if two of five repetitions show it, and chance does not explain it, see Beyond. One that does not is printed with its trace.
package run

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
)

// Outcome is what became of a draw.
type Outcome struct {
	Draw               draw.Draw
	Reference, Mooring double.Record
	// Findings are the broken rules, the oldest first.
	Findings []rules.Finding
	// Account is what breaks no rule and is reported apart.
	Account rules.Account
}

// Kinds returns the kinds of the findings, sorted, each once.
func (v Outcome) Kinds() []string {
	var kinds []string
	for _, finding := range v.Findings {
		kinds = append(kinds, finding.Kind())
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Rules returns the rules that are broken, sorted, each once.
func (v Outcome) Rules() []string {
	var broken []string
	for _, finding := range v.Findings {
		broken = append(broken, finding.Rule)
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}

// Draw simulates both managers on a draw. Call managers.Prepare first. Each bubble is a subtest of t.
func Draw(t *testing.T, d draw.Draw) (Outcome, error) { return Compare(t, d, managers.Mooring) }

// Compare simulates the reference and another manager on a draw.
func Compare(t *testing.T, d draw.Draw, program *managers.Manager) (Outcome, error) {
	reference, err := Simulate(t, d, managers.Reference)
	if err != nil {
		return Outcome{Draw: d}, err
	}
	other, err := Simulate(t, d, program)
	if err != nil {
		return Outcome{Draw: d}, err
	}
	return Judge(d, reference, other), nil
}

// Simulate simulates a manager on a draw, in a bubble that is a subtest of t.
func Simulate(t *testing.T, d draw.Draw, program *managers.Manager) (record double.Record, err error) {
	t.Run(fmt.Sprintf("%d/%s", d.Seed, program.Name), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			record, err = double.Simulate(context.WithoutCancel(t.Context()), d, program)
		})
	})
	if err != nil {
		return record, fmt.Errorf("seed %d: %w", d.Seed, err)
	}
	if len(record.Calls) == 0 {
		return record, fmt.Errorf("seed %d: %s has called nothing", d.Seed, program.Name)
	}
	return record, nil
}

// Judge judges a manager by the reference.
func Judge(d draw.Draw, reference, mooring double.Record) Outcome {
	return Outcome{
		Draw: d, Reference: reference, Mooring: mooring,
		Findings: rules.Check(d, reference, mooring), Account: rules.NewAccount(reference, mooring),
	}
}
