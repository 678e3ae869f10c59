package cloud

import (
	"errors"

	cloudprovider "k8s.io/cloud-provider"
)

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
			if w := o.locked; w != nil && !seen[w] { // a write may be about several objects
				seen[w] = true
				errs = append(errs, &StillRunningError{Operation: w.about.name, Object: w.about.key(), Since: w.admitted})
			}
		}
	}
	return errors.Join(errs...)
}
