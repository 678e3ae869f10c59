// Package cloud is the client of the plugin: all that controllers ask of a cloud goes through it. Calls wait by priority for
// what the quota of their API leaves, which is found from the cloud's refusals; each has a deadline, is counted and timed, and
// returns errors that say by their type whether to retry.
//
// The decorated provider is a cloudprovider.Interface like the plugin itself, so that neither controllers nor plugins know
// of it, and decorators can be stacked.
//
// What one call does stays its own matter. Who can delay whom:
//
//	what happens to a call             the same object     others of its group                     other groups
//	it fails                           -                   not at all                              not at all
//	it panics                          -                   not at all                              not at all
//	it is slow                         waits for it        a place less for slowAfter              a place less, if the bound on
//	                                   (writes)                                                    calls under way is declared
//	it hangs, deaf to its context      writes wait for     as if slow; its object goes behind      as if slow
//	                                   ever, reads longer  others but refreshes the next time
//	                                   and longer
//	it is refused for a quota          goes behind others  the rate, until others are accepted     only if that group is refused
//	                                   but refreshes       in between and it alone is refused      at the same time
//	its refusal asks to wait           waits               a second for a read, not for a write;   as above
//	                                                       twice as long with each further object
//	                                                       that is refused, up to 30 s
//	all fail, and so does a read       waits               one at a time, reads first              not at all
//	that worked and is repeated
//	many wait                          -                   by priority, then by arrival, which     what is declared as the bound of
//	                                                       calls for one node share; every         all is shared, a tenth for each
//	                                                       sixteenth is the oldest
//
// The plugin's InstancesV2, Instances, Zones, LoadBalancer and Routes, which return what is called, are part of the call.
//
// See ADR 53.
package cloud

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// DefaultCallTimeout is the deadline of a call that reads.
	DefaultCallTimeout = time.Minute
	// DefaultWriteTimeout is the deadline of a call that changes a load balancer or a route. Plugins commonly wait in such
	// a call until the cloud is done.
	DefaultWriteTimeout = 10 * time.Minute
	// severalTimeout is the longest deadline of a call that makes several changes: one that hangs holds up the others for no longer. A
	// change that takes longer has all the time of a write when it is alone.
	severalTimeout = time.Minute
	// DefaultMaxInFlight is how many calls may be under way at once, not counting those that take longer than a second. A tenth is
	// kept for each group.
	DefaultMaxInFlight = 80
)

// ErrDeadline says that a call took longer than its deadline. It is a context.DeadlineExceeded as well.
var ErrDeadline = fmt.Errorf("the cloud did not answer in time: %w", context.DeadlineExceeded)

// Options bounds the calls to the cloud. A zero field takes its default.
type Options struct {
	// CallTimeout is the deadline of each call that reads; of a listing, the longest time from page to page.
	CallTimeout time.Duration
	// WriteTimeout is the deadline of each call that changes something in the cloud.
	WriteTimeout time.Duration
	// MaxInFlight is how many calls may be under way at once, over all controllers. Zero: what the provider declares, or else
	// DefaultMaxInFlight, against which calls count for a second only.
	MaxInFlight int
	// QPS is how many calls a second are made at the most, over all controllers, and Burst how many of them at once after a
	// pause. Zero: what the provider declares, or else no limit but the cloud's own, and a burst of one second's calls.
	QPS   float64
	Burst int
	// Fence is asked right before each call. An error means that this process must not call the cloud any more, and is returned
	// by the call. Nil: it always may.
	Fence func() error
	// WritesFrom returns when writes may begin: until then the cloud may be at what an earlier leader had it do. Reads do not wait. Nil: at once.
	WritesFrom func() time.Time
	// OnWrites is told how many writes the plugin is at: before each begins, and after each has returned, however late. It is called under
	// a lock, so that the newest is the last, and must neither block nor call the cloud. Nil is not called.
	OnWrites func(underway int)
	// Secrets are what no error of the plugin may repeat. Nil: errors go on as they are.
	Secrets *secrets.Set
	// TracerProvider records a span for each call. Nil: none are.
	TracerProvider trace.TracerProvider
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// client is what all calls of one plugin share.
type client struct {
	readTimeout  time.Duration
	writeTimeout time.Duration
	groups       map[string]string // of methods, as the provider declares
	fence        func() error
	writesFrom   func() time.Time // nil: writes never wait for what others have begun
	queue        *queue
	writes       writesUnderWay
	secrets      *secrets.Set
	tracer       trace.Tracer
	metrics      *metrics
}

// Decorate returns the plugin as controllers call it. It keeps what the plugin says that it can do: an interface that the plugin
// does not offer is not offered, and provider.CapabilitiesOf the result is that of the plugin, with the same bounds.
func Decorate(plugin cloudprovider.Interface, options Options) cloudprovider.Interface {
	metrics := newMetrics(options.Registerer)
	limits := provider.CapabilitiesOf(plugin).Limits
	options = options.within(limits)
	burst := cmp.Or(options.Burst, max(1, int(options.QPS)))
	calls := &client{
		readTimeout:  cmp.Or(options.CallTimeout, DefaultCallTimeout),
		writeTimeout: cmp.Or(options.WriteTimeout, DefaultWriteTimeout),
		groups:       limits.Groups,
		fence:        options.Fence,
		writesFrom:   options.WritesFrom,
		writes:       writesUnderWay{tell: options.OnWrites},
		secrets:      options.Secrets,
		queue: newQueue(groupNames(limits), cmp.Or(options.MaxInFlight, DefaultMaxInFlight), options.MaxInFlight > 0,
			rate.Limit(options.QPS), burst, metrics),
		tracer:  tracerOf(options.TracerProvider),
		metrics: metrics,
	}
	return &decorated{Interface: plugin, calls: calls, accessors: accessorsOf(plugin, calls)}
}

// within fills in what the provider declares where the operator has said nothing.
func (o Options) within(limits provider.Limits) Options {
	if o.QPS == 0 && limits.CallsPerSecond > 0 {
		o.QPS, o.Burst = limits.CallsPerSecond, max(limits.Burst, 0)
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = max(limits.InFlight, 0)
	}
	return o
}

// Overdue returns an error if so many calls of a decorated provider have not returned, long after their deadlines, that no
// more are made. Only a restart helps: the process is not ready any more.
func Overdue(decoratedProvider cloudprovider.Interface) error {
	if d, ok := decoratedProvider.(*decorated); ok {
		return d.calls.queue.overdue()
	}
	return nil
}

// about returns what a call is.
func (c *client) about(method, object string) subject {
	about := subject{operation: operations[method], name: method, object: object}
	if group := c.groups[method]; group != "" {
		about.group = group
	}
	return about
}

// closed returns an error if this process must not call the cloud any more.
func (c *client) closed() error {
	if c.fence == nil {
		return nil
	}
	return c.fence()
}

// change is write for a method that returns nothing but an error.
func (c *client) change(ctx context.Context, about subject, method func(context.Context) error) error {
	_, err := write(ctx, c, about, func(ctx context.Context) (struct{}, error) { return struct{}{}, method(ctx) })
	return err
}

// worked notes a read that would work now.
func (c *client) worked(about subject, repeat func(context.Context) error) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.queue.of(about.group).keepCanary(canary{about, repeat})
}

// took logs what a call has changed for its group, and begins a check of the cloud if one is due.
func (c *client) took(ctx context.Context, about subject, changed change) {
	logger := logr.FromContextOrDiscard(ctx).WithValues("group", changed.group)
	if changed.closed {
		logger.Info("The cloud answers again", "since", changed.since)
	}
	if changed.own {
		logger.Info("The cloud refuses calls for one object and accepts others; the rate of the others is not reduced",
			"operation", about.name, "object", about.object)
	}
	if changed.check {
		go c.check(context.WithoutCancel(ctx), changed.group)
	}
}

// check repeats reads that worked before, to see whether the cloud answers at all. One answer says that it does. Where no read
// ever worked, that all others fail has to do.
func (c *client) check(ctx context.Context, group string) {
	failed := false
	for range maxChecks {
		known := c.queue.takeCanary(group)
		if known == nil {
			break
		}
		if c.closed() != nil {
			return
		}
		switch label, rejected := c.repeat(ctx, known); {
		case outcome{label: label, rejected: rejected}.answered():
			c.queue.endCheck(group, known, false)
			return
		case label != outcomePanic:
			failed = true
		}
	}
	if changed := c.queue.endCheck(group, nil, failed); changed.opened {
		logr.FromContextOrDiscard(ctx).Error(changed.err, "The cloud fails all calls of a group; holding them back",
			"group", changed.group, "since", changed.since, "failures", changed.count)
	}
}

// repeat makes a read again that worked before. It names what became of it, and says whether the cloud blames the request.
func (c *client) repeat(ctx context.Context, known *canary) (label string, rejected bool) {
	ctx, call := c.call(ctx, known.about)
	ctx, cancel := context.WithTimeoutCause(ctx, c.readTimeout, ErrDeadline)
	defer cancel()
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		err := Protect(known.about.name, func() error { return c.shown(classify(known.repeat(ctx))) }, func(err error) { done <- err })
		done <- c.shown(err) // of a panic
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	err = call.finish(ctx, began, err)
	call.end(err)
	label, _ = labeled(ctx, err)
	return label, label == outcomeError && isRequestError(err)
}
