package report_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/report"
)

// invented returns entries of as many versions, the last of which is the next. What Mooring takes shrinks by a tenth each time.
func invented(count int) []figures.Entry {
	var entries []figures.Entry
	factor := 1.0
	for i := range count {
		entry := figures.Entry{
			Format: figures.EntryFormat, Version: fmt.Sprintf("v0.%d.0", i+1), Reference: "k8s.io/cloud-provider v0.37.2",
			Began: time.Date(2030, 1, i+1, 0, 0, 0, 0, time.UTC), Size: figures.EntrySize{Nodes: 1000},
		}
		if i == count-1 {
			entry.Version = figures.Next
		}
		for j, scenario := range figures.MainScenarios {
			for _, one := range []figures.EntryResult{
				{Variant: figures.ReferenceTuned, Seconds: 10},
				{Variant: figures.MooringPlain, Seconds: 12 * factor / float64(1+j*j)},
				{Variant: figures.MooringBulk, Seconds: 10 * factor / float64(1+j*j*j)},
			} {
				one.Scenario, one.Complete = scenario, true
				entry.Results = append(entry.Results, one)
			}
		}
		factor *= 0.9
		entries = append(entries, entry)
	}
	return entries
}

func TestHistoryHasARowForEachRelease(t *testing.T) {
	entries := invented(3)
	entries[0].Reference = "k8s.io/cloud-provider v0.36.3"
	entries[1].Results[0].Complete = false                                           // join-1000 of the tuned reference
	entries[1].Results = append(entries[1].Results[:4:4], entries[1].Results[5:]...) // join-5000 of the plain plugin
	entries[2].Results[1].Complete, entries[2].Results[1].Seconds = false, 240       // join-1000 of the plain plugin
	entries[2].Results = append(entries[2].Results[:5:5], entries[2].Results[6:]...) // join-5000 of the bulk plugin
	text := report.History(entries)
	for _, want := range []string{
		"| release | measured | reference | `join-1000` | `join-5000` |",
		"| v0.1.0 | 2030-01-01 | cloud-provider v0.36.3 (**another reference** than in the last row) | × 1.20, × 1.00 | × 0.60, × 0.50 |",
		"| v0.2.0 | 2030-01-02 | cloud-provider v0.37.2 | < × 1.08, < × 0.90 | –, × 0.45 |",
		"| *next* | 2030-01-03 | cloud-provider v0.37.2 | > × 24.00, × 0.81 | × 0.49, – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the history lacks %q:\n%s", want, text)
		}
	}
}

func TestHistoryIsReplacedInItsPage(t *testing.T) {
	titles := map[string]string{}
	before, err := report.Page(measured(), titles, invented(1))
	if err != nil {
		t.Fatal(err)
	}
	want, err := report.Page(measured(), titles, invented(2))
	if err != nil {
		t.Fatal(err)
	}
	got, err := report.ReplaceHistory(before, invented(2))
	if err != nil || got != want {
		t.Errorf("error %v, page\n%s\nwant\n%s", err, got, want)
	}
	if _, err := report.ReplaceHistory("# Another page\n", invented(1)); err == nil || !strings.Contains(err.Error(), "make bench") {
		t.Errorf("a page without a history: error %v, want one that says what to run", err)
	}
}

// TestHistoryChart draws what there is after one run, two and many.
func TestHistoryChart(t *testing.T) {
	for _, count := range []int{1, 2, 10} {
		svg := report.HistoryChart(invented(count)).SVG()
		requireWellFormed(t, "the chart of the history", svg)
		points := 2 * count * len(figures.MainScenarios)
		if got := strings.Count(svg, `r="3.5"`); got != points {
			t.Errorf("%d entries: %d points, want %d", count, got, points)
		}
		if got, want := strings.Count(svg, `class="line `), points-2*len(figures.MainScenarios); got != want {
			t.Errorf("%d entries: %d lines between points, want %d", count, got, want)
		}
		requireTicksApart(t, svg)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%d entries: a point has no place", count)
		}
		if again := report.HistoryChart(invented(count)).SVG(); again != svg {
			t.Errorf("%d entries: the same figures make another chart", count)
		}
	}
}

func TestHistoryChartOfNoDifference(t *testing.T) {
	entries := invented(1)
	for i := range entries[0].Results {
		entries[0].Results[i].Seconds = 10
	}
	svg := report.HistoryChart(entries).SVG()
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || !strings.Contains(svg, "× 0.5<") || !strings.Contains(svg, "× 2<") {
		t.Errorf("a panel has no scale:\n%s", svg)
	}
}

func TestLinesAreBrokenWhereRatiosDoNotCompare(t *testing.T) {
	entries := invented(4)
	for i := range 2 {
		entries[i].Reference = "k8s.io/cloud-provider v0.36.3"
	}
	svg := report.HistoryChart(entries).SVG()
	scenarios := len(figures.MainScenarios)
	if got, want := strings.Count(svg, `class="line `), 2*2*scenarios; got != want { // two of three steps are drawn
		t.Errorf("%d lines between points, want %d", got, want)
	}
	if got, want := strings.Count(svg, `class="break"`), scenarios+1; got != want { // and one beside its explanation
		t.Errorf("%d marks of breaks, want %d", got, want)
	}
	if !strings.Contains(svg, "v0.3.0: another reference") {
		t.Error("the break is not explained")
	}
}

func TestLinesShowBoundsAndGaps(t *testing.T) {
	entries := invented(3)
	entries[1].Results = entries[1].Results[3:] // without join-1000
	entries[2].Results[1].Complete = false
	svg := report.HistoryChart(entries).SVG()
	if got := strings.Count(svg, `class="open `); got != 1 {
		t.Errorf("%d points are shown as bounds, want 1", got)
	}
	if got, want := strings.Count(svg, `class="line `), 2*2*(len(figures.MainScenarios)-1); got != want {
		t.Errorf("%d lines between points, want %d: none over a gap", got, want)
	}
}

// requireTicksApart fails if the ticks of a panel touch, by an estimate of how wide text is.
func requireTicksApart(t *testing.T, svg string) {
	t.Helper()
	tick := regexp.MustCompile(`<text class="quiet small middle" x="([0-9.]+)" y="[0-9.]+">([^<]*)</text>`)
	panel, _, _ := strings.Cut(svg, "</g>")
	end := 0.0
	for _, match := range tick.FindAllStringSubmatch(panel, -1) {
		var at float64
		if _, err := fmt.Sscan(match[1], &at); err != nil {
			t.Fatal(err)
		}
		half := float64(len(match[2])) * 6 / 2
		if at-half < end {
			t.Errorf("%s begins at %.0f, and what is left of it ends at %.0f", match[2], at-half, end)
		}
		end = at + half
	}
	if end == 0 {
		t.Error("there are no ticks")
	}
}
