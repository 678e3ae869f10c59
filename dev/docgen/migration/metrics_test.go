package main

import (
	"slices"
	"strings"
	"testing"
)

// The source of the reference shows the values of labels that are constant there.
func TestValuesOfTheReference(t *testing.T) {
	declared, err := referenceMetrics()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(declared, func(f family) bool { return f.name == "route_controller_route_sync_total" })
	if at < 0 {
		t.Fatal("the metric is not there")
	}
	slices.Sort(declared[at].values["outcome"])
	if got := declared[at].values; !slices.Equal(got["outcome"], []string{"changed", "error", "noop"}) || !slices.Equal(got["trigger"], []string{"periodic"}) {
		t.Errorf("values %v", got)
	}
	ours, err := documented("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := ours["route_controller_route_sync_total"].values["trigger"]; !slices.Equal(got, []string{"node_change", "periodic"}) {
		t.Errorf("our values of trigger are %q", got)
	}
}

func TestLabelsAndValuesAreCompared(t *testing.T) {
	reference := family{name: "m", labels: []string{"outcome"}, values: map[string][]string{"outcome": {"noop"}}, texts: map[string]bool{"noop": true, "error": true}}
	for name, test := range map[string]struct {
		label  string
		values []string
		want   string // in the error; empty: none
	}{
		"the same":           {"outcome", []string{"noop", "error"}, ""},
		"another label":      {"result", []string{"noop"}, "has the labels"},
		"a value is missing": {"outcome", []string{"error"}, `in the reference "noop"`},
		"a value of ours":    {"outcome", []string{"noop", "ok"}, `the value "ok"`},
	} {
		ours := family{name: "m", labels: []string{test.label}, values: map[string][]string{test.label: test.values}}
		if err := ours.compareLabels(reference); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
