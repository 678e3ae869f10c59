package report_test

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/report"
)

// grown are figures of three clusters of which the largest costs too much.
func grown() figures.Report {
	whole := measured()
	whole.Setup.Size = figures.Size{Targets: 100, QuotaRate: 20, QuotaBurst: 20, Idle: time.Minute}
	whole.Setup.Trail, whole.Setup.Common = 30*time.Second, []string{"--a", "--b"}
	whole.Results = nil
	for i, nodes := range []int{1000, 2000, 4000} {
		factor := int64(1) << i
		for _, scenario := range []string{figures.GrowthJoin, figures.GrowthServices, figures.GrowthRest} {
			whole.Results = append(whole.Results, figures.Result{
				Scenario: scenario, Variant: figures.MooringBulk, Nodes: nodes, Services: nodes / 3, Complete: true, Seconds: 60,
				Calls: map[string]figures.Calls{"ListInstances": {Received: 2 * factor}}, CPUSeconds: float64(factor * factor),
				PeakBytes: 100 << 20 * factor, ResidentBytes: 90 << 20, ReceivedBytes: 3 << 20 * factor,
				Writes: map[string]int{"patch nodes": nodes, "create events": 50},
			})
		}
	}
	return whole
}

func TestGrowthPage(t *testing.T) {
	page, err := report.GrowthPage(grown())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| nodes | 1,000 | 2,000 | 4,000 | exponent | upper half |", "| Services | 333 | 666 | 1,333 |",
		"| processor time | 1.00 s | 4.00 s | 16.0 s | **2.00** | **2.00** |",
		"| API writes, without events | 1,000 | 2,000 | 4,000 | 1.00 | 1.00 |", "| events written | 50 | 50 | 50 | 0.00 |",
		"| cloud calls an hour | 24 | 48 | 96 | 1.00 |", "| received from the API server | 3.0 MiB | 6.0 MiB | 12.0 MiB | 1.00 |",
		"- **Join: processor time linear or better (processor time)** (bulk): wanted ≤ 1.10, reached 2.00.\n", "\n  Not explained yet.\n",
		"12 KiB of memory resident at most, while Services come** (bulk): wanted ≤ 12.0 KiB, reached 102 KiB.\n  Resident memory",
		"100 targets at most", "do not edit. -->",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<no value>", "under a quota\n\nThe plain", "resident, at rest**"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
	words := slices.DeleteFunc(strings.Fields(page), func(field string) bool { return !strings.ContainsFunc(field, unicode.IsLetter) })
	if len(words) > 1500 {
		t.Errorf("the page has %d words", len(words))
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestLineChartShowsLinearGrowthAsItsDiagonal(t *testing.T) {
	svg := report.LineChart{Across: "nodes", Lines: []report.Line{{Label: "a < b", Points: []report.LinePoint{
		{Size: 10, Value: 1, Text: "least"}, {Size: 100, Value: 0, Text: "not drawn"}, {Size: 1000, Value: 100, Text: "most"},
	}}}}.SVG()
	for _, want := range []string{`points="70.0,370.0 780.0,74.0"`, `class="one" x1="70.0" y1="370.0" x2="780.0" y2="74.0"`, "a &lt; b", ">least<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the chart lacks %s:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "not drawn") {
		t.Error("a zero is drawn on a logarithmic scale")
	}
	requireWellFormed(t, "line chart", svg)
	requireWellFormed(t, "empty line chart", report.LineChart{}.SVG())
	for name, chart := range report.GrowthCharts(grown()) {
		requireWellFormed(t, name, chart.SVG())
		if len(chart.Lines) < 2 {
			t.Errorf("%s has %d lines", name, len(chart.Lines))
		}
	}
}

// TestLineChartTextsAvoidTheNextLine expects the text of the larger of two close values above it, and the text of the smaller below. No text may
// stand among the sizes below the chart.
func TestLineChartTextsAvoidTheNextLine(t *testing.T) {
	point := func(size, value float64, text string) report.LinePoint {
		return report.LinePoint{Size: size, Value: value, Text: text}
	}
	svg := report.LineChart{Lines: []report.Line{
		{Points: []report.LinePoint{point(10, 100, "first"), point(100, 110, "third")}},
		{Points: []report.LinePoint{point(10, 110, "second"), point(100, 100, "fourth")}},
		{Points: []report.LinePoint{point(10, 1, "fifth"), point(100, 2000, "sixth")}},
	}}.SVG()
	for text, want := range map[string]float64{"first": 18, "second": -8, "third": -8, "fourth": 18, "fifth": -8, "sixth": -8} {
		found := regexp.MustCompile(`cy="([0-9.]+)" r="4.0"/>\n<text class="" x="[0-9.]+" y="([0-9.]+)">` + text + "<").FindStringSubmatch(svg)
		if found == nil {
			t.Fatalf("no point has the text %s:\n%s", text, svg)
		}
		at, err := strconv.ParseFloat(found[1], 64)
		if y, errText := strconv.ParseFloat(found[2], 64); err != nil || errText != nil || math.Abs(y-at-want) > 0.15 {
			t.Errorf("%s is at %s, its point at %s; want it %.0f below", text, found[2], found[1], want)
		}
	}
}
