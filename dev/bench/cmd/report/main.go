// Command report writes docs/benchmarks.md, its charts, the README's table and the history from the figures that the command bench saved, or docs/benchmarks-scale.md
// with its charts from those of bench-scale. It measures nothing.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/history"
	"github.com/mooring-ccm/mooring/dev/bench/report"
	"github.com/mooring-ccm/mooring/dev/bench/runner"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
)

func main() {
	err := run(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	set := pflag.NewFlagSet("report", pflag.ContinueOnError)
	from := set.String("figures", "", "The file with the figures. Empty: the one that the benchmark writes.")
	parts := set.StringArray("with", nil, "A file with the figures of a part, which replace those of the same scenarios and variants. "+
		"May be given several times.")
	scale := set.Bool("scale", false, "Write docs/benchmarks-scale.md from the figures of bench-scale instead.")
	docs := set.String("docs", filepath.Join("..", "..", "docs"), "The folder of the documentation.")
	released := set.String("release", "", "Make the newest figures of the history those of this version, such as v0.1.0, and write nothing else anew.")
	checked := set.String("check", "", "Only check that the history has figures of a full run for this version.")
	redraw := set.Bool("redraw", false, "Write the chart and the table of the history anew, and nothing else.")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch {
	case *checked != "":
		return history.Check(historyFolder(*docs), *checked, runner.FullSize())
	case *released != "":
		return release(*docs, *released)
	case *redraw:
		return redrawHistory(*docs)
	case *scale:
		return growth(cmp.Or(*from, measuredBy("scale.json")), *parts, *docs)
	default:
		return comparison(cmp.Or(*from, measuredBy("figures.json")), *parts, *docs)
	}
}

// measuredBy is the file that a benchmark writes.
func measuredBy(name string) string { return filepath.Join("..", "..", "out", "bench", name) }

func historyFolder(docs string) string { return filepath.Join(docs, "benchmarks", "history") }

func read(name string) (figures.Report, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return figures.Report{}, fmt.Errorf("read the figures (make bench and make bench-scale write them): %w", err)
	}
	var measured figures.Report
	if err := json.Unmarshal(data, &measured); err != nil {
		return figures.Report{}, fmt.Errorf("read the figures in %s: %w", name, err)
	}
	return measured, nil
}

// readAll returns the figures of a file, with those of parts in place of the same ones.
func readAll(from string, parts []string) (figures.Report, error) {
	measured, err := read(from)
	if err != nil {
		return figures.Report{}, err
	}
	for _, name := range parts {
		part, err := read(name)
		if err != nil {
			return figures.Report{}, err
		}
		if measured, err = measured.Merge(part, scenario.Names(scenario.Stages())); err != nil {
			return figures.Report{}, fmt.Errorf("add the figures in %s: %w", name, err)
		}
	}
	return measured, nil
}

// comparison writes the page and the charts that compare Mooring with the reference, the history, and the README's table.
func comparison(from string, parts []string, docs string) error {
	measured, err := readAll(from, parts)
	if err != nil {
		return err
	}
	entries, err := history.Read(historyFolder(docs))
	if err != nil {
		return err
	}
	entries = figures.Record(entries, figures.NewEntry(measured))
	titles := map[string]string{}
	for _, stage := range scenario.Stages() {
		for _, one := range stage.Scenarios {
			titles[one.Name] = one.Title
		}
	}
	page, err := report.Page(measured, titles, entries)
	if err != nil {
		return err
	}
	files := map[string]string{"benchmarks.md": page, historyChart: report.HistoryChart(entries).SVG()}
	for name, chart := range report.Charts(measured) {
		files[filepath.Join("benchmarks", name)] = chart.SVG()
	}
	if readme, err := os.ReadFile(filepath.Join(docs, readmeFile)); err == nil {
		if files[readmeFile], err = report.ReplaceReadme(string(readme), measured); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the README: %w", err)
	}
	if err := history.WriteNext(historyFolder(docs), entries); err != nil {
		return err
	}
	return writeFiles(docs, files)
}

// readmeFile is the README, seen from the folder of the documentation.
var readmeFile = filepath.Join("..", "README.md")

// growth writes the page and the charts about growing clusters.
func growth(from string, parts []string, docs string) error {
	if len(parts) > 0 {
		return errors.New("--with: figures about growing clusters come from one run")
	}
	measured, err := read(from)
	if err != nil {
		return err
	}
	page, err := report.GrowthPage(measured)
	if err != nil {
		return err
	}
	files := map[string]string{"benchmarks-scale.md": page}
	for name, chart := range report.GrowthCharts(measured) {
		files[filepath.Join("benchmarks", name)] = chart.SVG()
	}
	return writeFiles(docs, files)
}

// historyChart is the chart's file below the folder of the documentation.
var historyChart = filepath.Join("benchmarks", report.HistoryChartFile)

// release names the newest figures after a release, in the history and where it is shown.
func release(docs, version string) error {
	if _, err := drawHistory(docs); err != nil { // before anything is renamed
		return err
	}
	if err := history.Release(historyFolder(docs), version, runner.FullSize()); err != nil {
		return err
	}
	return redrawHistory(docs)
}

// redrawHistory writes what the page shows of the history anew.
func redrawHistory(docs string) error {
	files, err := drawHistory(docs)
	if err != nil {
		return err
	}
	return writeFiles(docs, files)
}

// drawHistory returns the page with the history as its files say it is now, and its chart, by the names of their files.
func drawHistory(docs string) (map[string]string, error) {
	entries, err := history.Read(historyFolder(docs))
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		return nil, fmt.Errorf("draw the history: %w", err)
	}
	redrawn, err := report.ReplaceHistory(string(page), entries)
	if err != nil {
		return nil, fmt.Errorf("draw the history: %s: %w", filepath.Join(docs, "benchmarks.md"), err)
	}
	return map[string]string{"benchmarks.md": redrawn, historyChart: report.HistoryChart(entries).SVG()}, nil
}

func writeFiles(docs string, files map[string]string) error {
	if err := os.MkdirAll(filepath.Join(docs, "benchmarks"), 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
