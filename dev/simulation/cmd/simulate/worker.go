package main

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
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
		one := result{Seed: seed, Rules: outcome.Rules(), Kinds: outcome.Kinds(), Digests: outcome.Digests(), Findings: map[string][]string{}}
		for _, finding := range outcome.Findings {
			if kind := finding.Kind(); len(one.Findings[kind]) < printed {
				one.Findings[kind] = append(one.Findings[kind], finding.String())
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
