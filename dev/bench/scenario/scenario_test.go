package scenario_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/bench/scenario"
)

func allBut(name string) []string {
	return slices.DeleteFunc(scenario.Names(scenario.Stages()), func(other string) bool { return other == name })
}

func TestSelect(t *testing.T) {
	for name, test := range map[string]struct {
		wanted  []string
		variant string
		want    []string
	}{
		"one":                            {[]string{"join-1000"}, figures.MooringPlain, []string{"join-1000"}},
		"one with what it needs":         {[]string{"notready-1000"}, figures.MooringPlain, []string{"services-200", "notready-1000"}},
		"what a variant has no part in":  {[]string{"steady-5000"}, figures.MooringPlain, nil},
		"what only one variant does":     {[]string{"steady-5000"}, figures.MooringBulk, []string{"join-5000", "steady-5000"}},
		"all but what it has no part in": {nil, figures.MooringBulk, allBut(figures.NotReadyOne)},
		"with one question at a time":    {[]string{figures.NotReadyOne}, figures.ReferenceTuned, []string{figures.NotReadyOne}},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := map[string]bool{}
			for _, one := range test.wanted {
				wanted[one] = true
			}
			got := scenario.Names(scenario.Select(scenario.Stages(), wanted, test.variant))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStagesAreConsistent(t *testing.T) {
	names := scenario.Names(scenario.Stages())
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
		t.Errorf("a name is there twice: %v", names)
	}
	for _, stage := range scenario.Stages() {
		var before []string
		for _, one := range stage.Scenarios {
			if one.Needs != "" && !slices.Contains(before, one.Needs) {
				t.Errorf("%s needs %s, which does not happen before it", one.Name, one.Needs)
			}
			if one.Act == nil || one.Limit == 0 || one.Title == "" {
				t.Errorf("%s is incomplete", one.Name)
			}
			before = append(before, one.Name)
		}
	}
}
