// Package writelimit bounds how many writes to the cloud go on at once. It knows nothing of Services but their names, and neither calls the
// cloud nor the API server.
package writelimit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// NoticeAfter is how long a pass waits for a place before its Service gets an event that says for what.
	NoticeAfter = time.Second
	// shownWrites is how many writes such an event names.
	shownWrites = 3
	// oldestEvery is every how many admissions the earliest waiter is admitted, whatever its rank: there may be no end of lower ones.
	oldestEvery = 16
)

// Orphans is the name under which load balancers without a Service wait. No Service has it: it has no namespace.
var Orphans = types.NamespacedName{Name: "orphans"}

// Limiter bounds how many writes to the cloud go on at once. Clouds exist that lose a change when two reach them together;
// for those the bound is one.
//
// No worker is blocked by it: a pass that finds no place ends. When it is its turn, a place is reserved for it and the pass is queued
// again. The place stays reserved until that pass asks for it or ends: no other one that comes in between takes it.
//
// See ADR 42 and 47.
type Limiter struct {
	places int
	// queue queues the pass of a waiter that was admitted.
	queue func(types.NamespacedName)

	mu sync.Mutex
	// writing are the ones that have a place, with the time since when.
	writing map[types.NamespacedName]time.Time
	// admitted are those for which a place is reserved: they were queued and have not asked again yet.
	admitted map[types.NamespacedName]*waiter
	// waiting is in the order of arrival, and has none but held ones while a place is free.
	waiting []*waiter
	// arrivals counts the ones that had to wait, and admissions the ones of them that were admitted.
	arrivals, admissions int
}

// waiter is a pass that waits for a place.
type waiter struct {
	key types.NamespacedName
	// rank is behind whom it waits: all of a lower one.
	rank int
	// asked numbers waiters in the order of arrival.
	asked int
	// held says that its pass writes elsewhere, see Limiter.Hold.
	held bool
	// stopNotice cancels the notice that it waits; nil: there is none.
	stopNotice func()
}

// New returns a limiter with so many places. Queue queues the pass of a waiter that was admitted; it must not call the limiter.
func New(places int, queue func(types.NamespacedName)) *Limiter {
	return &Limiter{
		places: places, queue: queue, writing: map[types.NamespacedName]time.Time{}, admitted: map[types.NamespacedName]*waiter{},
	}
}

// Acquire returns whether a pass may write to the cloud now. If so, it calls Release afterwards. If not, it waits: it is queued
// again when it is its turn, unless it calls Cancel before: first come, first served, but a higher rank waits behind all lower ones.
// Notice is called with what it waits for if that takes longer than NoticeAfter, from another goroutine and at most once; nil: no notice.
func (l *Limiter) Acquire(key types.NamespacedName, rank int, notice func(message string)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.admitted[key] != nil || l.free() > 0 {
		delete(l.admitted, key)
		l.writing[key] = time.Now()
		return true
	}
	if at := l.find(key); at >= 0 {
		l.waiting[at].rank = min(l.waiting[at].rank, rank)
	} else {
		l.waiting = append(l.waiting, l.newWaiter(key, rank, notice))
	}
	return false
}

// newWaiter returns a waiter that asks last, and whose notice will come. The lock is held.
func (l *Limiter) newWaiter(key types.NamespacedName, rank int, notice func(string)) *waiter {
	w := &waiter{key: key, rank: rank, asked: l.arrivals}
	l.arrivals++
	if notice != nil {
		timer := time.AfterFunc(NoticeAfter, func() {
			if message, waits := l.describe(w); waits {
				notice(message)
			}
		})
		w.stopNotice = func() { timer.Stop() }
	}
	return w
}

// Release gives the place of a pass to the next waiter.
func (l *Limiter) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writing, key)
	l.admitNext()
}

// Cancel says that a pass has ended and does not want to write. A place that was reserved for it goes to the next waiter.
func (l *Limiter) Cancel(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.admitted, key)
	if at := l.find(key); at >= 0 {
		l.remove(at)
	}
	l.admitNext()
}

// Hold says that a pass which may wait here writes elsewhere. It keeps its turn and is not admitted before Resume. A place that was reserved for it
// goes to the next waiter.
func (l *Limiter) Hold(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.admitted[key]; w != nil {
		delete(l.admitted, key)
		l.waiting = append(l.waiting, w)
		slices.SortFunc(l.waiting, func(a, b *waiter) int { return a.asked - b.asked })
	}
	if at := l.find(key); at >= 0 {
		l.waiting[at].held = true
	}
	l.admitNext()
}

// Resume ends Hold.
func (l *Limiter) Resume(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.find(key); at >= 0 {
		l.waiting[at].held = false
	}
	l.admitNext()
}

// admitNext reserves the places that are free, and queues those whose they are. The lock is held.
func (l *Limiter) admitNext() {
	for l.free() > 0 {
		at := l.next()
		if at < 0 {
			return
		}
		l.admissions++
		next := l.remove(at)
		l.admitted[next.key] = next
		l.queue(next.key)
	}
}

// next returns the index of the waiter that is admitted next, -1 if none may be. The lock is held.
func (l *Limiter) next() int {
	next := -1
	for i, w := range l.waiting {
		if !w.held && (next < 0 || w.rank < l.waiting[next].rank && l.admissions%oldestEvery != oldestEvery-1) {
			next = i
		}
	}
	return next
}

// free returns how many places are neither taken nor reserved. The lock is held.
func (l *Limiter) free() int { return l.places - len(l.writing) - len(l.admitted) }

// find returns where a pass waits, -1 if it does not. The lock is held.
func (l *Limiter) find(key types.NamespacedName) int {
	return slices.IndexFunc(l.waiting, func(w *waiter) bool { return w.key == key })
}

// remove takes a waiter out. The lock is held.
func (l *Limiter) remove(at int) *waiter {
	w := l.waiting[at]
	l.waiting = slices.Delete(l.waiting, at, at+1)
	if w.stopNotice != nil {
		w.stopNotice()
	}
	return w
}

// Places returns how many writes may go on at once.
func (l *Limiter) Places() int { return l.places }

// Stop cancels all notices.
func (l *Limiter) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		if w.stopNotice != nil {
			w.stopNotice()
		}
	}
}

// CountWaiting returns how many wait for a place.
func (l *Limiter) CountWaiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// describe says in one line what a waiter waits for, and whether it still does.
func (l *Limiter) describe(w *waiter) (message string, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.waiting, w) {
		return "", false
	}
	keys := slices.SortedFunc(maps.Keys(l.writing), func(a, b types.NamespacedName) int {
		return l.writing[a].Compare(l.writing[b])
	})
	var writes []string
	for _, key := range keys[:min(len(keys), shownWrites)] {
		writes = append(writes, fmt.Sprintf("%s since %s", nameOfWriter(key), l.writing[key].UTC().Format(time.RFC3339)))
	}
	if more := len(keys) - shownWrites; more > 0 {
		writes = append(writes, fmt.Sprintf("%d more", more))
	}
	if about := len(l.admitted); about > 0 {
		writes = append(writes, fmt.Sprintf("%d about to begin", about))
	}
	return fmt.Sprintf("Waiting for other changes of load balancers, at most %d at a time. In progress: %s. Others that wait: %d",
		l.places, strings.Join(writes, ", "), len(l.waiting)-1), true
}

// nameOfWriter names who has a place.
func nameOfWriter(key types.NamespacedName) string {
	if key == Orphans {
		return "a load balancer without a Service"
	}
	return key.String()
}
