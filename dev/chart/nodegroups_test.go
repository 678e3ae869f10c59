package chart_test

import (
	"slices"
	"strings"
	"testing"
)

// The record of node groups is granted where it is asked for, by its name, and not in a dry run, which writes nothing.
func TestNodeGroupsAreGranted(t *testing.T) {
	const metal = "provider: {name: metal, metal: {nodeGroups: true}, config: {existingSecret: x}}\n"
	for values, want := range map[string]int{
		metal: 2, metal + "dryRun: true\n": 0, strings.Replace(metal, "nodeGroups: true", "nodeGroups: false", 1): 0,
	} {
		var granted []string
		for _, unit := range rightsOf(t, values).namespaced {
			if strings.Contains(unit, "mooring-metal-node-groups") {
				granted = append(granted, unit)
			}
		}
		slices.Sort(granted)
		if len(granted) != want {
			t.Errorf("%s grants %q, want %d", values, granted, want)
		}
	}
}
