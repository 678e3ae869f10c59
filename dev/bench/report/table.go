// Package report turns figures into what people read: a table on the terminal, a page of the documentation, charts. It only
// formats; what is measured and how it compares is decided in package figures.
package report

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// Table is all results as text with aligned columns, one block for each scenario, with the sums at its end.
func Table(measured figures.Report) string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "SCENARIO\tVARIANT\tTIME\tTO REFERENCE\tTO UNDISTURBED\tCLOUD CALLS\tREFUSED\tAPI WRITES\tLEASE\tCPU s\tPEAK MiB\tCALLS BY KIND")
	for _, scenario := range measured.Scenarios() {
		for _, variant := range measured.VariantNames() {
			result, found := measured.Find(scenario, variant)
			if !found {
				continue
			}
			ratio := ""
			if other, found := measured.Find(scenario, figures.Opponent(variant)); found && !strings.HasPrefix(variant, figures.ReferenceDefault) {
				ratio = ratioText(result, other)
			}
			disturbance := ""
			if scenario == figures.Throttled300 {
				disturbance = disturbanceText(measured, variant)
			}
			fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.1f\t%d\t%s\n", scenario, variant, withRounds(result), ratio,
				disturbance, result.Received(), result.Refused(), result.Written(), result.LeaseWrites, result.CPUSeconds, result.PeakBytes>>20,
				callsText(result.Calls))
		}
	}
	for _, sum := range measured.Sums() {
		fmt.Fprintf(columns, "all\t%s\t\t\t\t%d\t%d\t%d\t\t%.1f\t%d\t\n", sum.Variant, sum.Calls, sum.Refused, sum.Writes, sum.CPUSeconds,
			sum.PeakBytes>>20)
	}
	_ = columns.Flush() // to memory
	return b.String()
}

// timeText is a time, or how far it was when it was given up.
func timeText(result figures.Result) string {
	if !result.Complete {
		return fmt.Sprintf("> %.0f s (%s of %s)", result.Seconds, grouped(int64(result.Done)), grouped(int64(result.Of)))
	}
	return seconds(result.Seconds)
}

// withRounds is timeText, with the number of rounds if there were several.
func withRounds(result figures.Result) string {
	if len(result.Rounds) < 2 {
		return timeText(result)
	}
	return fmt.Sprintf("%s (median of %d)", timeText(result), len(result.Rounds))
}

// seconds is a time with about three digits.
func seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.2f s", s)
	case s < 100:
		return fmt.Sprintf("%.1f s", s)
	default:
		return fmt.Sprintf("%.0f s", s)
	}
}

// ratioText says how many times as long one takes as the other. Empty if that cannot be said.
func ratioText(one, other figures.Result) string {
	return boundedText(figures.Compare(one, other))
}

// disturbanceText says how many times as long nodes take to join while Services are throttled. Empty if that cannot be said.
func disturbanceText(measured figures.Report, variant string) string {
	return boundedText(measured.Disturbance(variant))
}

func boundedText(ratio figures.Ratio, known bool) string {
	if !known {
		return ""
	}
	text := times(ratio.Value)
	switch ratio.Bound {
	case figures.AtMost:
		return "< " + text
	case figures.AtLeast:
		return "> " + text
	default:
		return text
	}
}

// times is a ratio, with a third digit where the targets are small.
func times(ratio float64) string {
	if ratio < 0.2 {
		return fmt.Sprintf("× %.3f", ratio)
	}
	return fmt.Sprintf("× %.2f", ratio)
}

// callsText lists calls by kind, the most frequent first.
func callsText(calls map[string]figures.Calls) string {
	received := map[string]int64{}
	for kind, count := range calls {
		received[kind] = count.Received
	}
	var parts []string
	for _, kind := range figures.Kinds(received) {
		parts = append(parts, fmt.Sprintf("%s %s", kind, grouped(received[kind])))
	}
	return strings.Join(parts, ", ")
}

// grouped is a number with commas between thousands.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
