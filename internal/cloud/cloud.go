// Package cloud puts a plugin behind one door. Every call through it has a deadline, waits for one of a bounded number of
// places, is counted and timed, and returns errors that say by their type whether to retry.
//
// The decorated provider is a cloudprovider.Interface like the plugin itself, so that neither controllers nor plugins know
// of it, and decorators can be stacked.
package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// DefaultCallTimeout is the deadline of a call that reads.
	DefaultCallTimeout = time.Minute
	// DefaultWriteTimeout is the deadline of a call that changes a load balancer or a route. Plugins commonly wait in such
	// a call until the cloud is done.
	DefaultWriteTimeout = 10 * time.Minute
	// DefaultMaxInFlight is how many calls may be under way at once.
	DefaultMaxInFlight = 32
)

// ErrDeadline says that a call took longer than its deadline. It is a context.DeadlineExceeded as well.
var ErrDeadline = fmt.Errorf("the cloud did not answer in time: %w", context.DeadlineExceeded)

// Options bounds the calls to the cloud. A zero field takes its default.
type Options struct {
	// CallTimeout is the deadline of each call that reads; of a listing, the longest time from page to page.
	CallTimeout time.Duration
	// WriteTimeout is the deadline of each call that changes something in the cloud.
	WriteTimeout time.Duration
	// MaxInFlight is how many calls may be under way at once, over all controllers.
	MaxInFlight int
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// Decorate returns the plugin behind the door. It keeps what the plugin says that it can do: an interface that the plugin
// does not offer is not offered, and provider.CapabilitiesOf the result is that of the plugin, with the same bounds.
func Decorate(plugin cloudprovider.Interface, options Options) cloudprovider.Interface {
	calls := &caller{
		readTimeout:  cmp.Or(options.CallTimeout, DefaultCallTimeout),
		writeTimeout: cmp.Or(options.WriteTimeout, DefaultWriteTimeout),
		places:       semaphore.NewWeighted(int64(cmp.Or(options.MaxInFlight, DefaultMaxInFlight))),
		metrics:      newMetrics(options.Registerer),
	}
	return &decorated{Interface: plugin, calls: calls}
}

// decorated replaces what leaves the process; the rest is the plugin's own.
type decorated struct {
	cloudprovider.Interface
	calls *caller
}

var _ provider.Capable = (*decorated)(nil)

func (d *decorated) Instances() (cloudprovider.Instances, bool) {
	plugin, offered := d.Interface.Instances()
	if !offered || plugin == nil {
		return nil, false
	}
	return &instances{plugin: plugin, calls: d.calls}, true
}

func (d *decorated) InstancesV2() (cloudprovider.InstancesV2, bool) {
	plugin, offered := d.Interface.InstancesV2()
	if !offered || plugin == nil {
		return nil, false
	}
	return &instancesV2{plugin: plugin, calls: d.calls}, true
}

func (d *decorated) Zones() (cloudprovider.Zones, bool) {
	plugin, offered := d.Interface.Zones()
	if !offered || plugin == nil {
		return nil, false
	}
	return &zones{plugin: plugin, calls: d.calls}, true
}

func (d *decorated) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	plugin, offered := d.Interface.LoadBalancer()
	if !offered || plugin == nil {
		return nil, false
	}
	return &loadBalancer{LoadBalancer: plugin, calls: d.calls}, true
}

func (d *decorated) Routes() (cloudprovider.Routes, bool) {
	plugin, offered := d.Interface.Routes()
	if !offered || plugin == nil {
		return nil, false
	}
	return &routes{plugin: plugin, calls: d.calls}, true
}

// Capabilities returns the plugin's, with their calls behind the same door.
func (d *decorated) Capabilities() provider.Capabilities {
	capabilities := provider.CapabilitiesOf(d.Interface)
	if list := capabilities.ListInstances; list != nil {
		capabilities.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error {
			return d.calls.list(ctx, "ListInstances", list, yield)
		}
	}
	if list := capabilities.ListLoadBalancers; list != nil {
		capabilities.ListLoadBalancers = func(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
			return read(ctx, d.calls, "ListLoadBalancers", func(ctx context.Context) ([]provider.LoadBalancer, error) {
				return list(ctx, clusterName)
			})
		}
	}
	if replace := capabilities.ReplaceRoute; replace != nil {
		capabilities.ReplaceRoute = func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
			return write(ctx, d.calls, "ReplaceRoute", func(ctx context.Context) error {
				return replace(ctx, clusterName, old, replacement)
			})
		}
	}
	return capabilities
}

// caller is the door: what all calls of one plugin share.
type caller struct {
	readTimeout  time.Duration
	writeTimeout time.Duration
	places       *semaphore.Weighted
	metrics      *metrics
}

// read makes a call that changes nothing. It returns at the deadline even if the plugin ignores its context; such a call
// keeps its place until the plugin comes back, so that a plugin that hangs cannot pile up calls.
func read[T any](ctx context.Context, c *caller, operation string, call func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := c.enter(ctx, operation); err != nil {
		return zero, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.readTimeout, ErrDeadline)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	start := time.Now()
	go func() {
		defer c.leave()
		value, err := call(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, c.finish(ctx, operation, start, r.err)
	case <-ctx.Done():
		return zero, c.finish(ctx, operation, start, context.Cause(ctx))
	}
}

// write makes a call that changes something in the cloud. It waits for the plugin, whatever the deadline: to come back
// while the change is still under way would let a retry run beside it.
func write(ctx context.Context, c *caller, operation string, call func(context.Context) error) error {
	if err := c.enter(ctx, operation); err != nil {
		return err
	}
	defer c.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, c.writeTimeout, ErrDeadline)
	defer cancel()
	start := time.Now()
	return c.finish(ctx, operation, start, call(ctx))
}

// list makes a listing, whose deadline starts anew with each page. It returns at the deadline even if the plugin ignores its
// context; what such a plugin still lists is not handed on.
func (c *caller) list(ctx context.Context, operation string, list provider.ListInstancesFunc,
	yield func([]provider.Instance) error,
) error {
	if err := c.enter(ctx, operation); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pages := &pages{yield: yield, seen: c.metrics.pages.WithLabelValues(operation), timeout: c.readTimeout}
	pages.deadline = time.AfterFunc(c.readTimeout, func() { cancel(ErrDeadline) })
	defer pages.deadline.Stop()
	start := time.Now()
	done := make(chan error, 1)
	go func() {
		defer c.leave()
		done <- list(ctx, pages.next)
	}()
	select {
	case err := <-done:
		if pages.refused != nil {
			return pages.refused // the caller's own error, which says nothing about the cloud
		}
		return c.finish(ctx, operation, start, err)
	case <-ctx.Done():
		pages.abandon()
		return c.finish(ctx, operation, start, context.Cause(ctx))
	}
}

// pages hands the pages of a listing on, until nobody waits for them any more.
type pages struct {
	yield    func([]provider.Instance) error
	seen     prometheus.Counter
	timeout  time.Duration
	deadline *time.Timer

	mu        sync.Mutex
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

// enter waits for a place.
func (c *caller) enter(ctx context.Context, operation string) error {
	if err := c.places.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting to call the cloud for %s: %w", operation, err)
	}
	c.metrics.inFlight.Inc()
	return nil
}

func (c *caller) leave() {
	c.metrics.inFlight.Dec()
	c.places.Release(1)
}

// finish counts a call and gives its error the type by which controllers decide.
func (c *caller) finish(ctx context.Context, operation string, start time.Time, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrDeadline) && !errors.Is(err, ErrDeadline) {
		err = fmt.Errorf("%w: %w", ErrDeadline, err) // the plugin's own words for a context that we ended
	}
	err = classify(err)
	c.metrics.observe(operation, outcomeOf(err), time.Since(start))
	return err
}
