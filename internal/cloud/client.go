// Package cloud is the client of the plugin: all that controllers ask of a cloud goes through it. A plugin that declares nothing gets as
// many calls at the same time as from the reference, without deadlines, with arguments of their own, and never two about one object. Calls
// wait by priority for that, and for what the quota of their API leaves, which is found from the cloud's own refusals.
//
// The decorated provider is a cloudprovider.Interface like the plugin itself, so neither controllers nor plugins know
// of it, and decorators can be stacked.
//
// Who can delay whom:
//
//	what happens to a call             the same object     others of its pool                   other pools, other groups
//	it fails, it panics                -                   not at all                           not at all
//	it is under way                    waits for it        a place less                         not at all, or a place less of a declared bound
//	it is outstanding                  gets an error,      not at all; its object goes behind   not at all
//	                                   until it returns    others the next time
//	eight of a method are outstanding  the same            wait for one of them                 not at all
//	it is refused for a quota          goes behind others  not at all                           not at all
//	two objects are refused within     waits               wait for the rate, and for what      the pools of that group wait as well
//	ten seconds                                            the cloud asks, up to 30 s
//	many wait                          -                   by priority, then by arrival; every  not at all, or by a declared bound, of which
//	                                                       sixteenth is the oldest              a tenth is kept for each group
//
// A pool has the calls of one loop of the reference, see pool.go; a group has the calls that draw on one quota.
//
// The plugin's InstancesV2, Instances, Zones, LoadBalancer and Routes, which return what is called, are part of the call.
//
// See ADR 53.
package cloud

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/provider"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/mooring-ccm/mooring/internal/cloud"

// Options bounds the calls to the cloud. A zero field takes its default.
type Options struct {
	// CallTimeout is the deadline of each call that reads; of a listing, the longest time from page to page. Zero: what the provider
	// declares, or else none.
	CallTimeout time.Duration
	// WriteTimeout is the deadline of each call that changes something in the cloud. Zero: what the provider declares, or else none.
	WriteTimeout time.Duration
	// Lifetime ends the contexts of calls that are under way: with the lease or the process. The end of a caller's own context does not,
	// which could be for any reason. Nil: it does.
	Lifetime context.Context
	// MaxInFlight is how many calls may be under way at once, over all controllers, reads in any pool. Zero: what the provider declares, or
	// else what the reference makes, see Concurrency.
	MaxInFlight int
	// Concurrency is how many calls of the loops of the reference may be under way at once.
	Concurrency admission.Concurrency
	// QPS is how many calls a second are made at the most, over all controllers, and Burst how many of them at once after a
	// pause. Zero: what the provider declares, or else no limit but the cloud's own, and a burst of one second's calls.
	QPS   float64
	Burst int
	// Fence is asked right before each call. An error means that this process must no longer call the cloud, and is returned
	// by the call. Nil: it always may.
	Fence func() error
	// WritesFrom returns when writes may begin: until then the cloud may be at what an earlier leader had it do. Reads do not wait. Nil: at once.
	WritesFrom func() time.Time
	// Secrets are what no error of the plugin may repeat. Nil: errors go on as they are.
	Secrets *secrets.Set
	// TracerProvider records a span for each call. Nil: none are.
	TracerProvider trace.TracerProvider
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// client is what all calls of one plugin share.
type client struct {
	readTimeout  time.Duration // 0: no deadline
	writeTimeout time.Duration
	lifetime     context.Context // nil: calls live as long as their callers want
	methods      admission.Methods
	fence        func() error
	writesFrom   func() time.Time // nil: writes never wait for what others have begun
	balancersEnd bool             // those about load balancers do not
	queue        *admission.Queue
	targets      targets
	secrets      *secrets.Set
	tracer       trace.Tracer
	metrics      *metrics
}

// Decorate returns the plugin as controllers call it. It keeps what the plugin says that it can do: an interface that the plugin
// does not offer is not offered, and provider.CapabilitiesOf the result is the plugin's, with the same bounds.
func Decorate(plugin cloudprovider.Interface, options Options) cloudprovider.Interface {
	metrics := newMetrics(options.Registerer)
	capabilities := provider.CapabilitiesOf(plugin)
	limits := capabilities.Limits
	options = options.within(limits)
	burst := cmp.Or(options.Burst, max(1, int(options.QPS)))
	calls := &client{
		readTimeout:  options.CallTimeout,
		writeTimeout: options.WriteTimeout,
		lifetime:     options.Lifetime,
		methods:      limits.Groups,
		fence:        options.Fence,
		writesFrom:   options.WritesFrom,
		balancersEnd: capabilities.LoadBalancersEndWithProcess,
		secrets:      options.Secrets,
		queue: admission.New(admission.Methods(limits.Groups).Groups(), admission.BoundsOf(options.Concurrency, options.MaxInFlight, capabilities), options.MaxInFlight,
			rate.Limit(options.QPS), burst, metrics.queue),
		tracer:  cmp.Or[trace.TracerProvider](options.TracerProvider, noop.NewTracerProvider()).Tracer(tracerName),
		metrics: metrics,
	}
	return &decorated{Interface: plugin, calls: calls, accessors: accessorsOf(plugin, calls)}
}

// within fills in what the provider declares where the operator has said nothing.
func (o Options) within(limits provider.Limits) Options {
	if o.QPS == 0 && limits.CallsPerSecond > 0 {
		o.QPS, o.Burst = limits.CallsPerSecond, max(limits.Burst, 0)
	}
	o.MaxInFlight = cmp.Or(o.MaxInFlight, max(limits.InFlight, 0))
	o.CallTimeout = cmp.Or(o.CallTimeout, max(limits.Timeout, 0))
	o.WriteTimeout = cmp.Or(o.WriteTimeout, max(limits.WriteTimeout, 0))
	return o
}

// Overdue returns an error if so many calls of a method of a decorated provider have not returned that no more can be outstanding. Only a
// restart helps: the process is no longer ready.
func Overdue(decoratedProvider cloudprovider.Interface) error {
	if d, ok := decoratedProvider.(*decorated); ok {
		return d.calls.queue.Overdue()
	}
	return nil
}

// Unreturned returns a StillRunningError for each write of a decorated provider that is outstanding. It may still change something: this
// process must not let another one lead before it has returned, or the process has ended. Writes whose callers wait for them are not
// among them.
func Unreturned(decoratedProvider cloudprovider.Interface) error {
	if d, ok := decoratedProvider.(*decorated); ok {
		return d.calls.queue.Unreturned()
	}
	return nil
}
