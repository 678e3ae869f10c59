package chart_test

import (
	"slices"
	"strings"
	"testing"
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
