// Command report writes docs/benchmarks.md and its charts from the figures that the command bench saved. It measures nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/test/bench/figures"
	"github.com/mooring-ccm/mooring/test/bench/report"
	"github.com/mooring-ccm/mooring/test/bench/scenario"
)

func main() {
	from := pflag.String("figures", filepath.Join("..", "..", "out", "bench", "figures.json"), "The file with the figures.")
	parts := pflag.StringArray("with", nil, "A file with the figures of a part, which replace those of the same scenarios and variants. "+
		"May be given several times.")
	docs := pflag.String("docs", filepath.Join("..", "..", "docs"), "The folder of the documentation.")
	pflag.Parse()
	if err := write(*from, *parts, *docs); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func read(name string) (figures.Report, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return figures.Report{}, fmt.Errorf("read the figures (make bench writes them): %w", err)
	}
	var measured figures.Report
	if err := json.Unmarshal(data, &measured); err != nil {
		return figures.Report{}, fmt.Errorf("read the figures in %s: %w", name, err)
	}
	return measured, nil
}

func write(from string, parts []string, docs string) error {
	measured, err := read(from)
	if err != nil {
		return err
	}
	for _, name := range parts {
		part, err := read(name)
		if err != nil {
			return err
		}
		if measured, err = measured.Merge(part, scenario.Names(scenario.Stages())); err != nil {
			return fmt.Errorf("add the figures in %s: %w", name, err)
		}
	}
	titles := map[string]string{}
	for _, stage := range scenario.Stages() {
		for _, one := range stage.Scenarios {
			titles[one.Name] = one.Title
		}
	}
	page, err := report.Page(measured, titles)
	if err != nil {
		return err
	}
	files := map[string]string{"benchmarks.md": page}
	for name, chart := range report.Charts(measured) {
		files[filepath.Join("benchmarks", name)] = chart.SVG()
	}
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
