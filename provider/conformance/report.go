package conformance

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is what came of all rules.
type Report struct {
	// RunID is what was in the names of what the run made.
	RunID string
	// Started is when the first rule was tried.
	Started time.Time
	// Results are in the order in which the rules were tried.
	Results []Result
}

// Count returns how many rules had an outcome.
func (r *Report) Count(outcome Outcome) int {
	count := 0
	for _, result := range r.Results {
		if result.Outcome == outcome {
			count++
		}
	}
	return count
}

// OK reports whether nothing was found wrong with the provider: no rule failed or broke, nothing was left behind, and rules were tried.
func (r *Report) OK() bool {
	for _, result := range r.Results {
		if !result.OK() {
			return false
		}
	}
	return r.Count(Passed) > 0
}

// NotRemoved are what the run made and could not remove.
func (r *Report) NotRemoved() []string {
	var left []string
	for _, result := range r.Results {
		left = append(left, result.NotRemoved...)
	}
	return left
}

// Summary says in a line how many rules had which outcome.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%d rules passed, %d failed, %d were not run, %d broke",
		r.Count(Passed), r.Count(Failed), r.Count(NotRun), r.Count(Broken))
	if left := len(r.NotRemoved()); left > 0 {
		text += fmt.Sprintf("; left behind: %d", left)
	}
	return text
}

// WriteText writes a result as a line with the outcome and the rule's ID, and below it what there is to say.
func (r Result) WriteText(to io.Writer) error {
	line := fmt.Sprintf("%-8s %s (%s)\n", r.Outcome, r.Rule.ID, r.Duration.Round(time.Millisecond))
	if r.OK() && r.Outcome == NotRun {
		line = fmt.Sprintf("%-8s %s: %s\n", r.Outcome, r.Rule.ID, r.Reason)
	}
	if !r.OK() {
		line += indent(r.details())
	}
	_, err := io.WriteString(to, line)
	return err
}

// details says what is wrong: the rule, its source, and what was seen.
func (r Result) details() string {
	lines := []string{"rule " + r.Rule.ID + ": " + r.Rule.Text, "source: " + r.Rule.Source.String()}
	if r.Reason != "" {
		lines = append(lines, string(r.Outcome)+": "+r.Reason)
	}
	for _, finding := range r.Findings {
		lines = append(lines, "seen: "+finding)
	}
	for _, left := range r.NotRemoved {
		lines = append(lines, "left behind: "+left)
	}
	return strings.Join(lines, "\n")
}

func indent(text string) string {
	return "         " + strings.ReplaceAll(text, "\n", "\n         ") + "\n"
}
