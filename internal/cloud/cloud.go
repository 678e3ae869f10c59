// Package cloud puts a plugin behind one door. Calls of all controllers wait there in one queue, by priority, for what the
// cloud's quota leaves, which the door learns from the cloud's refusals. Every call has a deadline, is counted and timed, and
// returns errors that say by their type whether to retry.
//
// The decorated provider is a cloudprovider.Interface like the plugin itself, so that neither controllers nor plugins know
// of it, and decorators can be stacked.
package cloud

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
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
	DefaultMaxInFlight = 64
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
	// DefaultMaxInFlight.
	MaxInFlight int
	// QPS is how many calls a second are made at the most, over all controllers, and Burst how many of them at once after a
	// pause. Zero: what the provider declares, or else no limit but the cloud's own, and a burst of one second's calls.
	QPS   float64
	Burst int
	// TracerProvider records a span for each call. Nil: none are.
	TracerProvider trace.TracerProvider
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// Decorate returns the plugin behind the door. It keeps what the plugin says that it can do: an interface that the plugin
// does not offer is not offered, and provider.CapabilitiesOf the result is that of the plugin, with the same bounds.
func Decorate(plugin cloudprovider.Interface, options Options) cloudprovider.Interface {
	metrics := newMetrics(options.Registerer)
	options = options.within(provider.CapabilitiesOf(plugin).Limits)
	burst := cmp.Or(options.Burst, max(1, int(options.QPS)))
	calls := &caller{
		readTimeout:  cmp.Or(options.CallTimeout, DefaultCallTimeout),
		writeTimeout: cmp.Or(options.WriteTimeout, DefaultWriteTimeout),
		gate:         newGate(cmp.Or(options.MaxInFlight, DefaultMaxInFlight), rate.Limit(options.QPS), burst, metrics),
		guard:        newGuard(metrics),
		tracer:       tracerOf(options.TracerProvider),
		metrics:      metrics,
	}
	return &decorated{Interface: plugin, calls: calls}
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
			return d.calls.list(ctx, subject{operation: "ListInstances", group: instanceCalls}, list, yield)
		}
	}
	if watch := capabilities.WatchInstances; watch != nil {
		capabilities.WatchInstances = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			return d.calls.watch(ctx, subject{operation: "WatchInstances", group: instanceCalls}, watch, yield)
		}
	}
	if list := capabilities.ListLoadBalancers; list != nil {
		capabilities.ListLoadBalancers = func(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
			about := subject{operation: "ListLoadBalancers", group: loadBalancerCalls}
			return read(ctx, d.calls, about, func(ctx context.Context) ([]provider.LoadBalancer, error) {
				return list(ctx, clusterName)
			})
		}
	}
	if replace := capabilities.ReplaceRoute; replace != nil {
		capabilities.ReplaceRoute = func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
			return write(ctx, d.calls, subject{"ReplaceRoute", routeCalls, old.DestinationCIDR}, func(ctx context.Context) error {
				return replace(ctx, clusterName, old, replacement)
			})
		}
	}
	if change := capabilities.ChangeRoutes; change != nil {
		capabilities.ChangeRoutes = d.calls.changeRoutes(change)
	}
	if change := capabilities.ChangeTargets; change != nil {
		capabilities.ChangeTargets = d.calls.changeTargets(change)
	}
	return capabilities
}
