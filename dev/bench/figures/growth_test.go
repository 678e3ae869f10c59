package figures_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
)

func TestExponentAndSlope(t *testing.T) {
	curve := func(points ...figures.Point) figures.Curve { return figures.Curve{Points: points} }
	for name, test := range map[string]struct {
		curve           figures.Curve
		exponent, slope float64
		known           bool
	}{
		"linear":                  {curve(figures.Point{Nodes: 10, Value: 5}, figures.Point{Nodes: 40, Value: 20}), 1, 0.5, true},
		"square":                  {curve(figures.Point{Nodes: 10, Value: 1}, figures.Point{Nodes: 20, Value: 9}, figures.Point{Nodes: 30, Value: 9}), 2, 0.4, true},
		"none":                    {curve(figures.Point{Nodes: 10, Value: 3}, figures.Point{Nodes: 20, Value: 3}), 0, 0, true},
		"always zero":             {curve(figures.Point{Nodes: 10}, figures.Point{Nodes: 20}), 0, 0, true},
		"from zero":               {curve(figures.Point{Nodes: 10}, figures.Point{Nodes: 20, Value: 1}), 0, 0, false},
		"one size":                {curve(figures.Point{Nodes: 10, Value: 1}), 0, 0, false},
		"nothing":                 {curve(), 0, 0, false},
		"given up":                {curve(figures.Point{Nodes: 10, Value: 1}, figures.Point{Nodes: 20, Value: 2, Open: true}), 0, 0, false},
		"given up after as long":  {curve(figures.Point{Nodes: 10, Value: 1, Open: true}, figures.Point{Nodes: 20, Value: 1, Open: true}), 0, 0, false},
		"the same size two times": {curve(figures.Point{Nodes: 10, Value: 1}, figures.Point{Nodes: 10, Value: 2}), 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			exponent, known := test.curve.Exponent()
			slope, slopeKnown := test.curve.Slope()
			if math.Abs(exponent-test.exponent) > 1e-9 || math.Abs(slope-test.slope) > 1e-9 || known != test.known || slopeKnown != test.known {
				t.Errorf("exponent %v %t, slope %v %t; want %v, %v, %t", exponent, known, slope, slopeKnown, test.exponent, test.slope, test.known)
			}
		})
	}
}

func TestHourlyCallsAreThoseOfTheDefaults(t *testing.T) {
	minute := figures.Result{Seconds: 60, Calls: map[string]figures.Calls{
		"ListInstances": {Received: 30}, "ListLoadBalancers": {Received: 10}, "ListRoutes": {Received: 1},
	}}
	if got, want := minute.HourlyCalls(), 30.0*12+10*6+60; math.Abs(got-want) > 1e-9 {
		t.Errorf("%v calls an hour, want %v", got, want)
	}
}

func TestGrowthChecks(t *testing.T) {
	const mib = 1 << 20
	grown := func(scenario, variant string, nodes int, one figures.Result) figures.Result {
		one.Scenario, one.Variant, one.Nodes = scenario, variant, nodes
		return one
	}
	report := figures.Report{
		Setup: figures.Setup{Size: figures.Size{QuotaRate: 20, QuotaBurst: 20}},
		Results: []figures.Result{
			grown(figures.GrowthJoin, figures.MooringBulk, 1000, figures.Result{Seconds: 5, Complete: true, CPUSeconds: 1}),
			grown(figures.GrowthJoin, figures.MooringBulk, 2000, figures.Result{Seconds: 10, Complete: true, CPUSeconds: 4}),
			grown(figures.GrowthRest, figures.MooringBulk, 1000, figures.Result{Seconds: 60, Complete: true, ResidentBytes: 80 * mib}),
			grown(figures.GrowthRest, figures.MooringBulk, 2000, figures.Result{Seconds: 60, Complete: true, ResidentBytes: 90 * mib}),
			grown(figures.GrowthQuota, figures.MooringPlain, 1020, figures.Result{Seconds: 55, Complete: true}),
			grown(figures.GrowthQuota, figures.MooringPlain, 2020, figures.Result{Seconds: 130, Complete: true}),
			grown(figures.GrowthQuota, figures.MooringPlain, 3020, figures.Result{Seconds: 100}),
		},
	}
	got := map[string]figures.Check{}
	for _, check := range figures.GrowthChecks(report) {
		got[check.Says] = check
	}
	for says, want := range map[string]struct {
		value float64
		met   bool
	}{
		"Join: time linear or better (time)":                                       {1, true},
		"Join: processor time linear or better (processor time)":                   {2, false},
		"A node and its share of the Services: 12 KiB of memory resident, at rest": {10 * mib / 1000.0, true},
		"Quota, 1020 nodes: within 20 % of the floor of 50.0 s":                    {55, true},
		"Quota, 2020 nodes: within 20 % of the floor of 100.0 s":                   {130, false},
		"Quota, 3020 nodes: within 20 % of the floor of 150.0 s":                   {100, false},
		"Rest: memory linear or better (memory)":                                   {math.Log(9.0/8) / math.Log(2), true},
		"Rest: processor time linear or better (processor time of an hour)":        {0, true},
	} {
		check, found := got[says]
		if !found || math.Abs(check.Got-want.value) > 1e-9 || check.Met() != want.met {
			t.Errorf("%s: %+v, met %t; want %v, %t", says, check, check.Met(), want.value, want.met)
		}
	}
	for says := range got {
		if strings.HasPrefix(says, "Services") || strings.HasPrefix(says, "Quota: time") {
			t.Errorf("%s is checked, though it is not known", says)
		}
	}
	if figures.RestPeriod != time.Minute {
		t.Error("the page and its flags say a minute")
	}
}
