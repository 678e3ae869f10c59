package check

import (
	"cmp"
	"slices"
	"time"
)

// State is what came of a check.
type State string

// The states, the gravest first.
const (
	// Error is something that keeps the manager from working, or makes it do harm.
	Error State = "error"
	// Unknown checks could not be made: something could not be read.
	Unknown State = "unknown"
	// Warning is something that will make trouble, or may.
	Warning State = "warning"
	// OK checks found nothing.
	OK State = "ok"
	// Absent checks have nothing to look at in this cluster.
	Absent State = "absent"
)

// gravity is the order of states.
var gravity = []State{Error, Unknown, Warning, OK, Absent}

// Documentation is where the page of every check is.
const Documentation = "https://github.com/mooring-ccm/mooring/blob/main/docs/how-to/check-a-cluster.md"

// Finding is something that is not as it should be.
type Finding struct {
	// Severity is Error or Warning.
	Severity State `json:"severity"`
	// Seen is what was seen, and Do what to do about it.
	Seen string `json:"seen"`
	Do   string `json:"do"`
	// Objects are the names of the objects that it is about, all of them.
	Objects []string `json:"objects,omitempty"`
}

// Result is what came of a check.
type Result struct {
	// Name identifies the check, and Title says what is looked at.
	Name  string `json:"name"`
	Title string `json:"title"`
	State State  `json:"state"`
	// Note is what was seen where nothing is wrong, or why there is nothing to look at.
	Note string `json:"note,omitempty"`
	// Findings are what is wrong, the gravest first.
	Findings []Finding `json:"findings,omitempty"`
	// Unknown says what could not be read, and why.
	Unknown []string `json:"unknown,omitempty"`
	// Documentation is the page that explains the check.
	Documentation string `json:"documentation"`
}

// Report is what came of all checks.
type Report struct {
	// Time is when the cluster was looked at.
	Time time.Time `json:"time"`
	// State is the gravest of the results.
	State   State    `json:"state"`
	Results []Result `json:"results"`
}

// Of makes all checks.
func Of(seen *Observation) Report {
	report := Report{Time: seen.Now, State: Absent}
	for _, rule := range rules {
		result := rule.check(seen)
		report.Results = append(report.Results, result)
		if slices.Index(gravity, result.State) < slices.Index(gravity, report.State) {
			report.State = result.State
		}
	}
	return report
}

// Count returns how many checks ended in a state.
func (r Report) Count(state State) int {
	count := 0
	for _, result := range r.Results {
		if result.State == state {
			count++
		}
	}
	return count
}

// rule is one check. Look returns what it sees; it must not take what was not read for what is not there.
type rule struct {
	name, title string
	look        func(*Observation) answer
}

// answer is what a rule sees.
type answer struct {
	findings []Finding
	// unknown are the reasons why something was not read that the rule needs.
	unknown []string
	// note is what is as it should be, or why there is nothing to look at, which absent says.
	note   string
	absent bool
}

func (r rule) check(seen *Observation) Result {
	said := r.look(seen)
	result := Result{
		Name: r.name, Title: r.title, State: OK, Note: said.note, Findings: said.findings, Documentation: Documentation + "#" + r.name,
	}
	for _, reason := range said.unknown {
		if !slices.Contains(result.Unknown, reason) {
			result.Unknown = append(result.Unknown, reason)
		}
	}
	slices.SortStableFunc(result.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(gravity, a.Severity), slices.Index(gravity, b.Severity))
	})
	switch {
	case len(result.Findings) > 0 && result.Findings[0].Severity == Error:
		result.State = Error
	case len(result.Unknown) > 0:
		result.State = Unknown
	case len(result.Findings) > 0:
		result.State = Warning
	case said.absent:
		result.State = Absent
	}
	if result.State != OK && result.State != Absent {
		result.Note = ""
	}
	return result
}

// unread returns the reasons of the parts that were not read.
func unread(reasons ...string) []string {
	return slices.DeleteFunc(reasons, func(reason string) bool { return reason == "" })
}
