package figures_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

func TestCompare(t *testing.T) {
	ended := func(seconds float64) figures.Result { return figures.Result{Seconds: seconds, Complete: true} }
	given := func(seconds float64) figures.Result { return figures.Result{Seconds: seconds} }
	for name, test := range map[string]struct {
		one, other figures.Result
		want       figures.Ratio
		known      bool
	}{
		"both ended":           {ended(3), ended(2), figures.Ratio{Value: 1.5}, true},
		"the other was slower": {ended(3), given(300), figures.Ratio{Value: 0.01, Bound: figures.AtMost}, true},
		"the one was slower":   {given(300), ended(3), figures.Ratio{Value: 100, Bound: figures.AtLeast}, true},
		"neither ended":        {given(300), given(300), figures.Ratio{}, false},
		"no time":              {ended(3), ended(0), figures.Ratio{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := figures.Compare(test.one, test.other)
			if got != test.want || known != test.known {
				t.Errorf("got %v %v, want %v %v", got, known, test.want, test.known)
			}
		})
	}
}

func TestSumsCountOnlyWhatAllHaveRun(t *testing.T) {
	result := func(scenario, variant string, calls int64, writes int) figures.Result {
		return figures.Result{
			Scenario: scenario, Variant: variant, Complete: true, Seconds: 1,
			Calls: map[string]figures.Calls{"Get": {Received: calls, Refused: 1}}, Writes: map[string]int{"patch nodes": writes},
			CPUSeconds: float64(calls) / 10, PeakBytes: 100 - calls,
		}
	}
	report := figures.Report{
		Setup: figures.Setup{Variants: []figures.Variant{{Name: "a"}, {Name: "b"}, {Name: "absent"}}},
		Results: []figures.Result{
			result("join", "a", 10, 3), result("join", "b", 20, 4), result("idle", "a", 5, 1), result("idle", "b", 5, 1),
			result("steady", "b", 1000, 1000),
		},
	}
	want := []figures.Sum{
		{Variant: "a", CPUSeconds: 1.5, PeakBytes: 95, Calls: 15, Refused: 2, Writes: 4},
		{Variant: "b", CPUSeconds: 2.5, PeakBytes: 95, Calls: 25, Refused: 2, Writes: 5},
	}
	if diff := cmp.Diff(want, report.Sums()); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"join", "idle", "steady"}, report.Scenarios()); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
}

func TestChecks(t *testing.T) {
	report := figures.Report{
		Setup: figures.Setup{PageSize: 500, Size: figures.Size{
			ManyNodes: 5000, QuotaNodes: 600, Services: 200, QuotaRate: 20, QuotaBurst: 20,
		}},
		Results: []figures.Result{
			{Scenario: "join-1000", Variant: figures.ReferenceTuned, Seconds: 2, Complete: true},
			{Scenario: "join-1000", Variant: figures.MooringBulk, Seconds: 3, Complete: true},
			{Scenario: "routes-1000", Variant: figures.ReferenceTuned, Seconds: 240},
			{Scenario: "routes-1000", Variant: figures.MooringBulk, Seconds: 24, Complete: true},
			{Scenario: "services-200", Variant: figures.ReferenceTuned, Seconds: 240},
			{Scenario: "services-200", Variant: figures.MooringBulk, Seconds: 240},
			{
				Scenario: "notready-1000", Variant: figures.MooringBulk, Seconds: 5, Complete: true,
				Calls: map[string]figures.Calls{"UpdateLoadBalancer": {Received: 300}},
			},
			{
				Scenario: "quota-600", Variant: figures.MooringBulk, Seconds: 34, Complete: true,
				Calls: map[string]figures.Calls{"GetInstanceByName": {Received: 610, Refused: 10}},
			},
			{Scenario: figures.Join300, Variant: figures.MooringBulk, Seconds: 2, Complete: true},
			{Scenario: figures.Throttled300, Variant: figures.MooringBulk, Seconds: 240},
			{Scenario: "leader-sigterm", Variant: figures.MooringBulk, Seconds: 1, Complete: false, CPUSeconds: 4, PeakBytes: 110},
			{Scenario: "leader-sigterm", Variant: figures.ReferenceTuned, Seconds: 1, CPUSeconds: 10, PeakBytes: 100},
			{
				Scenario: "steady-5000", Variant: figures.MooringBulk, Seconds: 300, Complete: true,
				Calls: map[string]figures.Calls{"ListInstances": {Received: 10}},
			},
		},
	}
	type outcome struct {
		Target    string
		Want, Got float64
		Met       bool
	}
	var got []outcome
	for _, check := range figures.Checks(report) {
		if check.Variant != figures.MooringBulk {
			t.Errorf("%s is checked for %s, which has not run", check.Target, check.Variant)
		}
		got = append(got, outcome{check.Target, check.Want, check.Got, check.Met()})
	}
	want := []outcome{
		{"nodes", 0.9, 1.5, false}, {"routes", 0.5, 0.1, true}, {"throttled", 1.2, 120, false}, {"notready-questions", 2200, 0, true},
		{"behind", 1.05, 0, false}, {"notready-updates", 2, 1.5, true}, {"quota", 34.8, 34, true}, {"quota-refused", 9, 10, false},
		{"sigterm", 1.5, 1, false}, {"bulk-steady", 200, 120, true}, {"cpu", 0.6, 0.4, true}, {"memory", 0.6, 1.1, false},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestSilentNodesAreComparedWithTheSameFlags holds each variant to the reference with its flags, and silent nodes to bounds of their own.
func TestSilentNodesAreComparedWithTheSameFlags(t *testing.T) {
	result := func(scenario, variant string, seconds float64) figures.Result {
		return figures.Result{
			Scenario: scenario, Variant: variant, Seconds: seconds, Complete: true, CPUSeconds: seconds, PeakBytes: 1,
			Calls: map[string]figures.Calls{"GetInstance": {Received: 2000}, "ListInstances": {Received: 300}, "GetLoadBalancer": {Received: 9000}},
		}
	}
	report := figures.Report{Results: []figures.Result{
		result("join-1000", figures.ReferenceDefault, 100), result("join-1000", figures.MooringDefault, 50),
		result("quota-600", figures.ReferenceDefault, 10), result("quota-600", figures.MooringDefault, 11),
		result(figures.NotReady, figures.ReferenceTuned, 5), result(figures.NotReady, figures.MooringPlain, 20.5),
		result(figures.NotReadyOne, figures.ReferenceTuned, 90), result(figures.NotReadyOne, figures.MooringPlain, 120),
		result(figures.NotReadyAtOnce, figures.ReferenceTuned, 5), result(figures.NotReadyAtOnce, figures.MooringPlain, 7.5),
	}}
	want := map[string]bool{
		"behind of mooring-default": false, "notready of mooring-plain": false, "notready-questions of mooring-plain": false,
		"notready-one of mooring-plain": true, "notready-at-once of mooring-plain": false,
	}
	got := map[string]bool{}
	for _, check := range figures.Checks(report) {
		name := check.Target + " of " + check.Variant
		if _, wanted := want[name]; wanted {
			got[name] = check.Met()
		}
		switch {
		case check.Target == "behind" && !strings.HasSuffix(check.Says, "worst in `quota-600`"):
			t.Errorf("%s: want it to name quota-600", check.Says)
		case check.Target == "cpu" && check.Got != 4.1:
			t.Errorf("processor time × %v, want × 4.1, which only %s has", check.Got, figures.NotReady)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("met (-want +got):\n%s", diff)
	}
}

func TestKinds(t *testing.T) {
	got := figures.Kinds(map[string]int{"b": 2, "a": 2, "c": 3})
	if diff := cmp.Diff([]string{"c", "a", "b"}, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		numbers []float64
		want    float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 1}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 3, 2, 1}, 2}} {
		if got := figures.Median(test.numbers); got != test.want {
			t.Errorf("median of %v: %v, want %v", test.numbers, got, test.want)
		}
	}
}

func TestDisturbance(t *testing.T) {
	report := figures.Report{Results: []figures.Result{
		{Scenario: figures.Join300, Variant: "a", Seconds: 2, Complete: true},
		{Scenario: figures.Throttled300, Variant: "a", Seconds: 3, Complete: true},
		{Scenario: figures.Join300, Variant: "b", Seconds: 2, Complete: true},
		{Scenario: figures.Throttled300, Variant: "b", Seconds: 240},
		{Scenario: figures.Throttled300, Variant: "c", Seconds: 3, Complete: true},
	}}
	for variant, want := range map[string]figures.Ratio{"a": {Value: 1.5}, "b": {Value: 120, Bound: figures.AtLeast}, "c": {}} {
		if got, known := report.Disturbance(variant); got != want || known != (want != figures.Ratio{}) {
			t.Errorf("%s: got %v %t, want %v", variant, got, known, want)
		}
	}
}

func TestMerge(t *testing.T) {
	whole := figures.Report{
		Seconds: 100, Remark: "One remark.",
		Setup: figures.Setup{
			Kubernetes: "v1", Size: figures.Size{Nodes: 1000}, Variants: []figures.Variant{{Name: "a"}, {Name: "b"}},
		},
		Results: []figures.Result{
			{Scenario: "first", Variant: "a", Seconds: 1}, {Scenario: "first", Variant: "b", Seconds: 2}, {Scenario: "third", Variant: "a"},
		},
	}
	part := figures.Report{
		Began: time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC), Seconds: 10,
		Setup: figures.Setup{
			Kubernetes: "v1", Size: figures.Size{Nodes: 1000, Rounds: 3}, Variants: []figures.Variant{{Name: "b"}},
		},
		Results: []figures.Result{{Scenario: "first", Variant: "b", Seconds: 5}, {Scenario: "second", Variant: "b"}},
	}
	got, err := whole.Merge(part, []string{"first", "second", "third"})
	if err != nil {
		t.Fatal(err)
	}
	want := whole
	want.Seconds, want.Setup.Size = 110, part.Setup.Size
	want.Remark = "One remark.\nThe figures of `first`, `second` come from a run of their own on 2030-05-06."
	want.Results = []figures.Result{
		{Scenario: "first", Variant: "a", Seconds: 1}, {Scenario: "first", Variant: "b", Seconds: 5}, {Scenario: "second", Variant: "b"},
		{Scenario: "third", Variant: "a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	part.Machine, part.Setup.Kubernetes, part.Setup.Size.Nodes = figures.Machine{CPU: "fast", Cores: 2}, "v2", 20
	_, err = whole.Merge(part, nil)
	for _, named := range []string{"version of Kubernetes: v1 and v2", "number of nodes: 1000 and 20", "machine: first of a"} {
		if err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("error %v, want it to name %q", err, named)
		}
	}
}

func TestMergeSaysOnWhichMachineAPartWasMeasured(t *testing.T) {
	whole := figures.Report{Results: []figures.Result{{Scenario: "first", Variant: "a"}}}
	part := figures.Report{
		Machine: figures.Machine{CPU: "fast", Cores: 2}, Results: []figures.Result{{Scenario: "second", Variant: "a"}},
	}
	merged, err := whole.Merge(part, []string{"first", "second"})
	const want = "`second` come from a run of their own on another machine (fast, 2 cores)"
	if err != nil || !strings.Contains(merged.Remark, want) {
		t.Errorf("remark %q, error %v; want %q", merged.Remark, err, want)
	}
}
