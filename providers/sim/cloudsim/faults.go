package cloudsim

import (
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// faults are the faults that are still to come.
type faults struct {
	*fault.Rules[api.Operation, api.Fault]
}

func newFaults() faults { return faults{fault.NewRules[api.Operation, api.Fault]()} }

func (f faults) add(one api.Fault) {
	matches := func(op api.Operation) bool { return one.Operation == op || one.Operation == api.AnyOperation }
	f.Add(fault.Rule[api.Operation, api.Fault]{Matches: matches, Skip: one.Skip, Count: one.Count, Effect: one})
}

func (f faults) list() []api.Fault {
	left := []api.Fault{}
	for _, rule := range f.List() {
		rule.Effect.Skip, rule.Effect.Count = rule.Skip, rule.Count
		left = append(left, rule.Effect)
	}
	return left
}
