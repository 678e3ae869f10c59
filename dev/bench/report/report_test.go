package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/report"
)

// measured is a run in which the default reference was given up and one target was missed.
func measured() figures.Report {
	return figures.Report{
		Began: time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC), Seconds: 120,
		Machine: figures.Machine{CPU: "a <fast> one", Cores: 2, MemoryBytes: 8 << 30, Kernel: "Linux 6.1", Go: "go1.26"},
		Setup: figures.Setup{
			Latency: 50 * time.Millisecond, PageSize: 500, BalancerWrites: 50, Size: figures.Size{ManyNodes: 5000, Services: 200},
			Variants: []figures.Variant{
				{Name: figures.ReferenceDefault, Title: "reference"}, {Name: figures.MooringDefault, Title: "Mooring"},
				{Name: figures.ReferenceTuned, Title: "reference, tuned"},
				{Name: figures.MooringPlain, Title: "Mooring, <plain> & simple"}, {Name: figures.MooringBulk, Title: "Mooring, bulk"},
			},
		},
		Results: []figures.Result{
			{Scenario: "join-5000", Variant: figures.ReferenceDefault, Seconds: 300, Done: 2010, Of: 5000},
			{Scenario: "join-5000", Variant: figures.MooringDefault, Seconds: 250, Complete: true},
			{Scenario: "join-5000", Variant: figures.ReferenceTuned, Seconds: 20, Complete: true},
			{
				Scenario: "join-5000", Variant: figures.MooringPlain, Seconds: 30, Complete: true,
				Calls:  map[string]figures.Calls{"GetInstanceByName": {Received: 5000, Refused: 7}, "ListRoutes": {Received: 1}},
				Writes: map[string]int{"patch nodes": 5000},
			},
			{Scenario: "join-5000", Variant: figures.MooringBulk, Seconds: 1, Complete: true},
			{Scenario: "idle", Variant: figures.MooringBulk, Seconds: 60, Complete: true},
			{Scenario: figures.Join300, Variant: figures.ReferenceTuned, Seconds: 2, Complete: true},
			{Scenario: figures.Join300, Variant: figures.MooringBulk, Seconds: 1, Complete: true},
			{Scenario: figures.Throttled300, Variant: figures.ReferenceTuned, Seconds: 2.2, Complete: true},
			{Scenario: figures.Throttled300, Variant: figures.MooringBulk, Seconds: 120, Rounds: []float64{130, 120, 110}},
		},
	}
}

func TestPage(t *testing.T) {
	page, err := report.Page(measured(), map[string]string{"join-5000": "5,000 nodes join", "idle": "Nothing happens"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 5,000 nodes join | > 300 s (2,010 of 5,000) | 250 s | 20.0 s | 30.0 s | 1.00 s | < × 0.83 | × 1.50 | × 0.050 |",
		"- **5,000 nodes: nine tenths of the tuned reference's time** (same flags): wanted ≤ × 0.90, reached × 1.50.\n  Each node costs",
		"Measured on 2030-05-06 on a <fast> one: 2 cores, 8 GiB of memory, Linux 6.1,\ngo1.26", "Not explained yet",
		"| reference, tuned | 2.00 s | 2.20 s | × 1.10 |\n| Mooring, bulk | 1.00 s | > 120 s (0 of 0) | > × 120.00 |",
		"the undisturbed time** (bulk): wanted ≤ × 1.20, reached > × 120.00.", "accepts 50 changes of load balancers at once",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<no value>", "time** (bulk): wanted ≤ × 0.90"} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q", not)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestReadmeShowsTheSameFlagsSideBySide(t *testing.T) {
	page, err := report.ReplaceReadme("before\n<!-- The benchmark's table begins: `make bench` writes it. -->\nold\n<!-- The benchmark's table ends. -->\nafter\n",
		figures.Report{Results: []figures.Result{
			{Scenario: "join-1000", Variant: figures.ReferenceDefault, Seconds: 150, Complete: true},
			{Scenario: "join-1000", Variant: figures.MooringDefault, Seconds: 52, Complete: true},
			{Scenario: "join-1000", Variant: figures.ReferenceTuned, Seconds: 4, Complete: true},
			{Scenario: "join-1000", Variant: figures.MooringPlain, Seconds: 3.5, Complete: true},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n<!-- The benchmark's table begins", "|  | reference | Mooring | reference, tuned | Mooring, same flags | Mooring, plugin that lists |\n",
		"| 1,000 nodes join | 150 s | 52.0 s | 4.00 s | 3.50 s | – |\n", "table ends. -->\nafter\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "old\n") {
		t.Errorf("the old table is left:\n%s", page)
	}
	if _, err := report.ReplaceReadme("no table", figures.Report{}); err == nil {
		t.Error("no error about a README without a table")
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	for name, number := range map[string]string{"calls.svg": "5,001", "writes.svg": "5,000"} {
		if !strings.Contains(report.Charts(measured())[name].SVG(), ">"+number) {
			t.Errorf("%s does not show the number %s", name, number)
		}
	}
	for name, chart := range report.Charts(measured()) {
		if elements := requireWellFormed(t, name, chart.SVG()); elements < 20 {
			t.Errorf("%s has %d elements only", name, elements)
		}
	}
}

// requireWellFormed fails unless a text is XML, and returns how many parts it has.
func requireWellFormed(t *testing.T, name, text string) (elements int) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; elements++ {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return elements
		} else if err != nil {
			t.Fatalf("%s is not well-formed: %v", name, err)
		}
	}
}

func TestChartIsLogarithmic(t *testing.T) {
	svg := report.Chart{Legend: []string{"a"}, Groups: []report.Group{{Label: "g", Bars: []report.Bar{
		{Value: 0.1, Text: "least"}, {Value: 1, Text: "middle"}, {Value: 10, Text: "most"}, {Value: 0, Text: "nothing"},
	}}}}.SVG()
	for _, want := range []string{`width="1.0"`, `width="245.0"`, `width="490.0"`, `width="0.0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no bar has %s:\n%s", want, svg)
		}
	}
}

func TestTable(t *testing.T) {
	table := report.Table(measured())
	for _, want := range []string{"> 300 s (2,010 of 5,000)", "× 0.050", "× 1.10", "> × 120.00", "GetInstanceByName 5,000"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}
