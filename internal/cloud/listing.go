package cloud

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/provider"
)

// list makes a listing, whose deadline starts anew with each page. It returns at the deadline even if the plugin ignores its
// context; what such a plugin still lists is not handed on. A listing that is refused is repeated as a read is, unless it has
// handed pages on.
func (c *caller) list(ctx context.Context, about subject, list provider.ListInstancesFunc,
	yield func([]provider.Instance) error,
) error {
	ctx, v := c.visit(ctx, about)
	for {
		started, err := c.listOnce(ctx, v, list, yield)
		if started || !v.again(err) {
			v.end(err)
			return err
		}
	}
}

// listOnce makes one attempt at a listing, and says whether it handed pages on.
func (c *caller) listOnce(ctx context.Context, v *visit, list provider.ListInstancesFunc,
	yield func([]provider.Instance) error,
) (started bool, err error) {
	w, err := v.enter(ctx)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pages := &pages{yield: yield, seen: c.metrics.pages.WithLabelValues(v.about.operation), timeout: c.readTimeout}
	pages.deadline = time.AfterFunc(c.readTimeout, func() { cancel(ErrDeadline) })
	defer pages.deadline.Stop()
	start := time.Now()
	done := make(chan error, 1)
	go func() {
		err := list(ctx, pages.next)
		c.leave(w, err)
		done <- err
	}()
	select {
	case err := <-done:
		if pages.refused != nil {
			return true, pages.refused // the caller's own error, which says nothing about the cloud
		}
		return pages.started, v.finish(ctx, start, err)
	case <-ctx.Done():
		pages.abandon()
		return true, v.finish(ctx, start, context.Cause(ctx))
	}
}

// pages hands the pages of a listing on, until nobody waits for them any more.
type pages struct {
	yield    func([]provider.Instance) error
	seen     prometheus.Counter
	timeout  time.Duration
	deadline *time.Timer

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
	p.deadline.Stop() // what is done with a page does not count
	p.started = true
	p.seen.Inc()
	if p.refused = p.yield(page); p.refused == nil {
		p.deadline.Reset(p.timeout)
	}
	return p.refused
}

// abandon returns when no page is being handed on, and lets none be from now on.
func (p *pages) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = true
}
