package cloud

import (
	"context"
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
		if err := list(ctx, pages.next); pages.refused == nil {
			return err
		}
		return nil // the caller's own error says nothing about the cloud
	})
	a.repeat = func(ctx context.Context) error { return list(ctx, func([]provider.Instance) error { return nil }) }
	defer a.cancel(nil)
	pages.attempt = a
	a.run()
	err, back := a.wait()
	if !back {
		pages.abandon()
		return true, c.finish(a.ctx, a.began, err)
	}
	if pages.refused != nil {
		return true, pages.refused
	}
	return pages.started, c.finish(a.ctx, a.began, err)
}

// pages hands the pages of a listing on, until nobody waits for them any more.
type pages struct {
	yield   func([]provider.Instance) error
	seen    prometheus.Counter
	attempt *attempt

	mu        sync.Mutex
	started   bool
	refused   error // what yield returned
	abandoned bool
}

func (p *pages) next(page []provider.Instance) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.abandoned {
		return ErrDeadline
	}
	p.attempt.pause() // what is done with a page does not count
	p.started = true
	p.seen.Inc()
	p.refused = p.yield(page)
	p.attempt.extend()
	return p.refused
}

// abandon returns when no page is being handed on, and lets none be from now on.
func (p *pages) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = true
}
