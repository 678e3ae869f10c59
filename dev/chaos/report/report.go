// Package report is what came of a run, for a person and for a program.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/dev/chaos/checker"
	"github.com/mooring-ccm/mooring/dev/chaos/schedule"
)

// Report is what came of a run. Durations are in seconds.
type Report struct {
	// Seed is what the schedule was made of; zero for one that was read.
	Seed uint64 `json:"seed,omitempty"`
	// Seconds is how long the run took, and Operations how many there were, by verb.
	Seconds    float64        `json:"seconds"`
	Operations map[string]int `json:"operations"`
	// FaultyCalls is how many calls of the cloud and writes to the API server a fault hit.
	FaultyCalls int64 `json:"faultyCalls"`
	// Checked is how often each rule was held against something.
	Checked map[string]int `json:"checked"`
	// Slowest is the longest recovery after each kind of fault, see checker.Recovery.
	Slowest map[string]float64 `json:"slowestRecovery"`
	// Clocks are what the lease showed of the clocks of both replicas, in a run with one that is ahead: that one first.
	Clocks []Clock `json:"clocks,omitempty"`
	// Samples are what the leader used, in a soak.
	Samples []Sample `json:"samples,omitempty"`
	// Violations are the rules that did not hold.
	Violations []checker.Violation `json:"violations"`
}

// Clock is what the writes of the lease show of the clock of a replica.
type Clock struct {
	// Writes is how often it wrote the lease, and Ahead the most that the time in it was ahead, in seconds.
	Writes int     `json:"writes"`
	Ahead  float64 `json:"ahead"`
}

// New makes a report.
func New(s schedule.Schedule, violations []checker.Violation, checked map[string]int, recoveries []checker.Recovery, took time.Duration, hit int64) Report {
	r := Report{
		Seconds: seconds(took), Operations: map[string]int{}, Checked: checked, Slowest: map[string]float64{}, Violations: violations, FaultyCalls: hit,
	}
	for _, o := range s {
		r.Operations[o.Verb]++
	}
	for _, one := range recoveries {
		r.Slowest[one.Verb] = max(r.Slowest[one.Verb], seconds(one.Took))
	}
	return r
}

func seconds(d time.Duration) float64 { return d.Round(10 * time.Millisecond).Seconds() }

// JSON returns the report as a file for programs.
func (r Report) JSON() ([]byte, error) { return json.MarshalIndent(r, "", "  ") }

// shown is how many violations a person is shown.
const shown = 20

// Write writes the report for a person.
func (r Report) Write(to io.Writer) {
	fmt.Fprintf(to, "Seed %d, %.0f s, %d calls were hit by a fault.\n\nWhat happened:\n", r.Seed, r.Seconds, r.FaultyCalls)
	for _, kind := range schedule.Kinds() {
		if count := r.Operations[kind.Name]; count > 0 && kind.Name != schedule.Converge {
			fmt.Fprintf(to, "  %5d  %-18s %s\n", count, kind.Name, kind.Sentence)
		}
	}
	for i, clock := range r.Clocks {
		fmt.Fprintf(to, "\nReplica %d wrote the lease %d times, at most %.1f s ahead of the clock.\n", i+1, clock.Writes, clock.Ahead)
	}
	fmt.Fprint(to, "\nHow often each rule was checked:\n")
	for _, rule := range checker.Rules() {
		fmt.Fprintf(to, "  %7d  %-18s %s\n", r.Checked[rule.Name], rule.Name, rule.Sentence)
	}
	fmt.Fprint(to, "\nThe slowest recovery after each kind of fault:\n")
	for _, verb := range slices.Sorted(maps.Keys(r.Slowest)) {
		fmt.Fprintf(to, "  %6.1f s  %s\n", r.Slowest[verb], verb)
	}
	if len(r.Violations) == 0 {
		fmt.Fprint(to, "\nAll rules held.\n")
		return
	}
	fmt.Fprintf(to, "\n%d times a rule did not hold:\n", len(r.Violations))
	for i, violation := range r.Violations {
		if i == shown {
			fmt.Fprintf(to, "  and %d more\n", len(r.Violations)-shown)
			break
		}
		fmt.Fprintf(to, "  %s\n", violation)
	}
}
