package report

import (
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

//go:embed growth.md.tmpl
var growthText string

var growthPage = template.Must(template.New("growth").Parse(growthText))

// GrowthPage is the page of the documentation about growing clusters.
func GrowthPage(measured figures.Report) (string, error) {
	var b strings.Builder
	err := growthPage.Execute(&b, map[string]any{
		"Setup": measured.Setup, "Remark": measured.Remark, "Machine": measured.Machine, "Date": measured.Began.Format("2006-01-02"),
		"Memory": measured.Machine.MemoryBytes >> 30, "Minutes": fmt.Sprintf("%.0f", measured.Seconds/60),
		"Targets": targetsText(figures.GrowthChecks(measured)),
		"Join":    growthTable(measured, figures.GrowthJoin), "Services": growthTable(measured, figures.GrowthServices),
		"Rest": growthTable(measured, figures.GrowthRest), "Quota": growthTable(measured, figures.GrowthQuota),
		"RestSeconds": fmt.Sprintf("%.0f", measured.Setup.Size.Idle.Seconds()), "TrailSeconds": fmt.Sprintf("%.0f", measured.Setup.Trail.Seconds()),
		"MostGrowth": figures.MostGrowth, "NodesAService": figures.NodesAService,
	})
	if err != nil {
		return "", fmt.Errorf("write the page about growth: %w", err)
	}
	return b.String(), nil
}

// GrowthTables is all figures about growing clusters, and the targets, as tables of Markdown for the terminal.
func GrowthTables(measured figures.Report) string {
	var b strings.Builder
	for _, scenario := range []string{figures.GrowthJoin, figures.GrowthServices, figures.GrowthRest, figures.GrowthQuota} {
		if len(measured.Grown(scenario)) > 0 {
			fmt.Fprintf(&b, "%s\n\n%s\n", scenario, growthTable(measured, scenario))
		}
	}
	b.WriteString(checkTable(figures.GrowthChecks(measured)))
	return b.String()
}

// growthTable has a column for each cluster, and a row for each figure with how it grows. Empty if the scenario has not run.
func growthTable(measured figures.Report, scenario string) string {
	if len(measured.Grown(scenario)) == 0 {
		return ""
	}
	head, services := []string{"nodes"}, []string{"Services"}
	for _, result := range measured.Grown(scenario) {
		head, services = append(head, grouped(int64(result.Nodes))), append(services, grouped(int64(result.Services)))
	}
	rows := [][]string{append(head, "exponent", "upper half")}
	if scenario == figures.GrowthServices || scenario == figures.GrowthRest {
		rows = append(rows, append(services, "", ""))
	}
	for _, curve := range measured.Curves(scenario) {
		row := []string{curve.Says}
		for _, point := range curve.Points {
			text := amount(point.Value, curve.Unit)
			if point.Open {
				text = "given up at " + text
			}
			row = append(row, text)
		}
		rows = append(rows, append(row, exponentTexts(curve)...))
	}
	return table(rows...)
}

// exponentTexts are the exponents of a curve and of its upper half. It emphasizes exponents that are too large.
func exponentTexts(curve figures.Curve) (texts []string) {
	for _, part := range []figures.Curve{curve, curve.UpperHalf()} {
		exponent, known := part.Exponent()
		text := amount(exponent, figures.UnitExponent)
		switch {
		case !known:
			text = "–"
		case exponent > figures.MostGrowth:
			text = "**" + text + "**"
		}
		texts = append(texts, text)
	}
	return texts
}

// shownLine is a figure of a scenario that a chart has a line for.
type shownLine struct{ scenario, says string }

// growthCharts are what the charts show, by the names of their files.
var growthCharts = map[string]struct {
	title string
	lines []shownLine
}{
	"scale-time.svg": {"Time until all is done, in seconds", []shownLine{
		{figures.GrowthJoin, "time"}, {figures.GrowthServices, "time"}, {figures.GrowthQuota, "time"},
	}},
	"scale-calls.svg": {"Calls of the cloud", []shownLine{
		{figures.GrowthJoin, "cloud calls"}, {figures.GrowthServices, "cloud calls"}, {figures.GrowthRest, "cloud calls an hour"},
	}},
	"scale-memory.svg": {"Memory, in MiB", []shownLine{
		{figures.GrowthServices, "memory at most"}, {figures.GrowthRest, "memory"}, {figures.GrowthRest, "of this live on the heap"},
	}},
	"scale-cpu.svg": {"Processor time of the manager, in seconds", []shownLine{
		{figures.GrowthJoin, "processor time"}, {figures.GrowthServices, "processor time"}, {figures.GrowthRest, "processor time of an hour"},
	}},
	"scale-traffic.svg": {"Received from the API server, in MiB", []shownLine{
		{figures.GrowthJoin, "received from the API server"}, {figures.GrowthServices, "received from the API server"},
		{figures.GrowthRest, "received from the API server a minute"},
	}},
}

// GrowthCharts returns the charts about growing clusters by the names of their files.
func GrowthCharts(measured figures.Report) map[string]LineChart {
	charts := map[string]LineChart{}
	for name, shown := range growthCharts {
		chart := LineChart{Title: shown.title + " (less is better; dashed: linear growth)", Across: "nodes"}
		for _, line := range shown.lines {
			for _, curve := range measured.Curves(line.scenario) {
				if curve.Says == line.says {
					chart.Lines = append(chart.Lines, lineOf(curve))
				}
			}
		}
		charts[name] = chart
	}
	return charts
}

// growthName is what a chart calls a scenario of growing clusters.
func growthName(scenario string) string {
	switch scenario {
	case figures.GrowthJoin:
		return "nodes join"
	case figures.GrowthServices:
		return "Services come"
	case figures.GrowthRest:
		return "at rest"
	default:
		return "nodes join under a quota"
	}
}

func lineOf(curve figures.Curve) Line {
	line := Line{Label: growthName(curve.Scenario) + ": " + curve.Says}
	for _, point := range curve.Points {
		value := point.Value
		if curve.Unit == figures.UnitBytes {
			value /= 1 << 20
		}
		line.Points = append(line.Points, LinePoint{Size: float64(point.Nodes), Value: value, Text: amount(point.Value, curve.Unit)})
	}
	return line
}
