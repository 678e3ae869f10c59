// Package writelimit bounds how many writes to the cloud go on at once. It knows nothing of Services but their names, and neither calls the
// cloud nor the API server.
package writelimit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

const (
	// shownWrites is how many writes such an event names.
	shownWrites = 3
	// oldestEvery is every how many admissions the earliest waiter is admitted, whatever its rank: there may be no end of lower ones.
	oldestEvery = 16
)

// Orphans is the name under which load balancers without a Service wait. No Service has it: it has no namespace.
var Orphans = types.NamespacedName{Name: "orphans"}

// Pool is a kind of writes, which has places of its own.
type Pool int

// As in the reference, as many changes of targets as of Services go on at once, so a Service whose calls are slow and fail keeps no other from
// following the nodes. Where the provider declares how many changes it bears, both pools are one, in which both kinds take turns.
const (
	Services Pool = iota
	Targets
)

// Limiter bounds how many writes to the cloud go on at once in each pool. Clouds exist that lose a change when two reach them together; for those the
// bound is one.
//
// No worker is blocked by it: a pass that finds no place ends. When it is its turn, a place is reserved for it and the pass is queued
// again. The place stays reserved until that pass asks for it or ends: no other one that comes in between takes it.
//
// See ADR 42 and 47.
type Limiter struct {
	// queue queues the pass of a waiter that was admitted, and name is how others hear of it.
	queue func(types.NamespacedName)
	name  func(types.NamespacedName) string

	mu    sync.Mutex
	pools []*pool
	// writing are the ones that have a place. A pass writes in one pool at a time.
	writing map[types.NamespacedName]write
}

// write is a write that goes on.
type write struct {
	in    *pool
	since time.Time
}

// pool has the places of one kind of writes, and who waits for them.
type pool struct {
	places, writing int
	// admitted are those for which a place is reserved: they were queued and have not asked again yet.
	admitted map[types.NamespacedName]*waiter
	// waiting is in the order of arrival. While a place is free, it has none but passes that write in the other pool.
	waiting []*waiter
	// arrivals counts the ones that had to wait, and admissions the ones of them that were admitted.
	arrivals, admissions int
	// last is the kind that wrote last.
	last Pool
}

// waiter is a pass that waits for a place.
type waiter struct {
	key  types.NamespacedName
	kind Pool
	// rank is behind whom it waits: all of a lower one.
	rank int
	// arrival numbers waiters.
	arrival int
	// asked says that the pass under way has asked and found no place, see Limiter.End.
	asked bool
	// notice says that it waits; nil: nothing does.
	notice *time.Timer
}

// New returns a limiter with so many places in each pool. Shared says that both pools are one. Queue queues the pass of a waiter that was admitted; it
// must not call the limiter. Name is how others hear of a waiter.
func New(places int, shared bool, queue func(types.NamespacedName), name func(types.NamespacedName) string) *Limiter {
	l := &Limiter{queue: queue, name: name, writing: map[types.NamespacedName]write{}, pools: make([]*pool, 2)}
	if shared {
		l.pools = l.pools[:1]
	}
	for i := range l.pools {
		l.pools[i] = &pool{places: places, admitted: map[types.NamespacedName]*waiter{}}
	}
	return l
}

// Acquire returns whether a pass may write to the cloud now. If so, it calls Release afterwards, and no place is reserved for it elsewhere meanwhile:
// it keeps its turn there. If not, it waits. It is queued again when it is its turn: first come, first served, but a higher rank waits behind all
// lower ones, and one of the kind that wrote last behind one of the other kind. Notice is called with what it waits for if that takes longer than a
// moment, from another goroutine and at most once; nil: no notice.
func (l *Limiter) Acquire(key types.NamespacedName, in Pool, rank int, notice func(message string)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	pool := l.pools[min(int(in), len(l.pools)-1)]
	if pool.admitted[key] == nil && pool.free() <= 0 {
		l.wait(pool, key, in, rank, notice)
		return false
	}
	delete(pool.admitted, key)
	pool.writing++
	pool.last = in
	l.writing[key] = write{pool, time.Now()}
	for _, other := range l.pools {
		if w := other.admitted[key]; w != nil {
			delete(other.admitted, key)
			other.waiting = append(other.waiting, w)
			slices.SortFunc(other.waiting, func(a, b *waiter) int { return a.arrival - b.arrival })
			l.admitNext()
		}
	}
	return true
}

// wait has a pass wait. One that waits already keeps its turn and the lowest of its ranks. The lock is held.
func (l *Limiter) wait(in *pool, key types.NamespacedName, kind Pool, rank int, notice func(string)) {
	if at := slices.IndexFunc(in.waiting, func(w *waiter) bool { return w.key == key }); at >= 0 {
		in.waiting[at].kind, in.waiting[at].rank, in.waiting[at].asked = kind, min(in.waiting[at].rank, rank), true
		return
	}
	w := &waiter{key: key, kind: kind, rank: rank, arrival: in.arrivals, asked: true}
	in.arrivals++
	if notice != nil {
		w.notice = time.AfterFunc(kit.Moment, func() {
			if message, waits := l.describe(in, w); waits {
				notice(message)
			}
		})
	}
	in.waiting = append(in.waiting, w)
}

// Release gives the place of a pass to the next waiter.
func (l *Limiter) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing[key].in.writing--
	delete(l.writing, key)
	l.admitNext()
}

// End says that a pass has ended. It waits only where it has asked and found no place. A place that was reserved for it goes to the next waiter.
func (l *Limiter) End(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pool := range l.pools {
		at := slices.IndexFunc(pool.waiting, func(w *waiter) bool { return w.key == key })
		switch w := pool.admitted[key]; {
		case w != nil && w.asked:
			w.asked = false // it was admitted while its pass wrote in the other pool
		case w != nil:
			delete(pool.admitted, key)
			l.admitNext()
		case at >= 0 && pool.waiting[at].asked:
			pool.waiting[at].asked = false
		case at >= 0:
			pool.remove(at)
		}
	}
}

// admitNext reserves the places that are free, and queues those whose they are. The lock is held.
func (l *Limiter) admitNext() {
	for _, pool := range l.pools {
		for len(pool.waiting) > 0 && pool.free() > 0 {
			at := l.next(pool)
			if at < 0 {
				break
			}
			pool.admissions++
			next := pool.remove(at)
			pool.admitted[next.key] = next
			l.queue(next.key)
		}
	}
}

// next returns the index of the waiter that is admitted next, -1 if none may be. The lock is held.
func (l *Limiter) next(in *pool) int {
	next, oldest := -1, in.admissions%oldestEvery == oldestEvery-1
	for i, w := range in.waiting {
		if _, writes := l.writing[w.key]; writes {
			continue
		}
		if next < 0 {
			next = i
			continue
		}
		first := in.waiting[next]
		itsTurn := w.kind != in.last && first.kind == in.last
		if !oldest && (w.rank < first.rank || w.rank == first.rank && itsTurn) {
			next = i
		}
	}
	return next
}

// free returns how many places are neither taken nor reserved.
func (l *pool) free() int { return l.places - l.writing - len(l.admitted) }

// remove takes a waiter out.
func (l *pool) remove(at int) *waiter {
	w := l.waiting[at]
	l.waiting = slices.Delete(l.waiting, at, at+1)
	if w.notice != nil {
		w.notice.Stop()
	}
	return w
}

// Shared reports whether both pools are one.
func (l *Limiter) Shared() bool { return len(l.pools) == 1 }

// Places returns how many writes may go on at once.
func (l *Limiter) Places() int { return len(l.pools) * l.pools[0].places }

// CountWaiting returns how many wait for a place.
func (l *Limiter) CountWaiting() (sum int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pool := range l.pools {
		sum += len(pool.waiting)
	}
	return sum
}

// describe says in one line what a waiter waits for, and whether it still does.
func (l *Limiter) describe(in *pool, w *waiter) (message string, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(in.waiting, w) {
		return "", false
	}
	var keys []types.NamespacedName
	for key, write := range l.writing {
		if write.in == in {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return l.writing[a].since.Compare(l.writing[b].since) })
	var writes []string
	for _, key := range keys[:min(len(keys), shownWrites)] {
		writes = append(writes, fmt.Sprintf("%s since %s", l.name(key), l.writing[key].since.UTC().Format(time.RFC3339)))
	}
	if more := len(keys) - shownWrites; more > 0 {
		writes = append(writes, fmt.Sprintf("%d more", more))
	}
	if about := len(in.admitted); about > 0 {
		writes = append(writes, fmt.Sprintf("%d about to begin", about))
	}
	return fmt.Sprintf("Waiting for other changes of load balancers, at most %d at a time. In progress: %s. Others that wait: %d",
		in.places, strings.Join(writes, ", "), len(in.waiting)-1), true
}
