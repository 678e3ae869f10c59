package cloud

import (
	"context"
	"errors"
	"sync"

	"github.com/mooring-ccm/mooring/provider"
)

// list makes a listing. Each page shows that it goes on. It returns when its caller gives up; what the plugin still lists then is not
// handed on.
func (c *client) list(ctx context.Context, list provider.ListInstancesFunc, yield func([]provider.Instance) error) error {
	about := c.methods.About("ListInstances")
	pages := &stream[[]provider.Instance]{}
	back, err := c.call(ctx, about, func(ctx context.Context, made *call) error {
		pages.yield = func(page []provider.Instance) error {
			made.goesOn(true) // what is done with a page does not count
			defer made.goesOn(false)
			c.metrics.pages.WithLabelValues(about.Method).Inc()
			return yield(page)
		}
		err := list(ctx, pages.next)
		if pages.end() != nil {
			return nil // the caller's own error says nothing about the cloud
		}
		return err
	})
	if refused := pages.end(); back && refused != nil { // also of a plugin that has panicked
		return refused
	}
	return err
}

// watch begins a watch and stays with it. Until the first event it is a call like any other, with a place, a deadline and a
// span, and is counted by how it begins; from then on it lives for as long as ctx. It returns when ctx ends even if the plugin
// ignores that; what such a plugin still sends is not handed on.
func (c *client) watch(ctx context.Context, watch provider.WatchInstancesFunc, yield func(provider.InstanceEvent) error) error {
	events := &stream[provider.InstanceEvent]{}
	_, err := c.call(ctx, c.methods.About("WatchInstances"), func(ctx context.Context, made *call) error {
		events.yield = func(event provider.InstanceEvent) error {
			made.begun()
			return yield(event)
		}
		return watch(ctx, events.next)
	})
	if refused := events.end(); refused != nil {
		return refused // the caller's own error, which says nothing about the cloud
	}
	return err
}

// stream hands on what a plugin lists or watches, until it has returned, an error has been met or no caller waits for it.
type stream[T any] struct {
	yield func(T) error

	mu      sync.Mutex
	refused error // what yield returned
	over    bool
}

func (s *stream[T]) next(item T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return errOver
	case s.refused == nil:
		s.refused = s.yield(item)
	}
	return s.refused
}

// errOver is what an item meets that comes when the call has returned, or no caller waits for it.
var errOver = errors.New("the call is over")

// end returns when no item is being handed on, and lets none be from now on. It returns what yield returned.
func (s *stream[T]) end() (refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.refused
}
