package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

const (
	// repetitions is how often a draw runs until a failure counts or not, and enough in how many of them it has to be.
	repetitions = 5
	enough      = 2
)

// Repeat repeats a draw whose outcome breaks rules. It returns the rules that at least two of five runs break, the first run included. No seed
// controls the jitter of the managers. A failure at the edge of a tolerance may come and go.
func Repeat(t *testing.T, first Outcome) (confirmed []string, err error) {
	broken := map[string]int{}
	undecided := func(done int) bool {
		return slices.ContainsFunc(first.Rules(), func(rule string) bool {
			return broken[rule] < enough && broken[rule]+repetitions-done >= enough
		})
	}
	outcome := first
	for done := 1; ; done++ {
		for _, rule := range outcome.Rules() {
			broken[rule]++
		}
		if !undecided(done) {
			break
		}
		if outcome, err = Draw(t, first.Draw); err != nil {
			return nil, err
		}
	}
	for _, rule := range first.Rules() {
		if broken[rule] >= enough {
			confirmed = append(confirmed, rule)
		}
	}
	return confirmed, nil
}

// otherChance is how far apart the seeds are that decide the same draw by another chance. No campaign is as long.
const otherChance = 1 << 40

// Beyond returns those of the rules that chance does not explain. A rule that compares managers is broken by chance too: which call fails, and how
// long each takes. The same plugin, cloud, cluster and disturbances run five times more, each by another chance. A rule stays if program breaks it in
// two of these at least, and oftener than the reference does that is judged by itself under the next chance. An absolute rule stays.
func Beyond(t *testing.T, d draw.Draw, program *managers.Manager, broken []string) (left []string, err error) {
	if !slices.ContainsFunc(broken, relative) {
		return broken, nil
	}
	var reference, mooring [repetitions]double.Record
	for i := range repetitions {
		d.Seed += otherChance
		if reference[i], err = Simulate(t, d, managers.Reference); err != nil {
			return nil, err
		}
		if mooring[i], err = Simulate(t, d, program); err != nil {
			return nil, err
		}
	}
	ours, theirs := map[string]int{}, map[string]int{}
	for i := range repetitions {
		for _, rule := range Judge(d, reference[i], mooring[i]).Rules() {
			ours[rule]++
		}
		for _, rule := range Judge(d, reference[i], reference[(i+1)%repetitions]).Rules() {
			theirs[rule]++
		}
	}
	for _, rule := range broken {
		if !relative(rule) || ours[rule] >= enough && ours[rule] > theirs[rule] {
			left = append(left, rule)
		}
	}
	return left, nil
}

// relative reports whether a rule compares Mooring with the reference. Others bind Mooring whatever the reference does.
func relative(rule string) bool {
	number, _, _ := strings.Cut(rule, "-")
	return !slices.Contains([]string{"2a", "8", "9", "10"}, number)
}

// Shows reports whether one of five repetitions of a scenario breaks the rules of its kinds.
func Shows(t *testing.T, scenario Scenario) (bool, error) {
	for range repetitions {
		outcome, err := Draw(t, scenario.Draw)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(scenario.Kinds, func(kind string) bool { return slices.Contains(outcome.Rules(), RuleOf(kind)) }) {
			return true, nil
		}
	}
	return false, nil
}
