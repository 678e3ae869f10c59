// Package scenario is what the variants are measured in. Scenarios are data: what has to stand before, what happens, and when
// it is over.
package scenario

import (
	"context"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// TrailLimit is how long, after the end of a scenario, what the manager still does because of it is counted.
const TrailLimit = 20 * time.Second

// quick are the variants that are quick enough for every scenario. Those without flags take minutes for what the others do in seconds: with
// them in all scenarios, the whole would take hours.
var quick = []string{figures.ReferenceTuned, figures.MooringPlain, figures.MooringBulk}

// untuned are the variants that rest while nothing happens. Either manager does so alike with other settings.
var untuned = []string{figures.ReferenceDefault, figures.MooringDefault, figures.MooringBulk}

// Stage is an environment with what stands in it, and the scenarios that happen there one after the other.
type Stage struct {
	// Name is the name of the stage.
	Name string
	// Instances is how many machines the cloud has.
	Instances func(figures.Size) int
	// Prepare builds what stands before the manager starts; nil for nothing.
	Prepare func(ctx context.Context, e *environment.Environment, size figures.Size) error
	// Replicas is how many processes of the manager run: one leads, the others stand by.
	Replicas int
	// Flags are further flags of a variant in this stage; nil for none.
	Flags func(variant string) []string
	// Inspect has the traffic and the heap of the manager be measured, too.
	Inspect bool
	// Nodes and Services are how many there are, where the stage decides that and not the size of a run.
	Nodes, Services int
	// Scenarios happen in this order.
	Scenarios []Scenario
}

// Scenario is something that happens, and how a manager copes is measured.
type Scenario struct {
	// Name is what flags and the report call it, and Title says what happens.
	Name, Title string
	// Counts is what is counted to say how far it is: "nodes".
	Counts string
	// Needs is the scenario of the same stage that has to happen before; empty for none.
	Needs string
	// Only are the variants that take part; empty means all.
	Only []string
	// Limit is when it is given up.
	Limit time.Duration
	// Prepare is what happens before, unmeasured; nil for nothing.
	Prepare func(ctx context.Context, e *environment.Environment, size figures.Size) error
	// Act makes it happen and returns when it is over. This is what is timed.
	Act func(ctx context.Context, e *environment.Environment, size figures.Size, result *figures.Result) error
	// Again prepares one more round of a variant: Act is timed several times, and all else is counted in the first round only. Nil for one round.
	Again func(ctx context.Context, e *environment.Environment, size figures.Size) error
	// Once are the variants that have one round all the same.
	Once []string
	// Rests says that nothing happens, so nothing can be left to do.
	Rests bool
}

// Stages returns all stages with their scenarios, in their order.
func Stages() []Stage {
	return []Stage{join(), cluster(), silentOneByOne(), silentAtOnce(), routes(), quota(), throttled(), failover(), joinMany()}
}

// Rounds returns how often a variant goes through a scenario.
func (s Scenario) Rounds(variant string, size figures.Size) int {
	if s.Again == nil || slices.Contains(s.Once, variant) {
		return 1
	}
	return size.Rounds
}

// takesPart reports whether a variant takes part in a scenario.
func (s Scenario) takesPart(variant string) bool {
	return len(s.Only) == 0 || slices.Contains(s.Only, variant)
}

// Select returns the stages with the scenarios that are wanted for a variant, and the scenarios that these need. It drops stages without any. An
// empty wanted selects all scenarios.
func Select(stages []Stage, wanted map[string]bool, variant string) []Stage {
	var selected []Stage
	for _, stage := range stages {
		needed := map[string]bool{}
		for i := len(stage.Scenarios) - 1; i >= 0; i-- {
			one := stage.Scenarios[i]
			if one.takesPart(variant) && (len(wanted) == 0 || wanted[one.Name] || needed[one.Name]) {
				needed[one.Name], needed[one.Needs] = true, true
			}
		}
		all := stage.Scenarios
		stage.Scenarios = nil
		for _, one := range all {
			if needed[one.Name] {
				stage.Scenarios = append(stage.Scenarios, one)
			}
		}
		if len(stage.Scenarios) > 0 {
			selected = append(selected, stage)
		}
	}
	return selected
}

// Names returns the names of all scenarios.
func Names(stages []Stage) []string {
	var names []string
	for _, stage := range stages {
		for _, one := range stage.Scenarios {
			names = append(names, one.Name)
		}
	}
	return names
}
