package service

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxHold bounds how long a cloud's Retry-After holds all writes, so that a wrong one cannot stop them for good.
const maxHold = 15 * time.Minute

// lane lets a bounded number of writes to the cloud through at once. Clouds exist that lose a change when two reach them
// together; for those the bound is one.
//
// Nobody waits in it: a pass that finds no place ends, and is queued again when its turn comes, the one with the highest
// priority first and of equal ones the one that asked first. So no worker is held by a pass that has to wait.
type lane struct {
	places int
	// wake queues a pass whose turn has come.
	wake func(types.NamespacedName, int)

	mu     sync.Mutex
	inside int
	asked  uint64
	parked map[types.NamespacedName]*parked
	// woken are those that were queued again and have not asked again yet: a place is kept for each.
	woken map[types.NamespacedName]bool
	// heldUntil is when a cloud that has refused may be called again: the quota it refused for is everybody's.
	heldUntil time.Time
	held      *time.Timer
}

// parked is a pass that waits for its turn.
type parked struct {
	priority int
	asked    uint64
}

func newLane(places int, wake func(types.NamespacedName, int)) *lane {
	return &lane{places: places, wake: wake, parked: map[types.NamespacedName]*parked{}, woken: map[types.NamespacedName]bool{}}
}

// enter returns whether a pass may write to the cloud now. If so, it calls leave afterwards; if not, it will be woken.
func (l *lane) enter(key types.NamespacedName, priority int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.woken, key)
	if l.inside+len(l.woken) < l.places && time.Until(l.heldUntil) <= 0 && !l.outranked(key, priority) {
		delete(l.parked, key)
		l.inside++
		return true
	}
	if waits, found := l.parked[key]; found {
		waits.priority = max(waits.priority, priority)
	} else {
		l.parked[key] = &parked{priority: priority, asked: l.asked}
		l.asked++
	}
	l.wakeNext()
	return false
}

// outranked reports whether somebody with a higher priority waits. The lock is held.
func (l *lane) outranked(key types.NamespacedName, priority int) bool {
	for other, waits := range l.parked {
		if other != key && waits.priority > priority {
			return true
		}
	}
	return false
}

// leave gives the place to whoever is next.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inside--
	l.wakeNext()
}

// ended notes that a pass is over. If it was woken and did not ask again, its turn goes to the next.
func (l *lane) ended(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.woken[key] {
		delete(l.woken, key)
		l.wakeNext()
	}
}

// wakeNext queues as many passes as there are places. The lock is held.
func (l *lane) wakeNext() {
	if time.Until(l.heldUntil) > 0 {
		return // when the time is over, they are woken
	}
	for l.inside+len(l.woken) < l.places && len(l.parked) > 0 {
		var next types.NamespacedName
		var best *parked
		for key, waits := range l.parked {
			if best == nil || cmp.Or(cmp.Compare(best.priority, waits.priority), cmp.Compare(waits.asked, best.asked)) < 0 {
				next, best = key, waits
			}
		}
		delete(l.parked, next)
		l.woken[next] = true
		l.wake(next, best.priority)
	}
}

// hold lets nobody through for a while.
func (l *lane) hold(duration time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	duration = min(duration, maxHold)
	if until := time.Now().Add(duration); until.After(l.heldUntil) {
		l.heldUntil = until
		if l.held != nil {
			l.held.Stop()
		}
		l.held = time.AfterFunc(duration, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.wakeNext()
		})
	}
}

// stop ends what hold has begun.
func (l *lane) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		l.held.Stop()
	}
}

// waiting returns how many wait for their turn.
func (l *lane) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}
