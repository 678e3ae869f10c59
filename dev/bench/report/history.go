package report

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

// HistoryChartFile is the file of the chart of the history, beside those of Charts.
const HistoryChartFile = "history.svg"

// The lines of the page between which the history stands, so a release can be named without measuring again.
const (
	historyBegins = "<!-- The history begins. -->\n"
	historyEnds   = "<!-- The history ends. -->\n"
)

// histories are the variants whose ratios to the tuned reference are followed.
var histories = []struct{ variant, title string }{
	{figures.MooringPlain, "plain plugin"}, {figures.MooringBulk, "bulk plugin"},
}

// History is the part of the page that shows how releases compare: a chart and a table with a row for each entry. Entries are in
// the order of their versions.
func History(entries []figures.Entry) string {
	scenarios := followed(entries)
	head := []string{"release", "measured", "reference"}
	for _, scenario := range scenarios {
		head = append(head, "`"+scenario+"`")
	}
	rows := [][]string{head}
	for _, entry := range entries {
		row := []string{releaseName(entry), entry.Began.Format("2006-01-02"), beside(entries, entry)}
		for _, scenario := range scenarios {
			var cells []string
			for _, one := range histories {
				cells = append(cells, ratioCell(entry.Ratio(scenario, one.variant)))
			}
			row = append(row, strings.Join(cells, ", "))
		}
		rows = append(rows, row)
	}
	return fmt.Sprintf(`%s## By release

Mooring's time divided by the tuned reference's in the same run: with the plain plugin, then with the bulk plugin. Seconds of different
machines do not compare. *Next* is what will be released.

![Ratios to the tuned reference by release](benchmarks/%s)

%s%s`, historyBegins, HistoryChartFile, table(rows...), historyEnds)
}

// ReplaceHistory returns a page with the history of some entries in place of the one that it shows. It is an error if it shows none.
func ReplaceHistory(page string, entries []figures.Entry) (string, error) {
	before, rest, begins := strings.Cut(page, historyBegins)
	_, after, ends := strings.Cut(rest, historyEnds)
	if !begins || !ends {
		return "", fmt.Errorf("the page has no lines %q and %q: `make bench` writes one that has", strings.TrimSpace(historyBegins),
			strings.TrimSpace(historyEnds))
	}
	return before + History(entries) + after, nil
}

// followed are the main scenarios of which there is any ratio.
func followed(entries []figures.Entry) []string {
	var names []string
	for _, scenario := range figures.MainScenarios {
		if slices.ContainsFunc(entries, func(entry figures.Entry) bool {
			_, plain := entry.Ratio(scenario, figures.MooringPlain)
			_, bulk := entry.Ratio(scenario, figures.MooringBulk)
			return plain || bulk
		}) {
			names = append(names, scenario)
		}
	}
	return names
}

// beside is the reference that an entry was measured with, and what keeps its ratios from being compared with those of the last row.
func beside(entries []figures.Entry, entry figures.Entry) string {
	text := path.Base(entry.Reference)
	if differ := entry.Differences(entries[len(entries)-1]); len(differ) > 0 {
		text += fmt.Sprintf(" (**%s** than in the last row)", strings.Join(differ, ", "))
	}
	return text
}

func releaseName(entry figures.Entry) string {
	if entry.Version == figures.Next {
		return "*next*"
	}
	return entry.Version
}

func ratioCell(ratio figures.Ratio, known bool) string {
	if !known {
		return "–"
	}
	return boundedText(ratio, known)
}

// HistoryChart draws the ratios to the tuned reference, a panel for each main scenario and a line for each plugin. A line is broken
// where ratios on both sides do not compare.
func HistoryChart(entries []figures.Entry) Lines {
	chart := Lines{Title: "Time compared with the tuned reference, by release (less is better)", One: "the tuned reference"}
	for i, entry := range entries {
		chart.Ticks = append(chart.Ticks, strings.Trim(releaseName(entry), "*"))
		if i > 0 {
			if differ := entry.Differences(entries[i-1]); len(differ) > 0 {
				chart.Breaks = append(chart.Breaks, Break{Before: i, Why: entry.Version + ": " + strings.Join(differ, ", ")})
			}
		}
	}
	for _, one := range histories {
		chart.Legend = append(chart.Legend, "Mooring, "+one.title)
	}
	for _, scenario := range followed(entries) {
		panel := Panel{Label: scenario}
		for series, one := range histories {
			for i, entry := range entries {
				if ratio, known := entry.Ratio(scenario, one.variant); known {
					panel.Points = append(panel.Points, Point{
						Series: series, At: i, Value: ratio.Value, Text: boundedText(ratio, known), Open: ratio.Bound != figures.Exact,
					})
				}
			}
		}
		chart.Panels = append(chart.Panels, panel)
	}
	return chart
}
