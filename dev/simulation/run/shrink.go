package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
)

// Shrink removes characters, disturbances, Services and nodes from a draw, and makes the rest plainer, as long as a manager still
// breaks a rule. It returns the text of the scenario, with the kind and the findings as comments.
func Shrink(t *testing.T, d draw.Draw, program *managers.Manager, rule string) (string, error) {
	findings, err := broken(t, d, program, rule)
	if err != nil {
		return "", err
	}
	if len(findings) == 0 {
		return "", fmt.Errorf("seed %d does not break rule %q", d.Seed, rule)
	}
	try := func(change func(*draw.Draw)) bool {
		smaller := d
		smaller.Nodes, smaller.Services = slices.Clone(d.Nodes), slices.Clone(d.Services)
		change(&smaller)
		less, failure := broken(t, smaller, program, rule)
		if failure != nil || len(less) == 0 {
			return false
		}
		d, findings = smaller, less
		return true
	}
	shrink(d.Events, 0, func(left []draw.Event) bool { return try(func(d *draw.Draw) { d.Events = left }) })
	shrink(d.Nodes, 1, func(left []draw.Node) bool { return try(func(d *draw.Draw) { d.Nodes = left }) })
	shrink(d.Services, 1, func(left []draw.Service) bool { return try(func(d *draw.Draw) { d.Services = left }) })
	shrink(d.Plugin.Characters, 0, func(left []draw.Character) bool { return try(func(d *draw.Draw) { d.Plugin.Characters = left }) })
	plainer(d, try)
	return scenarioText(d, findings), nil
}

// ShrinkKind shrinks a draw to a scenario of a kind of failure.
func ShrinkKind(t *testing.T, d draw.Draw, kind string) (string, error) {
	text, err := Shrink(t, d, managers.Mooring, RuleOf(kind))
	if err != nil {
		return "", err
	}
	shrunk, err := ParseScenario(kind, text)
	if err != nil {
		return "", err
	}
	if !shrunk.Lists(kind) {
		text = kindPrefix + kind + "\n" + text
	}
	return text, nil
}

// plainer tries what the draw does without: parameters of the plugin that no character needs, nodes that join late or are taken over, Services
// that come late.
func plainer(d draw.Draw, try func(func(*draw.Draw)) bool) {
	try(func(d *draw.Draw) {
		d.Plugin = draw.Plugin{Characters: d.Plugin.Characters, Latency: d.Plugin.Latency, Lag: d.Plugin.Lag, FaultRate: d.Plugin.FaultRate}
	})
	try(func(d *draw.Draw) { d.Plugin.Lag, d.Plugin.FaultRate = 0, 0 })
	late := func(node draw.Node) bool { return node != draw.Node{Name: node.Name} }
	if slices.ContainsFunc(d.Nodes, late) && !try(func(d *draw.Draw) {
		for i := range d.Nodes {
			d.Nodes[i] = draw.Node{Name: d.Nodes[i].Name}
		}
	}) {
		for i := range d.Nodes {
			if late(d.Nodes[i]) {
				try(func(d *draw.Draw) { d.Nodes[i] = draw.Node{Name: d.Nodes[i].Name} })
			}
		}
	}
	for i, service := range d.Services {
		if service.Created > 0 {
			try(func(d *draw.Draw) { d.Services[i].Created = 0 })
		}
	}
}

// printed is how many findings a scenario shows.
const printed = 3

// scenarioText returns the text of a scenario.
func scenarioText(d draw.Draw, findings []rules.Finding) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s\n", kindPrefix, findings[0].Kind())
	for i, finding := range findings {
		if i < printed {
			fmt.Fprintf(&text, "# %s\n", strings.TrimSpace(finding.String()))
		}
	}
	return text.String() + d.String()
}

// broken returns the findings about a rule.
func broken(t *testing.T, d draw.Draw, program *managers.Manager, rule string) ([]rules.Finding, error) {
	outcome, err := Compare(t, d, program)
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
