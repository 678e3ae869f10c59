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
func (c *client) list(ctx context.Context, about subject, list provider.ListInstancesFunc,
	yield func([]provider.Instance) error,
) error {
	ctx, call := c.call(ctx, about)
	err := call.list(ctx, list, yield)
	call.end(err)
	return err
}

func (c *call) list(ctx context.Context, list provider.ListInstancesFunc, yield func([]provider.Instance) error) error {
	w, err := c.enter(ctx)
	if err != nil {
		return err
	}
	pages := &pages{yield: yield, seen: c.metrics.pages.WithLabelValues(c.about.name)}
	a := c.begin(ctx, w, func(ctx context.Context) error {
		err := list(ctx, pages.next)
		if refused := pages.end(); refused != nil {
			return nil // the caller's own error says nothing about the cloud
		}
		return err
	})
	pages.attempt = a
	a.run()
	err, back := a.wait()
	defer a.release(back)
	if refused := pages.end(); back && refused != nil { // also of a plugin that is not back, or has panicked
		return refused
	}
	return c.finish(a.ctx, a.began, err)
}

// pages hands the pages of a listing on, until it has returned, an error has been met or no caller waits for them.
type pages struct {
	yield   func([]provider.Instance) error
	seen    prometheus.Counter
	attempt *attempt

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
	p.attempt.pause() // what is done with a page does not count
	p.seen.Inc()
	p.refused = p.yield(page)
	p.attempt.goesOn()
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
