package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// callCounts counts the calls of each step.
type callCounts struct {
	steps []stepCalls
}

type stepCalls struct {
	step               string
	reference, mooring map[string]int
}

func (c *callCounts) add(step string, reference, mooring []Call) {
	c.steps = append(c.steps, stepCalls{step, count(reference), count(mooring)})
}

func count(calls []Call) map[string]int {
	counts := map[string]int{}
	for _, call := range calls {
		counts[call.Action]++
	}
	return counts
}

// total returns the calls of all steps.
func (c *callCounts) total() stepCalls {
	all := stepCalls{"all steps", map[string]int{}, map[string]int{}}
	for _, step := range c.steps {
		for action, n := range step.reference {
			all.reference[action] += n
		}
		for action, n := range step.mooring {
			all.mooring[action] += n
		}
	}
	return all
}

func (i stepCalls) actions() []string {
	either := maps.Clone(i.reference)
	maps.Copy(either, i.mooring)
	return slices.Sorted(maps.Keys(either))
}

// table shows the calls of each step and action, and their sums.
func (c *callCounts) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "step\taction\treference\tMooring\t")
	for _, i := range append(slices.Clone(c.steps), c.total()) {
		reference, mooring := 0, 0
		for _, action := range i.actions() {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t\n", i.step, action, i.reference[action], i.mooring[action])
			reference, mooring = reference+i.reference[action], mooring+i.mooring[action]
		}
		fmt.Fprintf(w, "%s\t(any)\t%d\t%d\t\n", i.step, reference, mooring)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

// moreCalls returns the actions of which Mooring made more calls than the reference, unless a reason is given or refreshed allows as many.
// A reason that was not needed this time may be needed the next: how often a manager looks at a node depends on when.
func (c *callCounts) moreCalls(reasons map[string]string, refreshed map[string]int) []string {
	var problems []string
	all := c.total()
	for _, action := range all.actions() {
		more := all.mooring[action] - all.reference[action]
		if _, allowed := reasons[action]; more > refreshed[action] && !allowed {
			problems = append(problems, fmt.Sprintf("Mooring called %s %d times more often than the reference", action, more))
		}
	}
	return problems
}
