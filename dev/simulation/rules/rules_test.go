package rules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
	"github.com/mooring-ccm/mooring/dev/simulation/rules"
)

// world is a draw with a node and a Service.
func world(events ...draw.Event) draw.Draw {
	return draw.Draw{Nodes: []draw.Node{{Name: "n"}, {Name: "m"}}, Services: []draw.Service{{Name: "s"}}, Events: events}
}

// good is what a manager does that breaks no rule.
func good() double.Record {
	return double.Record{
		Length:      20 * time.Minute,
		Initialized: map[string]time.Duration{"n": time.Second, "m": time.Second},
		Removed:     map[string]time.Duration{"m": 3 * time.Minute},
		Created:     map[string]int{"s": 1},
		Calls: []*double.Call{
			{Method: "InstanceMetadata", Object: "n", Began: 0, Ended: time.Second, Overlap: 1},
			{Method: "EnsureLoadBalancer", Object: "s", Began: 4 * time.Minute, Ended: 4*time.Minute + time.Second, Overlap: 1, Port: 8000, Targets: []string{"m"}},
		},
		Writes: []double.Write{{At: time.Second, Resource: "nodes", Object: "n"}},
	}
}

func TestRules(t *testing.T) {
	late := draw.Event{At: 3 * time.Minute, Kind: draw.PortChange, Object: "s", Number: 8000}
	exclude := draw.Event{At: 3 * time.Minute, Kind: draw.Exclude, Object: "n"}
	leave := draw.Event{At: time.Minute, Kind: draw.Leave, Object: "m"}
	for _, test := range []struct {
		rule   string
		event  draw.Event
		broken func(*double.Record)
	}{
		{"1", late, func(r *double.Record) { r.Initialized["n"] = time.Minute }},
		{"1", late, func(r *double.Record) { delete(r.Initialized, "n") }},
		{"2a-deleted", late, func(r *double.Record) { r.Faults = []double.Fault{{Rule: "2a-deleted", Object: "n"}} }},
		{"3", leave, func(r *double.Record) { delete(r.Removed, "m") }},
		{"4", late, func(r *double.Record) { r.Calls[1].Missing = []string{"n"} }},
		{"4-excluded", exclude, func(r *double.Record) { r.Calls[1].Targets = []string{"n", "m"} }},
		{"5-second", late, func(r *double.Record) { r.Created["s"] = 2 }},
		{"6", late, func(r *double.Record) {
			for range 5 {
				r.Writes = append(r.Writes, r.Writes[0])
			}
		}},
		{"6-idle", late, func(r *double.Record) { r.Writes = append(r.Writes, double.Write{At: 15 * time.Minute, Object: "m"}) }},
		{"7-count", late, func(r *double.Record) {
			for range 100 {
				r.Calls = append(r.Calls, &double.Call{Method: "EnsureLoadBalancerDeleted", Object: "s", Overlap: 1})
			}
		}},
		{"7-overlap", late, func(r *double.Record) { r.Calls[0].Overlap = 3 }},
		{"8-ended", late, func(r *double.Record) { r.Calls[0].Withdrawn = time.Second }},
		{"8-repeated", late, func(r *double.Record) { r.Calls[0].Repeated = true }},
		{"9", late, func(r *double.Record) { r.Calls[0].Shared = "its node is shared" }},
		{"11", late, func(r *double.Record) { r.Ends = []string{errors.New("fatal").Error()} }},
		{"13", late, func(r *double.Record) { r.Open = []double.Fault{{Rule: "13", Object: "s"}} }},
		{"13-port", late, func(r *double.Record) { r.Calls[1].Port = 80 }},
	} {
		t.Run(test.rule, func(t *testing.T) {
			d := world(test.event)
			if findings := rules.Check(d, good(), good()); len(findings) > 0 {
				t.Fatalf("a good record breaks %v", findings)
			}
			broken := good()
			test.broken(&broken)
			findings := rules.Check(d, good(), broken)
			if len(findings) != 1 || findings[0].Rule != test.rule {
				t.Errorf("found %v", findings)
			}
		})
	}
}
