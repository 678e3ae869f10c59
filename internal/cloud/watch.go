package cloud

import (
	"context"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// watch begins a watch and stays with it. Until the first event it is a call like any other, with a place, a deadline and a
// span, and is counted by how it begins; from then on it lives for as long as ctx. It returns when ctx ends even if the plugin
// ignores that; what such a plugin still tells is not handed on. A watch that is refused is not repeated here: who watches
// has a backoff of its own.
func (c *caller) watch(ctx context.Context, about subject, watch provider.WatchInstancesFunc,
	yield func(provider.InstanceEvent) error,
) error {
	ctx, v := c.visit(ctx, about)
	w, err := v.enter(ctx)
	if err != nil {
		v.end(err)
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now()
	events := &events{yield: yield, deadline: time.AfterFunc(c.readTimeout, func() { cancel(ErrDeadline) })}
	defer events.deadline.Stop()
	var left, counted sync.Once
	leave := func(err error) { left.Do(func() { c.leave(w, err) }) }
	count := func(err error) error {
		counted.Do(func() {
			err = v.finish(ctx, start, err)
			v.end(err)
		})
		return err
	}
	events.first = func() { leave(nil); _ = count(nil) }
	done := make(chan error, 1)
	go func() {
		err := watch(ctx, events.next)
		leave(err) // a plugin that ignores its context keeps its place until then
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if events.abandon() { // it had begun, and was counted then
		if events.refused != nil {
			return events.refused // the caller's own error, which says nothing about the cloud
		}
		return classify(err)
	}
	return count(err)
}

// events hands the events of a watch on, until nobody waits for them any more.
type events struct {
	yield    func(provider.InstanceEvent) error
	first    func()
	deadline *time.Timer

	mu        sync.Mutex
	begun     bool
	refused   error // what yield returned
	abandoned bool
}

func (e *events) next(event provider.InstanceEvent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.abandoned {
		return context.Canceled
	}
	if !e.begun {
		e.begun = true
		e.deadline.Stop()
		e.first()
	}
	e.refused = e.yield(event)
	return e.refused
}

// abandon returns when no event is being handed on, lets none be from now on, and says whether there was one.
func (e *events) abandon() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abandoned = true
	return e.begun
}
