package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
)

// Shrink removes disturbances, Services, nodes and characters from a draw, as long as Mooring still breaks a rule. It returns the scenario with the
// findings about that rule.
func Shrink(t *testing.T, d draw.Draw, rule string) (string, error) {
	findings, err := broken(t, d, rule)
	if err != nil {
		return "", err
	}
	if len(findings) == 0 {
		return "", fmt.Errorf("seed %d does not break rule %q", d.Seed, rule)
	}
	try := func(smaller draw.Draw) bool {
		less, failure := broken(t, smaller, rule)
		if failure != nil || len(less) == 0 {
			return false
		}
		d, findings = smaller, less
		return true
	}
	shrink(d.Plugin.Characters, 0, func(left []draw.Character) bool {
		smaller := d
		smaller.Plugin.Characters = left
		return try(smaller)
	})
	shrink(d.Events, 0, func(left []draw.Event) bool {
		smaller := d
		smaller.Events = left
		return try(smaller)
	})
	shrink(d.Services, 1, func(left []draw.Service) bool {
		smaller := d
		smaller.Services = left
		return try(smaller)
	})
	shrink(d.Nodes, 1, func(left []draw.Node) bool {
		smaller := d
		smaller.Nodes = left
		return try(smaller)
	})
	text := d.String()
	for _, finding := range findings {
		text += finding.String() + "\n"
	}
	return text, nil
}

// broken returns the findings about a rule.
func broken(t *testing.T, d draw.Draw, rule string) ([]rules.Finding, error) {
	outcome, err := Draw(t, d)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(outcome.Findings, func(finding rules.Finding) bool { return finding.Rule != rule }), nil
}

// shrink removes pieces of a list, large ones first, as long as what is left is accepted.
func shrink[T any](list []T, least int, accept func([]T) bool) {
	for size := (len(list) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(list); {
			to := min(from+size, len(list))
			left := slices.Concat(list[:from], list[to:])
			if len(left) >= least && accept(left) {
				list = left
			} else {
				from = to
			}
		}
	}
}
