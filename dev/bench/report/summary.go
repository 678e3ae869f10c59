package report

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// WholeLimit is how long a whole run may take on two cores, builds included.
const WholeLimit = 70 * time.Minute

// Summary is what ends the output of a run: every target with what was wanted and got, marked where it was missed; what was given
// up; and how long everything took, builds included, which is whole.
func Summary(measured figures.Report, whole time.Duration) string {
	var b strings.Builder
	checks := figures.Checks(measured)
	if len(checks) > 0 {
		fmt.Fprintf(&b, "%s\n", targetList(checks))
	}
	for _, result := range measured.Results {
		if !result.Complete {
			fmt.Fprintf(&b, "Given up: %s, %s, %s.\n", result.Scenario, titleOf(measured, result.Variant), timeText(result))
		}
	}
	fmt.Fprintf(&b, "%s\n%s\n", missedText(checks), tookText(measured, whole))
	return b.String()
}

// targetList has a line for each target.
func targetList(checks []figures.Check) string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "TARGET\tOF\tWANTED\tGOT\t")
	for _, check := range checks {
		mark := ""
		if !check.Met() {
			mark = "MISSED"
		}
		fmt.Fprintf(columns, "%s\t%s\t≤ %s\t%s\t%s\n", check.Says, who(check.Variant), amount(check.Want, check.Unit), reachedText(check), mark)
	}
	_ = columns.Flush() // to memory
	return b.String()
}

func missedText(checks []figures.Check) string {
	missed := 0
	for _, check := range checks {
		if !check.Met() {
			missed++
		}
	}
	if len(checks) == 0 {
		return "No target was measured."
	}
	return fmt.Sprintf("Targets missed: %d of %d.", missed, len(checks))
}

// tookText says how long a run took, and when that is more than it may on two cores. More cores only make it shorter.
func tookText(measured figures.Report, whole time.Duration) string {
	measuring := time.Duration(measured.Seconds * float64(time.Second))
	text := fmt.Sprintf("The whole run took %s, %s of it measuring.", whole.Round(time.Second), measuring.Round(time.Second))
	if whole > WholeLimit && measured.Machine.Cores >= 2 {
		text += fmt.Sprintf(" TOO LONG: at most %s are wanted on two cores, and this machine has %d.", WholeLimit, measured.Machine.Cores)
	}
	return text
}
