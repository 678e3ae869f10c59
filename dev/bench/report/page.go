package report

import (
	_ "embed"
	"fmt"
	"math"
	"strings"
	"text/template"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

//go:embed page.md.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Page is the page of the documentation. Titles are what scenarios are called, by their names. Entries are the history, in the order
// of its versions, these figures among them.
func Page(measured figures.Report, titles map[string]string, entries []figures.Entry) (string, error) {
	var b strings.Builder
	err := page.Execute(&b, map[string]any{
		"Setup": measured.Setup, "Remark": measured.Remark, "Machine": measured.Machine, "Date": measured.Began.Format("2006-01-02"),
		"Memory": measured.Machine.MemoryBytes >> 30, "Minutes": fmt.Sprintf("%.0f", measured.Seconds/60),
		"TimeTable": timeTable(measured, titles), "ThrottledTable": throttledTable(measured), "Targets": targetsText(figures.Checks(measured)),
		"SumTable": sumTable(measured), "History": History(entries),
	})
	if err != nil {
		return "", fmt.Errorf("write the page: %w", err)
	}
	return b.String(), nil
}

// table is a table in Markdown.
func table(rows ...[]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return b.String()
}

// timeTable has a row for each scenario whose time says something, and a column for each variant.
func timeTable(measured figures.Report, titles map[string]string) string {
	variants := measured.VariantNames()
	head := []string{"scenario"}
	for _, variant := range variants {
		head = append(head, titleOf(measured, variant))
	}
	compared := []string{figures.MooringDefault, figures.MooringPlain, figures.MooringBulk}
	for _, variant := range compared {
		head = append(head, "ratio, "+who(variant))
	}
	rows := [][]string{head}
	for _, scenario := range measured.Scenarios() {
		if rests(scenario) {
			continue
		}
		row := []string{titles[scenario]}
		for _, variant := range variants {
			cell := "–"
			if result, found := measured.Find(scenario, variant); found {
				cell = timeText(result)
			}
			row = append(row, cell)
		}
		for _, variant := range compared {
			result, _ := measured.Find(scenario, variant)
			other, _ := measured.Find(scenario, figures.Opponent(variant))
			row = append(row, ratioText(result, other))
		}
		rows = append(rows, row)
	}
	return table(rows...)
}

// throttledTable compares, for each variant, the time in which nodes join while Services are throttled with the same undisturbed.
// Empty if no variant went through both.
func throttledTable(measured figures.Report) string {
	rows := [][]string{{"variant", "undisturbed", "while Services are throttled", "ratio"}}
	for _, variant := range measured.VariantNames() {
		undisturbed, _ := measured.Find(figures.Join300, variant)
		disturbed, _ := measured.Find(figures.Throttled300, variant)
		if ratio := disturbanceText(measured, variant); ratio != "" {
			rows = append(rows, []string{titleOf(measured, variant), timeText(undisturbed), timeText(disturbed), ratio})
		}
	}
	if len(rows) == 1 {
		return ""
	}
	return table(rows...)
}

// checkTable has a row for each target.
func checkTable(checks []figures.Check) string {
	rows := [][]string{{"target", "of", "wanted", "reached", ""}}
	for _, check := range checks {
		met := "yes"
		if !check.Met() {
			met = "**no**"
		}
		rows = append(rows, []string{check.Says, who(check.Variant), "≤ " + amount(check.Want, check.Unit), reachedText(check), met})
	}
	return table(rows...)
}

// who says in a word or two which of Mooring's variants this is.
func who(variant string) string {
	switch variant {
	case figures.MooringDefault:
		return "nothing set"
	case figures.MooringPlain:
		return "same flags"
	default:
		return strings.TrimPrefix(variant, "mooring-")
	}
}

func reachedText(check figures.Check) string {
	text := amount(check.Got, check.Unit)
	switch check.Bound {
	case figures.AtMost:
		return "< " + text
	case figures.AtLeast:
		return "> " + text
	case figures.GivenUp:
		return "given up"
	default:
		return text
	}
}

func amount(value float64, unit string) string {
	switch unit {
	case figures.UnitTimes:
		return times(value)
	case figures.UnitSeconds:
		return seconds(value)
	case figures.UnitBytes:
		return size(value)
	case figures.UnitExponent:
		return fmt.Sprintf("%.2f", math.Round(value*100)/100+0) // without the sign of a zero
	default:
		if value >= 1000 {
			return grouped(int64(math.Round(value)))
		}
		return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0")
	}
}

// size is an amount of memory or traffic, with about three digits.
func size(bytes float64) string {
	unit := "KiB"
	if bytes /= 1 << 10; math.Abs(bytes) >= 1000 {
		bytes, unit = bytes/(1<<10), "MiB"
	}
	if math.Abs(bytes) < 100 {
		return fmt.Sprintf("%.1f %s", bytes, unit)
	}
	return fmt.Sprintf("%.0f %s", bytes, unit)
}

func sumTable(measured figures.Report) string {
	rows := [][]string{{"variant", "CPU", "peak memory", "cloud calls", "refused", "API writes"}}
	for _, sum := range measured.Sums() {
		rows = append(rows, []string{
			titleOf(measured, sum.Variant), seconds(sum.CPUSeconds), fmt.Sprintf("%d MiB", sum.PeakBytes>>20), grouped(sum.Calls),
			grouped(sum.Refused), grouped(int64(sum.Writes)),
		})
	}
	return table(rows...)
}
