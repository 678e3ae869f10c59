package cloud

import (
	"errors"
	"fmt"
	"slices"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
)

const (
	// maxOutstanding is how many calls of a method may be outstanding. The next one that takes as long keeps its place, so a plugin
	// that hangs for all objects is not called for all of them.
	maxOutstanding = 8
	// readOutstanding is after how long a read is outstanding at the earliest, and declaredOutstanding where calls at the same time are
	// declared. A slow method is given slowFactor times the median of its last calls.
	readOutstanding     = time.Minute
	declaredOutstanding = 10 * time.Second
	slowFactor          = 10
	// writeOutstanding is after how long a write is outstanding. Plugins commonly wait in one until the cloud is done.
	writeOutstanding = 10 * time.Minute
	// lastCalls is how many calls of a method the median is of.
	lastCalls = 20
)

// StillRunningError is an ErrStillRunning that says which call it is.
type StillRunningError struct {
	// Operation is the plugin's method that has not returned, Object what it is about.
	Operation, Object string
	// Since is when that call began.
	Since time.Time
}

// Error names the call.
func (e *StillRunningError) Error() string {
	return fmt.Sprintf("%v: %s for %s has been running since %s; no other call about it is made until it returns, or this process restarts",
		classify.ErrStillRunning, e.Operation, e.Object, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrStillRunning.
func (e *StillRunningError) Unwrap() error { return classify.ErrStillRunning }

// ErrTooManyOutstanding says that a method is no longer called, because too many calls of it have not returned. Only a restart helps.
var ErrTooManyOutstanding = errors.New("too many calls have not returned from the cloud provider")

// method is what is known of the calls of a method in this process.
type method struct {
	took        []time.Duration // of the last calls that returned
	next        int             // where the next one goes
	median      time.Duration
	returned    bool
	outstanding int
}

// note takes in that a call has returned.
func (m *method) note(took time.Duration) {
	m.returned = true
	if len(m.took) < lastCalls {
		m.took = append(m.took, took)
	} else {
		m.took[m.next] = took
		m.next = (m.next + 1) % lastCalls
	}
	sorted := slices.Sorted(slices.Values(m.took))
	m.median = sorted[len(sorted)/2]
}

// outstandingAfter returns after how long a call no longer counts as under way.
func (q *queue) outstandingAfter(about subject) time.Duration {
	if about.write {
		return writeOutstanding
	}
	least := readOutstanding
	if q.declared {
		least = declaredOutstanding
	}
	return max(least, slowFactor*q.method(about.name).median)
}

func (q *queue) method(name string) *method {
	known := q.methods[name]
	if known == nil {
		known = &method{}
		q.methods[name] = known
	}
	return known
}

// outstandingAt returns when a call under way is outstanding, zero if it is not to be. A method that has never returned fills a cache, as
// far as is known, and that is not done by asking once more. At a deadline that the operator or the provider has set, its calls are due.
func (q *queue) outstandingAt(w *waiter) time.Time {
	known := q.method(w.about.name)
	switch {
	case known.outstanding >= maxOutstanding || w.paused:
		return time.Time{}
	case w.timeout > 0:
		return w.shown.Add(w.timeout + grace)
	case !known.returned:
		return time.Time{}
	default:
		return w.shown.Add(q.outstandingAfter(w.about))
	}
}

// age lets calls that have been under way for long lose their places.
func (q *queue) age(now time.Time) {
	for _, g := range q.groups {
		for _, l := range g.pools {
			for _, w := range slices.Clone(l.running) {
				if at := q.outstandingAt(w); !at.IsZero() && !now.Before(at) {
					q.giveUp(g, l, w, now)
				}
			}
		}
	}
}

// aging returns when the next call loses its place; zero if none does.
func (q *queue) aging() time.Time {
	next := time.Time{}
	for _, g := range q.groups {
		for _, l := range g.pools {
			for _, w := range l.running {
				next = soonest(next, q.outstandingAt(w))
			}
		}
	}
	return next
}

// giveUp lets a call be outstanding: its caller is told, and its place is free.
func (q *queue) giveUp(g *groupQueue, l *pool, w *waiter, now time.Time) {
	l.release(w)
	w.outstanding = true
	q.method(w.about.name).outstanding++
	q.showOutstanding(g)
	q.metrics.given.WithLabelValues(g.name).Inc()
	for _, key := range w.about.keys() {
		g.object(key, now).hung = true
	}
	close(w.given)
}

// showOutstanding shows how many calls of a group are outstanding.
func (q *queue) showOutstanding(g *groupQueue) {
	count := map[*waiter]bool{}
	for _, w := range q.busy {
		if w.outstanding && q.of(w.about.group) == g {
			count[w] = true
		}
	}
	q.metrics.outstanding.WithLabelValues(g.name).Set(float64(len(count)))
}

// stillRunning is the error of a call that is outstanding, and of calls that wait for it.
func (w *waiter) stillRunning() error {
	return &StillRunningError{Operation: w.about.name, Object: w.about.key(), Since: w.admitted}
}

// locked returns an error if a call about one of the objects is outstanding.
func (q *queue) locked(about subject) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range about.exclusive() {
		if w := q.busy[key]; w != nil && w.outstanding {
			return w.stillRunning()
		}
	}
	return nil
}

// overdue returns an error if a method has as many outstanding calls as it may.
func (q *queue) overdue() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for _, name := range sortedKeys(q.methods) {
		if count := q.methods[name].outstanding; count >= maxOutstanding {
			errs = append(errs, fmt.Errorf("%w: %d of %s; restart this process", ErrTooManyOutstanding, count, name))
		}
	}
	return errors.Join(errs...)
}

// Unreturned returns a StillRunningError for each write of a decorated provider that is outstanding. It may still change something: this
// process must not let another one lead before it has returned, or the process has ended. Writes whose callers wait for them are not
// among them.
func Unreturned(decoratedProvider cloudprovider.Interface) error {
	if d, ok := decoratedProvider.(*decorated); ok {
		return d.calls.queue.unreturned()
	}
	return nil
}

func (q *queue) unreturned() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	seen := map[*waiter]bool{}
	var errs []error
	for _, key := range sortedKeys(q.busy) {
		if w := q.busy[key]; w.outstanding && w.about.write && !seen[w] { // a write may be about several objects
			seen[w] = true
			errs = append(errs, w.stillRunning())
		}
	}
	return errors.Join(errs...)
}
