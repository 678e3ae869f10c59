package cloud

import (
	"context"
	"sync"

	"github.com/mooring-ccm/mooring/provider"
)

// watch begins a watch and stays with it. Until the first event it is a call like any other, with a place, a deadline and a
// span, and is counted by how it begins; from then on it lives for as long as ctx. It returns when ctx ends even if the plugin
// ignores that; what such a plugin still sends is not handed on.
func (c *client) watch(ctx context.Context, about subject, watch provider.WatchInstancesFunc,
	yield func(provider.InstanceEvent) error,
) error {
	ctx, call := c.call(ctx, about)
	w, err := call.enter(ctx)
	if err != nil {
		call.end(err)
		return err
	}
	events := &events{yield: yield}
	a := call.begin(ctx, w, func(ctx context.Context) error { return watch(ctx, events.next) })
	var counted sync.Once
	count := func(err error) error {
		counted.Do(func() {
			err = call.finish(a.ctx, a.began, err)
			call.end(err)
		})
		return err
	}
	events.first = func() { a.begun(); _ = count(nil) }
	a.run()
	err, back := a.wait()
	defer a.release(back)
	if events.abandon() { // it had begun, and was counted then
		if events.refused != nil {
			return events.refused // the caller's own error, which says nothing about the cloud
		}
		_, err = labeled(a.ctx, err)
		call.logPanic(a.ctx, err)
		return err
	}
	return count(err)
}

// events hands the events of a watch on, until no caller waits for them.
type events struct {
	yield func(provider.InstanceEvent) error
	first func()

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
