package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
	"github.com/mooring-ccm/mooring/dev/simulation/draw"
)

// concurrency is the other half of rule 7: calls of a method at the same time.
func concurrency(j *judge) {
	reported := map[string]bool{}
	for _, call := range j.mooring.Calls {
		allowed := double.Allowed(call.Method, j.draw.Plugin)
		if call.Overlap > allowed && !reported[call.Method] {
			reported[call.Method] = true
			j.add("7-overlap", call.Object, call.Began, "%d calls of %s are under way, and %d are allowed", call.Overlap, call.Method, allowed)
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
		if call.Repeated && !repeated && !j.ofSuccessor(call) {
			repeated = true
			j.add("8-repeated", call.Object, call.Began, "Mooring called %s while a call about the same object was under way", call.Method)
		}
	}
}

// ofSuccessor reports whether a call by provider ID is about the instance that took a node's name, and the one under way about the instance before.
func (j *judge) ofSuccessor(call *double.Call) bool {
	return strings.HasSuffix(call.Method, "ByProviderID") && slices.ContainsFunc(j.draw.Events, func(event draw.Event) bool {
		same := func(other *double.Call) bool {
			return other != call && other.Method == call.Method && other.Object == call.Object && other.Process == call.Process &&
				event.At <= other.Began && other.Began <= call.Began && other.UnderWay(call.Began)
		}
		return event.Kind == draw.Replaced && event.Object == call.Object && event.At <= call.Began && !slices.ContainsFunc(j.mooring.Calls, same)
	})
}

// arguments is rule 9: what one call gets is seen by no other.
func arguments(j *judge) {
	reported := map[string]bool{}
	for _, call := range j.mooring.Calls {
		if call.Shared != "" && !reported[call.Method] {
			reported[call.Method] = true
			j.add("9", call.Object, call.Began, "%s: %s", call.Method, call.Shared)
		}
	}
}
