package writelimit

import (
	"math"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Who is next, of waiters in the order in which they asked.
func TestNextWaiting(t *testing.T) {
	patient := func(name string, priority int) *waiter { // has not been passed as often as allowed
		return &waiter{key: types.NamespacedName{Name: name}, priority: priority, peers: math.MaxInt}
	}
	failed := func(w *waiter) *waiter { w.failed = true; return w }
	unpassable := func(w *waiter) *waiter { w.passed, w.peers = 3, 3; return w }
	for name, test := range map[string]struct {
		waiting []*waiter
		want    string
	}{
		"no call waits": {nil, ""},
		"of equals the one that asked first": {
			[]*waiter{patient("a", priorityChange), patient("b", priorityChange)}, "a",
		},
		"the more urgent one": {
			[]*waiter{patient("refresh", priorityRefresh), patient("new", priorityNew), patient("deletion", priorityRemove)},
			"deletion",
		},
		"one that did not fail, however urgent those are that did": {
			[]*waiter{failed(patient("deletion", priorityRemove)), failed(patient("new", priorityNew)), patient("refresh", priorityRefresh)},
			"refresh",
		},
		"of failed ones the more urgent one": {
			[]*waiter{failed(patient("refresh", priorityRefresh)), failed(patient("new", priorityNew))}, "new",
		},
		"no call passes one that was passed as often as allowed": {
			[]*waiter{unpassable(patient("refresh", priorityRefresh)), patient("new", priorityNew), patient("deletion", priorityRemove)},
			"refresh",
		},
		"not even if that one has failed": {
			[]*waiter{failed(unpassable(patient("old", priorityRefresh))), patient("deletion", priorityRemove)}, "old",
		},
		"of the calls before it the more urgent one": {
			[]*waiter{patient("repair", priorityRepair), patient("change", priorityChange), unpassable(patient("retarget", priorityRetarget)),
				patient("deletion", priorityRemove)},
			"change",
		},
		"of several that must not be passed the first": {
			[]*waiter{unpassable(patient("refresh", priorityRefresh)), unpassable(patient("new", priorityNew))}, "refresh",
		},
		"a failed one that waited for long does not pass one that asked before it": {
			[]*waiter{patient("refresh", priorityRefresh), failed(unpassable(patient("new", priorityNew)))}, "refresh",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, w := range test.waiting {
				w.asked = uint64(i)
			}
			for range 2 { // the order of the list does not count
				got := ""
				if next := nextWaiting(test.waiting); next >= 0 {
					got = test.waiting[next].key.Name
				}
				if got != test.want {
					t.Errorf("%q is next, want %q", got, test.want)
				}
				slices.Reverse(test.waiting)
			}
		})
	}
}

// A waiter's peers are counted at their most, and those of a failed one are all others.
func TestCountPeers(t *testing.T) {
	refresh, other, created := &waiter{priority: priorityRefresh}, &waiter{priority: priorityRefresh}, &waiter{priority: priorityNew}
	failed := &waiter{priority: priorityRefresh, failed: true}
	for _, step := range []struct {
		waiting []*waiter
		want    []int
	}{
		{[]*waiter{refresh}, []int{0}},
		{[]*waiter{refresh, created}, []int{0, 0}},
		{[]*waiter{refresh, created, failed}, []int{0, 0, 2}},
		{[]*waiter{refresh, created, failed, other}, []int{1, 0, 3, 1}},
		{[]*waiter{refresh, failed}, []int{1, 3}},
	} {
		countPeers(step.waiting)
		for i, w := range step.waiting {
			if w.peers != step.want[i] {
				t.Errorf("%d of %d waiters has %d peers, want %d", i, len(step.waiting), w.peers, step.want[i])
			}
		}
	}
}
