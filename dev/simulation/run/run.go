// Package run simulates both managers on a draw, each in a bubble of its own, and judges Mooring by the reference.
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
func Draw(t *testing.T, d draw.Draw) (Outcome, error) {
	outcome := Outcome{Draw: d}
	for _, program := range []*managers.Manager{managers.Reference, managers.Mooring} {
		var record double.Record
		var failure error
		t.Run(fmt.Sprintf("%d/%s", d.Seed, program.Name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record, failure = double.Simulate(context.WithoutCancel(t.Context()), d, program)
			})
		})
		if failure != nil {
			return outcome, fmt.Errorf("seed %d: %w", d.Seed, failure)
		}
		if program == managers.Reference {
			outcome.Reference = record
		} else {
			outcome.Mooring = record
		}
	}
	outcome.Findings = rules.Check(d, outcome.Reference, outcome.Mooring)
	return outcome, nil
}
