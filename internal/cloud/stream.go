package cloud

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/provider"
)

// list makes a listing. Each page shows that it goes on. It returns when its caller gives up; what the plugin still lists then is not
// handed on.
func (c *client) list(ctx context.Context, list provider.ListInstancesFunc, yield func([]provider.Instance) error) error {
	about := c.methods.About("ListInstances")
	pages := &pages{yield: yield, seen: c.metrics.pages.WithLabelValues(about.Method)}
	back, err := c.call(ctx, about, func(ctx context.Context, made *call) error {
		pages.call = made
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

// pages hands the pages of a listing on, until it has returned, an error has been met or no caller waits for them.
type pages struct {
	yield func([]provider.Instance) error
	seen  prometheus.Counter
	call  *call

	mu      sync.Mutex
	refused error // what yield returned
	over    bool
}

func (p *pages) next(page []provider.Instance) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return errOver
	case p.refused != nil:
		return p.refused
	}
	p.call.goesOn(true) // what is done with a page does not count
	p.seen.Inc()
	p.refused = p.yield(page)
	p.call.goesOn(false)
	return p.refused
}

// errOver is what a page meets that comes when the listing has returned, or no caller waits for it.
var errOver = errors.New("the listing is over")

// end returns when no page is being handed on, and lets none be from now on. It returns what yield returned.
func (p *pages) end() (refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return p.refused
}

// watch begins a watch and stays with it. Until the first event it is a call like any other, with a place, a deadline and a
// span, and is counted by how it begins; from then on it lives for as long as ctx. It returns when ctx ends even if the plugin
// ignores that; what such a plugin still sends is not handed on.
func (c *client) watch(ctx context.Context, watch provider.WatchInstancesFunc, yield func(provider.InstanceEvent) error) error {
	events := &events{yield: yield}
	_, err := c.call(ctx, c.methods.About("WatchInstances"), func(ctx context.Context, made *call) error {
		events.first = made.begun
		return watch(ctx, events.next)
	})
	if refused := events.abandon(); refused != nil {
		return refused // the caller's own error, which says nothing about the cloud
	}
	return err
}

// events hands the events of a watch on, until no caller waits for them.
type events struct {
	yield func(provider.InstanceEvent) error
	first func() // nil: there was one

	mu        sync.Mutex
	refused   error // what yield returned
	abandoned bool
}

func (e *events) next(event provider.InstanceEvent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.abandoned {
		return context.Canceled
	}
	if e.first != nil {
		e.first()
		e.first = nil
	}
	e.refused = e.yield(event)
	return e.refused
}

// abandon returns when no event is being handed on, lets none be from now on, and returns what yield returned.
func (e *events) abandon() (refused error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abandoned = true
	return e.refused
}
