package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/history"
	"github.com/mooring-ccm/mooring/dev/bench/report"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/must"
)

// measure writes a file of figures of a full run in which Mooring takes as many seconds and the tuned reference ten.
func measure(t *testing.T, began time.Time, seconds float64) string {
	t.Helper()
	measured := figures.Report{
		Began: began, Setup: figures.Setup{Reference: "k8s.io/cloud-provider v0.37.2", Size: runner.FullSize(), Variants: runner.Variants()},
	}
	for _, scenario := range figures.MainScenarios {
		for _, one := range []figures.Result{
			{Variant: figures.ReferenceTuned, Seconds: 10}, {Variant: figures.MooringPlain, Seconds: seconds}, {Variant: figures.MooringBulk, Seconds: seconds},
		} {
			one.Scenario, one.Complete = scenario, true
			measured.Results = append(measured.Results, one)
		}
	}
	return store(t, measured)
}

func store(t *testing.T, measured figures.Report) string {
	t.Helper()
	data, err := json.Marshal(measured)
	must.NoError(t, err)
	name := filepath.Join(t.TempDir(), "figures.json")
	must.NoError(t, os.WriteFile(name, data, 0o600))
	return name
}

func content(t *testing.T, name ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(name...))
	must.NoError(t, err)
	return string(data)
}

// TestReportThroughTwoReleases measures, releases, draws the same figures again, measures anew and releases again.
func TestReportThroughTwoReleases(t *testing.T) {
	docs, day := t.TempDir(), time.Date(2030, 5, 6, 0, 0, 0, 0, time.UTC)
	first := measure(t, day, 5)
	must.NoError(t, run([]string{"--docs", docs, "--figures", first}))
	if err := run([]string{"--docs", docs, "--check", "v0.9.0"}); err == nil || !strings.Contains(err.Error(), "--release=v0.9.0") {
		t.Errorf("the check of a release without figures: error %v, want one that says what to run", err)
	}
	must.NoError(t, run([]string{"--docs", docs, "--release", "v0.9.0"}))
	must.NoError(t, run([]string{"--docs", docs, "--check", "v0.9.0"}))
	released := content(t, docs, "benchmarks", "history", "v0.9.0.json")
	must.NoError(t, run([]string{"--docs", docs, "--figures", first}))
	requireRows(t, docs, "| v0.9.0 | 2030-05-06 |")
	must.NoError(t, run([]string{"--docs", docs, "--figures", measure(t, day.AddDate(0, 0, 1), 4)}))
	requireRows(t, docs, "| v0.9.0 | 2030-05-06 |", "| *next* | 2030-05-07 |")
	must.NoError(t, run([]string{"--docs", docs, "--release", "v0.10.0"}))
	requireRows(t, docs, "| v0.9.0 | 2030-05-06 |", "| v0.10.0 | 2030-05-07 |")
	if now := content(t, docs, "benchmarks", "history", "v0.9.0.json"); now != released {
		t.Errorf("the figures of the first release are now\n%s", now)
	}
	if svg := content(t, docs, "benchmarks", "history.svg"); !strings.Contains(svg, ">v0.10.0<") || strings.Contains(svg, ">next<") {
		t.Error("the chart does not show the second release")
	}
	if page := content(t, docs, "benchmarks.md"); strings.Count(page, "## By release") != 1 || !strings.Contains(page, "## Cost") {
		t.Errorf("the page lacks a part:\n%s", page)
	}
}

// requireRows fails unless these rows of the history's table stand on the page, in this order and no others.
func requireRows(t *testing.T, docs string, rows ...string) {
	t.Helper()
	_, section, _ := strings.Cut(content(t, docs, "benchmarks.md"), "## By release")
	section, _, _ = strings.Cut(section, "\n## ")
	if got := strings.Count(section, "\n| ") - 1; got != len(rows) { // but for the head
		t.Errorf("%d rows, want %d:\n%s", got, len(rows), section)
	}
	for at, rest := 0, section; at < len(rows); at++ {
		var found bool
		if _, rest, found = strings.Cut(rest, rows[at]); !found {
			t.Errorf("no row %q in its place:\n%s", rows[at], section)
		}
	}
}

func TestHistoryHasTheFiguresOfParts(t *testing.T) {
	docs, day := t.TempDir(), time.Date(2030, 5, 6, 0, 0, 0, 0, time.UTC)
	size := runner.FullSize()
	part := store(t, figures.Report{
		Began: day.AddDate(0, 0, 1), Setup: figures.Setup{Reference: "k8s.io/cloud-provider v0.37.2", Size: size, Variants: runner.Variants()},
		Results: []figures.Result{{Scenario: "routes-1000", Variant: figures.MooringBulk, Seconds: 2, Complete: true}},
	})
	must.NoError(t, run([]string{"--docs", docs, "--figures", measure(t, day, 5), "--with", part}))
	entries, err := history.Read(historyFolder(docs))
	must.NoError(t, err)
	if len(entries) != 1 || !entries[0].Began.Equal(day) || !strings.Contains(entries[0].Remark, "`routes-1000` come from a run of their own") {
		t.Fatalf("the history is %+v", entries)
	}
	for scenario, want := range map[string]float64{"routes-1000": 0.2, "join-1000": 0.5} {
		if ratio, _ := entries[0].Ratio(scenario, figures.MooringBulk); ratio.Value != want {
			t.Errorf("%s: ratio %v, want %v", scenario, ratio.Value, want)
		}
	}
}

func TestUnreadableHistoryIsLeftAlone(t *testing.T) {
	docs := t.TempDir()
	name := filepath.Join(historyFolder(docs), "v0.1.0.json")
	must.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.NoError(t, os.WriteFile(name, []byte(`{"format": 2}`), 0o600))
	if err := run([]string{"--docs", docs, "--figures", measure(t, time.Now(), 5)}); err == nil || !strings.Contains(err.Error(), "format is 2") {
		t.Errorf("error %v, want one about the format", err)
	}
	for _, absent := range []string{filepath.Join(docs, "benchmarks.md"), filepath.Join(historyFolder(docs), "next.json")} {
		if _, err := os.Stat(absent); err == nil {
			t.Errorf("%s is written", absent)
		}
	}
}

// TestReadmeHasATable looks that a run finds the place for its table in the README of this checkout.
func TestReadmeHasATable(t *testing.T) {
	if _, err := report.ReplaceReadme(content(t, "..", "..", "..", "..", "README.md"), figures.Report{}); err != nil {
		t.Error(err)
	}
}

// TestPageShowsTheHistory holds the page and the chart of this checkout against the files of its history.
func TestPageShowsTheHistory(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "..", "docs")
	entries, err := history.Read(historyFolder(docs))
	must.NoError(t, err)
	if len(entries) == 0 {
		t.Log("nothing was measured yet")
		return
	}
	drawn, err := drawHistory(docs)
	must.NoError(t, err)
	for name, want := range drawn {
		if content(t, docs, name) != want {
			t.Errorf("%s does not show the history: run `go -C dev/bench run ./cmd/report --redraw`", name)
		}
	}
}
