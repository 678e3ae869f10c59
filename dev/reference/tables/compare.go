package tables

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writes are the methods that change the cloud. How often a plugin is asked anything else is another question.
var writes = []string{"EnsureLoadBalancer", "UpdateLoadBalancer", "EnsureLoadBalancerDeleted", "CreateRoute", "DeleteRoute"}

// ofUpdate are the events that an update of targets causes.
var ofUpdate = regexp.MustCompile(`^Service (\S+): (Normal UpdatedLoadBalancer|Warning UnAvailableLoadBalancer)$`)

// Compare returns what differs under the second manager, one line for each property.
func Compare(reference, mooring Outcome) []string {
	var differences []string
	differs := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	if reference.Ended != mooring.Ended {
		differs("process: ended %t instead of %t", mooring.Ended, reference.Ended)
	}
	for _, object := range keys(reference.Objects, mooring.Objects) {
		theirs, ours := reference.Objects[object], mooring.Objects[object]
		switch {
		case theirs == nil:
			differs("%s: still there", object)
			continue
		case ours == nil:
			differs("%s: gone", object)
			continue
		}
		for _, property := range keys(theirs, ours) {
			if theirs[property] != ours[property] {
				differs("%s: %s is %q instead of %q", object, property, ours[property], theirs[property])
			}
		}
	}
	if !slices.Equal(reference.Routes, mooring.Routes) {
		differs("cloud: routes are %q instead of %q", mooring.Routes, reference.Routes)
	}
	theirs, ours := written(reference.Calls), written(mooring.Calls)
	for _, event := range reference.Events {
		if match := ofUpdate.FindStringSubmatch(event); match != nil {
			if key := metav1.NamespaceDefault + "/" + match[1]; !sameWrites(theirs[key], ours[key]) && gathered(theirs[key], ours[key]) {
				continue
			}
		}
		if !slices.Contains(mooring.Events, event) {
			differs("no event %s", event)
		}
	}
	for _, event := range mooring.Events {
		if !slices.Contains(reference.Events, event) {
			differs("event %s", event)
		}
	}
	return append(differences, compareCalls(reference.Calls, mooring.Calls, reference.anyOrder)...)
}

func keys[V any](of ...map[string]V) []string {
	all := map[string]bool{}
	for _, one := range of {
		for key := range one {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// compareCalls compares the writes to each object one by one, and what was asked by kinds: asking less is free.
func compareCalls(reference, mooring []call, anyOrder bool) []string {
	var differences []string
	theirs, ours := grouped(reference), grouped(mooring)
	for _, key := range keys(theirs, ours) {
		method, _, _ := strings.Cut(key, " ")
		if slices.Contains(writes, method) {
			continue
		}
		if most := len(theirs[key]); len(ours[key]) > most+min(1, most/2) { // the last period of a case may end a moment before or after it
			differences = append(differences, fmt.Sprintf("calls: %s %d times instead of %d", key, len(ours[key]), len(theirs[key])))
		}
	}
	theirsByObject, oursByObject := written(reference), written(mooring)
	if anyOrder && slices.Equal(texts(theirsByObject), texts(oursByObject)) {
		return differences
	}
	for _, object := range keys(theirsByObject, oursByObject) {
		a, b := theirsByObject[object], oursByObject[object]
		switch {
		case sameWrites(a, b):
		case gathered(a, b): // how many there are depends on the moment in which the reference looks at a set of nodes that changes
		case fewerWrites(a, b):
			differences = append(differences, fmt.Sprintf("fewer calls about %s: %s instead of %s", object, show(b), show(a)))
		default:
			differences = append(differences, fmt.Sprintf("calls about %s: %s instead of %s", object, show(b), show(a)))
		}
	}
	return differences
}

func grouped(calls []call) map[string][]call {
	groups := map[string][]call{}
	for _, one := range calls {
		key := one.method + " " + one.object
		groups[key] = append(groups[key], one)
	}
	return groups
}

// texts are the writes about each object, whichever that is.
func texts(objects map[string][]repeated) []string {
	var all []string
	for _, list := range objects {
		all = append(all, show(list))
	}
	slices.Sort(all)
	return all
}

// repeated is a write and how often it was made without another one between.
type repeated struct {
	call
	times int
}

// written returns the writes about each object in their order.
func written(calls []call) map[string][]repeated {
	objects := map[string][]repeated{}
	for _, one := range calls {
		if !slices.Contains(writes, one.method) {
			continue
		}
		list := objects[one.object]
		if last := len(list) - 1; last >= 0 && list[last].call == one {
			list[last].times++
		} else {
			list = append(list, repeated{one, 1})
		}
		objects[one.object] = list
	}
	return objects
}

// sameWrites says that two managers made the same writes in the same order. Repetitions may be fewer, but not fewer than half.
func sameWrites(reference, mooring []repeated) bool {
	return slices.EqualFunc(reference, mooring, func(a, b repeated) bool {
		return a.call == b.call && b.times <= a.times && 2*b.times >= a.times
	})
}

// fewerWrites says that a manager made some of the other's writes in the same order, and the last of them.
func fewerWrites(reference, mooring []repeated) bool {
	if len(reference) == 0 || len(mooring) == 0 || reference[len(reference)-1].call != mooring[len(mooring)-1].call {
		return false
	}
	next := 0
	for _, one := range reference {
		if next < len(mooring) && one.call == mooring[next].call && mooring[next].times <= one.times {
			next++
		}
	}
	return next == len(mooring)
}

// gathered says that a manager made the other's writes but for updates of targets that a later one replaced.
func gathered(reference, mooring []repeated) bool {
	if !fewerWrites(reference, mooring) {
		return false
	}
	next := 0
	for _, one := range reference {
		switch {
		case next < len(mooring) && one.call == mooring[next].call:
			if mooring[next].times != one.times && one.method != "UpdateLoadBalancer" {
				return false
			}
			next++
		case one.method != "UpdateLoadBalancer":
			return false
		}
	}
	return true
}

func show(writes []repeated) string {
	texts := make([]string, 0, len(writes))
	for _, one := range writes {
		hosts, _, _ := strings.Cut(one.args, " spec ")
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%d x %s %s", one.times, one.method, hosts)))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}
