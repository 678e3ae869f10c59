package run

import (
	"slices"
	"testing"
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
