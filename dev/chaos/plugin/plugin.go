// Package plugin is the provider of the simulated cloud for tests, which misbehaves as only code inside the process can, where the cloud or
// the runner asks for it: see package misbehavior. It keeps to two quirks at all times: it writes into the Services that it is given, and
// it fails as a whole if it is given the node of another cloud.
package plugin

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/chaos/misbehavior"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

func init() {
	cloudprovider.RegisterCloudProvider(misbehavior.ProviderName, func(config io.Reader) (cloudprovider.Interface, error) {
		parsed, err := sim.ReadConfig(config)
		if err != nil {
			return nil, err
		}
		built, err := sim.New(parsed)
		if err != nil {
			return nil, err
		}
		return plugin{built}, nil
	})
}

// plugin is the provider of the simulated cloud, but for calls that the cloud refuses with a status of package misbehavior, and for the
// quirks that it has at the moment.
type plugin struct{ *sim.Cloud }

// deafPause is how often a call that ignores its context looks whether it may go on.
const deafPause = 50 * time.Millisecond

// quirks are those that the plugin has now, and has says whether one is among them.
func quirks() misbehavior.Quirks { return misbehavior.ReadQuirks(os.Getenv(misbehavior.QuirksFile)) }

func has(quirk string) bool { return quirks().Has(quirk) }

// call does what every call does beside its work.
func call[T any](work func() (T, error)) (answer T, err error) {
	for has(misbehavior.Deaf) {
		time.Sleep(deafPause)
	}
	if has(misbehavior.Words) {
		return answer, errors.New("googleapi: Error 403: Rate Limit Exceeded, rateLimitExceeded")
	}
	answer, err = work()
	err = obey(err)
	if err != nil && has(misbehavior.Untyped) {
		err = errors.New(err.Error())
	}
	return answer, err
}

// do is call for work without an answer.
func do(work func() error) error {
	_, err := call(func() (struct{}, error) { return struct{}{}, work() })
	return err
}

// obey misbehaves if the cloud asked for it, and returns the error else.
func obey(err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Status {
	case misbehavior.StatusPanic:
		panic("the plugin panics, as the schedule says")
	case misbehavior.StatusGoexit:
		runtime.Goexit()
	}
	return err
}

func (p plugin) Capabilities() provider.Capabilities {
	all := p.Cloud.Capabilities()
	if os.Getenv(misbehavior.Singly) != "" {
		all.ListInstances, all.ListLoadBalancers, all.WatchInstances = nil, nil, nil
	}
	if list := all.ListInstances; list != nil {
		all.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error {
			return do(func() error {
				return list(ctx, func(page []provider.Instance) error { return yield(describeAll(page, quirks())) })
			})
		}
	}
	if list := all.ListLoadBalancers; list != nil {
		all.ListLoadBalancers = func(ctx context.Context, cluster string) ([]provider.LoadBalancer, error) {
			return call(func() ([]provider.LoadBalancer, error) { return list(ctx, cluster) })
		}
	}
	if replace := all.ReplaceRoute; replace != nil {
		all.ReplaceRoute = func(ctx context.Context, cluster string, old, replacement *cloudprovider.Route) error {
			return do(func() error { return replace(ctx, cluster, old, replacement) })
		}
	}
	// What a watch reports stays known, so that a report has no quirks: nothing would set it right after their end.
	if watch := all.WatchInstances; watch != nil {
		all.WatchInstances = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			return obey(watch(ctx, yield))
		}
	}
	if change := all.ChangeTargets; change != nil {
		all.ChangeTargets = func(ctx context.Context, cluster string, service *corev1.Service, add, remove []*corev1.Node) error {
			return do(func() error {
				scribble(service)
				if err := refuseForeign(add); err != nil {
					return err
				}
				return change(ctx, cluster, service, add, remove)
			})
		}
	}
	return all
}

// Instances and Zones are left out, so that there is one way to ask for an instance.
func (p plugin) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (p plugin) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (p plugin) InstancesV2() (cloudprovider.InstancesV2, bool) {
	of, ok := p.Cloud.InstancesV2()
	return &instances{of: of, seen: map[string]cloudprovider.InstanceMetadata{}}, ok
}

func (p plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	of, ok := p.Cloud.LoadBalancer()
	return balancers{of}, ok
}

func (p plugin) Routes() (cloudprovider.Routes, bool) {
	of, ok := p.Cloud.Routes()
	return routes{of}, ok
}

type routes struct{ of cloudprovider.Routes }

func (r routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	return call(func() ([]*cloudprovider.Route, error) { return r.of.ListRoutes(ctx, cluster) })
}

func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return do(func() error { return r.of.CreateRoute(ctx, cluster, hint, route) })
}

func (r routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return do(func() error { return r.of.DeleteRoute(ctx, cluster, route) })
}
