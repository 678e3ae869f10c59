package cloud

import (
	"errors"
	"time"

	cloudprovider "k8s.io/cloud-provider"
)

// abandoned counts a call that is given up although it has not returned. The lock is held.
func (q *queue) abandoned(g *groupQueue, w *waiter, timeout time.Duration, now time.Time) {
	g.abandoned++
	q.metrics.abandoned.WithLabelValues(g.name).Set(float64(g.abandoned))
	q.metrics.given.WithLabelValues(g.name).Inc()
	for _, key := range w.about.keys() {
		g.object(key, now).abandon(w, timeout, now)
	}
}

// abandon is abandoned for a call whose place was given back before.
func (q *queue) abandon(w *waiter, timeout time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.abandoned(q.of(w.about.group), w, timeout, time.Now())
}

// returned notes that an abandoned call has returned after all.
func (q *queue) returned(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of(w.about.group)
	g.abandoned--
	q.metrics.abandoned.WithLabelValues(g.name).Set(float64(g.abandoned))
	for _, key := range w.about.keys() {
		g.object(key, time.Now()).returned(w)
	}
}

// locked returns an error if a write about an object has not returned although its deadline has passed, so that another must not be made.
func (q *queue) locked(about subject) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(about.group).object(about.key(), time.Now()).free(about, false, time.Now())
}

// overdue returns an error if the bound of abandoned calls of a group is reached.
func (q *queue) overdue() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for _, g := range q.groups {
		errs = append(errs, g.full())
	}
	return errors.Join(errs...)
}

// Unreturned returns a StillRunningError for each write of a decorated provider that was given up at its deadline and has not
// returned. It may still change something: this process must not let another one lead before it has returned, or the process
// has ended. Writes whose callers wait for them are not among them.
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
	for _, g := range q.groups {
		for _, o := range g.objects {
			for _, w := range o.locked {
				if !seen[w] { // a write may be about several objects
					seen[w] = true
					errs = append(errs, &StillRunningError{Operation: w.about.name, Object: w.about.key(), Since: w.admitted})
				}
			}
		}
	}
	return errors.Join(errs...)
}
