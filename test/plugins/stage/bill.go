package stage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// bill counts the calls of each step.
type bill struct {
	steps []item
}

type item struct {
	step               string
	reference, mooring map[string]int
}

func (b *bill) add(step string, reference, mooring []Call) {
	b.steps = append(b.steps, item{step, count(reference), count(mooring)})
}

func count(calls []Call) map[string]int {
	counts := map[string]int{}
	for _, call := range calls {
		counts[call.Action]++
	}
	return counts
}

// total returns the calls of all steps.
func (b *bill) total() item {
	all := item{"all steps", map[string]int{}, map[string]int{}}
	for _, step := range b.steps {
		for action, n := range step.reference {
			all.reference[action] += n
		}
		for action, n := range step.mooring {
			all.mooring[action] += n
		}
	}
	return all
}

func (i item) actions() []string {
	either := maps.Clone(i.reference)
	maps.Copy(either, i.mooring)
	return slices.Sorted(maps.Keys(either))
}

// table shows the calls of each step and action, and their sums.
func (b *bill) table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "step\taction\treference\tMooring\t")
	for _, i := range append(slices.Clone(b.steps), b.total()) {
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

// dearer returns the actions of which Mooring made more calls than the reference, unless a reason is given. A reason that was
// not needed this time may be needed the next: how often a manager looks at a node depends on when.
func (b *bill) dearer(reasons map[string]string) []string {
	var problems []string
	all := b.total()
	for _, action := range all.actions() {
		more := all.mooring[action] - all.reference[action]
		if _, allowed := reasons[action]; more > 0 && !allowed {
			problems = append(problems, fmt.Sprintf("Mooring called %s %d times more often than the reference", action, more))
		}
	}
	return problems
}
