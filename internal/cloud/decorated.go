package cloud

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

// decorated replaces what leaves the process; the rest is the plugin's own.
type decorated struct {
	cloudprovider.Interface
	calls     *client
	accessors accessors
}

var _ provider.Capable = (*decorated)(nil)

// offer returns an interface as controllers call it, if the plugin offers it.
func offer[T any](d *decorated, plugin *accessor[T], decorate func(offered[T]) T) (as T, ok bool) {
	if !plugin.offers() {
		return as, false
	}
	return decorate(offered[T]{plugin, d.calls}), true
}

func (d *decorated) Instances() (cloudprovider.Instances, bool) {
	return offer(d, d.accessors.instances, func(of offered[cloudprovider.Instances]) cloudprovider.Instances { return &instances{of} })
}

func (d *decorated) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return offer(d, d.accessors.instancesV2, func(of offered[cloudprovider.InstancesV2]) cloudprovider.InstancesV2 { return &instancesV2{of} })
}

func (d *decorated) Zones() (cloudprovider.Zones, bool) {
	return offer(d, d.accessors.zones, func(of offered[cloudprovider.Zones]) cloudprovider.Zones { return &zones{of} })
}

func (d *decorated) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return offer(d, d.accessors.balancer, func(of offered[cloudprovider.LoadBalancer]) cloudprovider.LoadBalancer { return &loadBalancer{of} })
}

func (d *decorated) Routes() (cloudprovider.Routes, bool) {
	return offer(d, d.accessors.routes, func(of offered[cloudprovider.Routes]) cloudprovider.Routes { return &routes{of} })
}

// Capabilities returns the plugin's, with their calls through the same queue.
func (d *decorated) Capabilities() provider.Capabilities {
	capabilities := provider.CapabilitiesOf(d.Interface)
	if list := capabilities.ListInstances; list != nil {
		capabilities.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error {
			return d.calls.list(ctx, list, yield)
		}
	}
	if watch := capabilities.WatchInstances; watch != nil {
		capabilities.WatchInstances = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			return d.calls.watch(ctx, watch, yield)
		}
	}
	if list := capabilities.ListLoadBalancers; list != nil {
		capabilities.ListLoadBalancers = func(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
			return once(ctx, d.calls, d.calls.methods.About("ListLoadBalancers"), func(ctx context.Context) ([]provider.LoadBalancer, error) {
				listed, err := list(ctx, clusterName)
				return copied(listed, copyOfBalancer), err
			})
		}
	}
	if replace := capabilities.ReplaceRoute; replace != nil {
		capabilities.ReplaceRoute = func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
			return d.calls.change(ctx, d.calls.methods.About("ReplaceRoute", old.DestinationCIDR), func(ctx context.Context) error {
				return replace(ctx, clusterName, copyOfRoute(old), copyOfRoute(replacement))
			})
		}
	}
	if change := capabilities.ChangeRoutes; change != nil {
		capabilities.ChangeRoutes = d.calls.changeRoutes(change)
	}
	if change := capabilities.ChangeTargets; change != nil {
		capabilities.ChangeTargets = d.calls.changeTargets(change)
	}
	if groups := capabilities.NodeGroups; groups != nil {
		capabilities.NodeGroups = &nodeGroups{plugin: groups, calls: d.calls}
	}
	if retry := capabilities.RetryLoadBalancers; retry != nil {
		capabilities.RetryLoadBalancers = func(ctx context.Context, again func(types.NamespacedName)) {
			about := d.calls.methods.About("RetryLoadBalancers")
			err := guard.Protect(about.Method, func() error { retry(ctx, again); return nil }, func(err error) {
				logr.FromContextOrDiscard(ctx).Error(err, "The cloud provider no longer reports Services to try again")
			})
			d.calls.logPanic(ctx, about, d.calls.shown(err))
		}
	}
	return capabilities
}
