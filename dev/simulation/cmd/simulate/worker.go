package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/run"
)

// resultPrefix begins the lines that a worker prints. The package testing prints other lines.
const resultPrefix = "result "

// printed is how many findings of a kind are printed.
const printed = 3

// result is what a worker prints of a draw.
type result struct {
	Seed uint64 `json:"seed"`
	// Rules and Kinds are what Mooring broke, sorted. Findings are the first ones of each kind.
	Rules    []string            `json:"rules"`
	Kinds    []string            `json:"kinds"`
	Findings map[string][]string `json:"findings"`
	// Digests are hashes of the traces of objects.
	Digests map[string]run.Digest `json:"digests"`
	// Rare are the kinds that are not listed and that too few repetitions show or chance explains, with the traces of their objects.
	Rare map[string]string `json:"rare"`
	// Beside counts the calls of each method that entered beside an outstanding one. Never says that the reference does not settle.
	Beside map[string]int `json:"beside"`
	Never  bool           `json:"never"`
}

// work runs draws one after the other.
func work(t *testing.T, o options, out io.Writer) error {
	for seed := o.seed; seed < o.seed+o.draws; seed++ {
		outcome, err := run.Draw(t, draw.New(seed))
		if err != nil {
			return err
		}
		if t.Failed() {
			return fmt.Errorf("seed %d: the bubble of a manager failed", seed)
		}
		one := result{
			Seed: seed, Rules: outcome.Rules(), Kinds: outcome.Kinds(), Digests: outcome.Digests(), Findings: map[string][]string{},
			Beside: outcome.Account.Beside, Never: len(outcome.Account.Never) > 0,
		}
		for _, finding := range outcome.Findings {
			if kind := finding.Kind(); len(one.Findings[kind]) < printed {
				one.Findings[kind] = append(one.Findings[kind], finding.String())
			}
		}
		if !o.repeat {
			if one.Rare, err = rare(t, outcome); err != nil {
				return err
			}
			if err := save(t, o.save, outcome.Draw, unlisted(one)); err != nil {
				return err
			}
		}
		line, err := json.Marshal(one)
		if err != nil {
			return fmt.Errorf("result of seed %d: %w", seed, err)
		}
		if _, err := fmt.Fprintf(out, "%s%s\n", resultPrefix, line); err != nil {
			return fmt.Errorf("result of seed %d: %w", seed, err)
		}
	}
	return nil
}

// unlisted returns the kinds of a result that count and are not listed.
func unlisted(one result) []string {
	return slices.DeleteFunc(slices.Clone(one.Kinds), func(kind string) bool { return run.Known(kind) != "" || one.Rare[kind] != "" })
}

// rare repeats a draw that breaks rules in ways that are not listed. It returns the kinds that do not count, with the traces of their objects.
func rare(t *testing.T, outcome run.Outcome) (map[string]string, error) {
	kinds := unlisted(result{Kinds: outcome.Kinds()})
	if len(kinds) == 0 {
		return nil, nil
	}
	confirmed, err := run.Repeat(t, outcome)
	if err != nil {
		return nil, err
	}
	if confirmed, err = run.Beyond(t, outcome.Draw, managers.Mooring, confirmed); err != nil {
		return nil, err
	}
	traces := map[string]string{}
	for _, kind := range kinds {
		if slices.Contains(confirmed, run.RuleOf(kind)) {
			continue
		}
		var objects []string
		for _, finding := range outcome.Findings {
			if finding.Kind() == kind {
				objects = append(objects, finding.Object)
			}
		}
		var trace strings.Builder
		outcome.Trace(&trace, objects...)
		traces[kind] = trace.String()
	}
	return traces, nil
}

// save shrinks the draw for each kind and writes the scenario into a folder. It skips a kind that a saved scenario already lists. A scenario lists
// every kind that its shrunk draw shows.
func save(t *testing.T, folder string, d draw.Draw, kinds []string) error {
	if folder == "" {
		return nil
	}
	for _, kind := range kinds {
		saved, err := run.SavedScenarios(os.DirFS(folder), ".")
		if err != nil {
			return err
		}
		if slices.ContainsFunc(saved, func(one run.Scenario) bool { return one.Lists(kind) }) {
			continue
		}
		text, err := run.ShrinkKind(t, d, kind)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return fmt.Errorf("saving a scenario: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, run.FileName(kind)), []byte(text), 0o600); err != nil {
			return fmt.Errorf("saving a scenario: %w", err)
		}
	}
	return nil
}
