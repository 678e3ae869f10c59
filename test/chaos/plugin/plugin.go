// Package plugin is the provider of the simulated cloud for tests, which misbehaves as only code inside the process can where the cloud
// asks for it: see package misbehavior.
package plugin

import (
	"context"
	"errors"
	"io"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/test/chaos/misbehavior"
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

// plugin is the provider of the simulated cloud, but for calls that the cloud refuses with a status of package misbehavior.
type plugin struct{ *sim.Cloud }

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
	listInstances, listBalancers, replaceRoute := all.ListInstances, all.ListLoadBalancers, all.ReplaceRoute
	all.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error {
		return obey(listInstances(ctx, yield))
	}
	all.ListLoadBalancers = func(ctx context.Context, cluster string) ([]provider.LoadBalancer, error) {
		found, err := listBalancers(ctx, cluster)
		return found, obey(err)
	}
	all.ReplaceRoute = func(ctx context.Context, cluster string, old, replacement *cloudprovider.Route) error {
		return obey(replaceRoute(ctx, cluster, old, replacement))
	}
	if watch := all.WatchInstances; watch != nil {
		all.WatchInstances = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			return obey(watch(ctx, yield))
		}
	}
	if change := all.ChangeTargets; change != nil {
		all.ChangeTargets = func(ctx context.Context, cluster string, service *corev1.Service, add, remove []*corev1.Node) error {
			return obey(change(ctx, cluster, service, add, remove))
		}
	}
	return all
}

// Instances and Zones are left out, so that there is one way to ask for an instance.
func (p plugin) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (p plugin) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (p plugin) InstancesV2() (cloudprovider.InstancesV2, bool) {
	of, ok := p.Cloud.InstancesV2()
	return instances{of}, ok
}

func (p plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	of, ok := p.Cloud.LoadBalancer()
	return balancers{of}, ok
}

func (p plugin) Routes() (cloudprovider.Routes, bool) {
	of, ok := p.Cloud.Routes()
	return routes{of}, ok
}

type instances struct{ of cloudprovider.InstancesV2 }

func (i instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	exists, err := i.of.InstanceExists(ctx, node)
	return exists, obey(err)
}

func (i instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	shutdown, err := i.of.InstanceShutdown(ctx, node)
	return shutdown, obey(err)
}

func (i instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	metadata, err := i.of.InstanceMetadata(ctx, node)
	return metadata, obey(err)
}

type balancers struct{ of cloudprovider.LoadBalancer }

func (b balancers) GetLoadBalancerName(ctx context.Context, cluster string, service *corev1.Service) string {
	return b.of.GetLoadBalancerName(ctx, cluster, service)
}

func (b balancers) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, exists, err := b.of.GetLoadBalancer(ctx, cluster, service)
	return status, exists, obey(err)
}

func (b balancers) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	status, err := b.of.EnsureLoadBalancer(ctx, cluster, service, nodes)
	return status, obey(err)
}

func (b balancers) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	return obey(b.of.UpdateLoadBalancer(ctx, cluster, service, nodes))
}

func (b balancers) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	return obey(b.of.EnsureLoadBalancerDeleted(ctx, cluster, service))
}

type routes struct{ of cloudprovider.Routes }

func (r routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	found, err := r.of.ListRoutes(ctx, cluster)
	return found, obey(err)
}

func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return obey(r.of.CreateRoute(ctx, cluster, hint, route))
}

func (r routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return obey(r.of.DeleteRoute(ctx, cluster, route))
}
