package cloud

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/provider"
)

// list makes a listing, whose deadline starts anew with each page. It returns at the deadline even if the plugin ignores its
// context; what such a plugin still lists is not handed on. A listing that is refused is repeated as a read is, unless it has
// handed pages on.
func (c *client) list(ctx context.Context, about subject, list provider.ListInstancesFunc,
	yield func([]provider.Instance) error,
) error {
	ctx, call := c.call(ctx, about)
	for {
		started, err := call.listOnce(ctx, list, yield)
		if started || !call.again(ctx, err) {
			call.end(err)
			return err
		}
	}
}

// listOnce makes one attempt at a listing, and says whether it handed pages on.
func (c *call) listOnce(ctx context.Context, list provider.ListInstancesFunc, yield func([]provider.Instance) error) (
	started bool, err error,
) {
	w, err := c.enter(ctx)
	if err != nil {
		return false, err
	}
	pages := &pages{yield: yield, seen: c.metrics.pages.WithLabelValues(c.about.name)}
	a := c.begin(ctx, w, func(ctx context.Context) error {
		err := list(ctx, pages.next)
		if _, refused := pages.end(); refused != nil {
			return nil // the caller's own error says nothing about the cloud
		}
		return err
	})
	a.repeat = func(ctx context.Context) error { return list(ctx, func([]provider.Instance) error { return nil }) }
	defer a.cancel(nil)
	pages.attempt = a
	a.run()
	err, back := a.wait()
	started, refused := pages.end() // also of a plugin that is not back, or has panicked
	switch {
	case !back:
		return true, c.finish(a.ctx, a.began, err)
	case refused != nil:
		return true, refused
	default:
		return started, c.finish(a.ctx, a.began, err)
	}
}

// pages hands the pages of a listing on, until it has returned, an error has been met or nobody waits for them any more.
type pages struct {
	yield   func([]provider.Instance) error
	seen    prometheus.Counter
	attempt *attempt

	mu      sync.Mutex
	started bool
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
	p.started = true
	p.seen.Inc()
	p.refused = p.yield(page)
	p.attempt.extend()
	return p.refused
}

// errOver is what a page meets that comes when the listing has returned, or nobody waits for it any more.
var errOver = errors.New("the listing is over")

// end returns when no page is being handed on, and lets none be from now on. It returns whether there was one, and what yield returned.
func (p *pages) end() (started bool, refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return p.started, p.refused
}
