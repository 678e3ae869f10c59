package rules

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// count counts the calls of each method until the end of the shorter simulation. Ensure and Update are counted together: either may
// follow a change.
func (j *judge) count(record double.Record) map[string]int {
	counts := map[string]int{}
	for _, call := range record.Calls {
		if call.Began <= j.end {
			counts[kindOf(call.Method)]++
		}
	}
	return counts
}

func kindOf(method string) string {
	if method == "EnsureLoadBalancer" || method == "UpdateLoadBalancer" {
		return "EnsureLoadBalancer and UpdateLoadBalancer"
	}
	return method
}

// counts is rule 7: calls of each kind, at most the reference's or what its source would ask for on Mooring's objects, plus the budget.
func counts(j *judge) {
	reference, mooring := j.count(j.reference), j.count(j.mooring)
	var silent time.Duration
	for _, pause := range j.mooring.Unready {
		silent += pause
	}
	questions := int(silent/monitor) + len(j.draw.Nodes)
	minutes := int(j.end/time.Minute) + 1
	processes := 1 + len(j.mooring.Ends)
	perNode := len(j.draw.Nodes) * (2 + int(j.end/status)) * processes
	perService := len(j.draw.Services) * (2 + len(j.draw.Events)) * processes
	budget := map[string]int{
		"InstanceMetadata": max(reference["InstanceMetadata"]+len(j.draw.Nodes), perNode) + failed(j.mooring, "InstanceMetadata"),
		"InstanceExists":   max(reference["InstanceExists"], questions)*2 + 3*len(j.draw.Events) + failed(j.mooring, "InstanceExists"),
		"InstanceShutdown": max(reference["InstanceShutdown"], questions),
		"GetLoadBalancer":  reference["GetLoadBalancer"] + minutes + perService,
		"EnsureLoadBalancer and UpdateLoadBalancer": max(reference["EnsureLoadBalancer and UpdateLoadBalancer"], 2*len(j.draw.Services)) +
			len(j.draw.Services)*processes + 2*len(j.draw.Nodes),
		"EnsureLoadBalancerDeleted": reference["EnsureLoadBalancerDeleted"] + 2*len(j.draw.Services),
		"ListRoutes":                max(reference["ListRoutes"], int(j.end/(10*time.Second))) + 1,
		"CreateRoute":               max(reference["CreateRoute"], len(j.draw.Nodes)) + 2,
		"DeleteRoute":               max(reference["DeleteRoute"], len(j.draw.Nodes)) + 2,
	}
	for _, kind := range slices.Sorted(maps.Keys(mooring)) {
		if mooring[kind] > budget[kind] {
			method, _, _ := strings.Cut(kind, " ")
			j.add("7-count", "", j.lastCall(method, ""), "%d calls of %s, and by the reference %d; at most %d are due", mooring[kind], kind, reference[kind], budget[kind])
		}
	}
}

// failed counts the calls of a method that failed: each may be repeated.
func failed(record double.Record, method string) (count int) {
	for _, call := range record.Calls {
		if call.Method == method && call.Err != nil {
			count++
		}
	}
	return count
}

// concurrency is the other half of rule 7: calls of a method at the same time.
func concurrency(j *judge) {
	reported := map[string]bool{}
	for _, call := range j.mooring.Calls {
		if call.Overlap > double.Allowed(call.Method) && !reported[call.Method] {
			reported[call.Method] = true
			j.add("7-overlap", call.Object, call.Began, "%d calls of %s are under way, and %d are allowed", call.Overlap, call.Method, double.Allowed(call.Method))
		}
	}
}

// undisturbed is rule 8: no call is ended or repeated while it is under way.
func undisturbed(j *judge) {
	var ended, repeated bool
	for _, call := range j.mooring.Calls {
		if call.Withdrawn > 0 && !ended {
			ended = true
			j.add("8-ended", call.Object, call.Withdrawn, "Mooring ended the context of %s after %s", call.Method, (call.Withdrawn - call.Began).Round(time.Second))
		}
		if call.Repeated && !repeated {
			repeated = true
			j.add("8-repeated", call.Object, call.Began, "Mooring called %s while a call about the same object was under way", call.Method)
		}
	}
}

// arguments is rule 9: what one call gets is seen by no other.
func arguments(j *judge) {
	for _, call := range j.mooring.Calls {
		if call.Shared != "" {
			j.add("9", call.Object, call.Began, "%s: %s", call.Method, call.Shared)
			return
		}
	}
}
