package writelimit

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
)

// waiter is a pass that waits for a place in the write limiter.
type waiter struct {
	key types.NamespacedName
	// failed says that the last write for it failed.
	failed bool
	// priority is how urgent its write is.
	priority int
	// asked numbers waiters in the order in which they first asked.
	asked uint64
	// passed is how many waiters that asked later were admitted before it.
	passed int
	// peers is the largest number of its peers that have waited beside it at once. It is passed at most that often.
	peers int
	// held says that its pass writes elsewhere, see Limiter.Hold.
	held bool
	// stopNotice cancels the notice that it waits; nil: there is none.
	stopNotice func()
}

// passable reports whether a later one may still be admitted before it.
func (w *waiter) passable() bool { return w.passed < w.peers }

// nextWaiting returns the index of the waiter that is admitted next, -1 if none may be. No I/O, no clock, no randomness.
//
// One that has been passed as often as allowed is no longer passed: later ones have to wait. Of all others,
// those whose last write did not fail come before those whose did, then the more urgent ones, then the earlier ones.
//
// So a waiter is admitted after at most the n writes that waited when it asked, and one for each of its peers, see
// countPeers. A bound of n alone would be the order of arrival: the first of a thousand refreshes has none before it, and
// could let no new Service pass.
//
// See ADR 47.
func nextWaiting(waiting []*waiter) int {
	oldest := firstUnpassable(waiting)
	next := -1
	for i, w := range waiting {
		if w.held || oldest != nil && w.asked > oldest.asked {
			continue
		}
		if next < 0 || outranks(w, waiting[next]) {
			next = i
		}
	}
	return next
}

// firstUnpassable returns the earliest one that must no longer be passed, nil if there is none.
func firstUnpassable(waiting []*waiter) *waiter {
	var first *waiter
	for _, w := range waiting {
		if !w.held && !w.passable() && (first == nil || w.asked < first.asked) {
			first = w
		}
	}
	return first
}

// outranks reports whether a comes before b where neither has waited for too long.
func outranks(a, b *waiter) bool {
	if a.failed != b.failed {
		return b.failed
	}
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.asked, b.asked)) < 0
}

// countPeers raises each waiter's number of peers to the ones that wait beside it now. Peers are waiters of the same priority whose
// last write did not fail either; a waiter whose last write failed has all others for peers, and so lets all of them pass once.
//
// That those of a higher priority are no peers keeps a change of targets from waiting forever longer while ever more Services
// are created: what is created after it waits behind it.
func countPeers(waiting []*waiter) {
	alike := map[int]int{}
	for _, w := range waiting {
		if !w.failed {
			alike[w.priority]++
		}
	}
	for _, w := range waiting {
		others := len(waiting) - 1
		if !w.failed {
			others = alike[w.priority] - 1
		}
		w.peers = max(w.peers, others)
	}
}

// countPassed counts that one was admitted that no longer waits.
func countPassed(waiting []*waiter, admitted *waiter) {
	for _, w := range waiting {
		if w.asked < admitted.asked {
			w.passed++
		}
	}
}
