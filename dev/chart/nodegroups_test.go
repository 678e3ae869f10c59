package chart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/chart/render"
)

// The records of node groups and of fencing are granted where they are asked for, by name, and not in a dry run, which writes nothing.
func TestRecordsOfMetalAreGranted(t *testing.T) {
	granted(t, "nodeGroups", "mooring-metal-node-groups")
	granted(t, "fencing", "mooring-metal-fencing")
}

func granted(t *testing.T, value, lease string) {
	t.Helper()
	metal := "provider: {name: metal, metal: {" + value + ": true}, config: {existingSecret: x}}\n"
	for values, want := range map[string]int{
		metal: 2, metal + "dryRun: true\n": 0, strings.Replace(metal, ": true", ": false", 1): 0,
	} {
		var granted []string
		for _, unit := range rightsOf(t, values).namespaced {
			if strings.Contains(unit, lease) {
				granted = append(granted, unit)
			}
		}
		slices.Sort(granted)
		if len(granted) != want {
			t.Errorf("%s grants %q, want %d", values, granted, want)
		}
	}
}

// A Secret of MetalLB's namespace may be got by its name where passwords are used: each, or some.
func TestSecretsOfMetalLBAreGranted(t *testing.T) {
	const metal = "provider: {name: metal, metal: {configSource: metallb, metallbNamespace: lb}}\n"
	for values, want := range map[string][]string{
		metal: {"get secrets"}, strings.Replace(metal, "lb}", "lb, metallbSecrets: [a, b]}", 1): {"get secrets a", "get secrets b"},
		metal + "dryRun: true\n": nil, strings.Replace(metal, "configSource: metallb", `configSource: ""`, 1): nil,
	} {
		found := rightsOf(t, values)
		var granted []string
		for _, unit := range slices.Concat(found.cluster, found.namespaced) {
			if strings.Contains(unit, "secrets") {
				granted = append(granted, unit)
			}
		}
		if !slices.Equal(granted, want) {
			t.Errorf("%s grants %q, want %q", values, granted, want)
		}
	}
}

// MetalLB's resources are read where they are the source, and nothing of them is written in a dry run.
func TestResourcesOfMetalLBAreGranted(t *testing.T) {
	const metal = "provider: {name: metal, metal: {configSource: metallb, metallbNamespace: lb}}\n"
	for values, want := range map[string][2]bool{
		metal: {true, true}, metal + "dryRun: true\n": {true, false}, strings.Replace(metal, "configSource: metallb", `configSource: ""`, 1): {},
	} {
		rendered, err := render.Objects(load(t), parse(t, values))
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(rendered)
		got := [2]bool{strings.Contains(text, "--metal-config-source=metallb/lb"), strings.Contains(text, "ipaddresspools/status")}
		if got != want {
			t.Errorf("%s: the flag and the right to write are there: %v, want %v", values, got, want)
		}
	}
}
