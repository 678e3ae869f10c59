package cloud

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// decorated replaces what leaves the process; the rest is the plugin's own.
type decorated struct {
	cloudprovider.Interface
	calls     *client
	accessors accessors
}

var _ provider.Capable = (*decorated)(nil)

func (d *decorated) Instances() (cloudprovider.Instances, bool) {
	if !d.accessors.instances.offers() {
		return nil, false
	}
	return &instances{plugin: d.accessors.instances, calls: d.calls}, true
}

func (d *decorated) InstancesV2() (cloudprovider.InstancesV2, bool) {
	if !d.accessors.instancesV2.offers() {
		return nil, false
	}
	return &instancesV2{plugin: d.accessors.instancesV2, calls: d.calls}, true
}

func (d *decorated) Zones() (cloudprovider.Zones, bool) {
	if !d.accessors.zones.offers() {
		return nil, false
	}
	return &zones{plugin: d.accessors.zones, calls: d.calls}, true
}

func (d *decorated) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	if !d.accessors.balancer.offers() {
		return nil, false
	}
	return &loadBalancer{plugin: d.accessors.balancer, calls: d.calls}, true
}

func (d *decorated) Routes() (cloudprovider.Routes, bool) {
	if !d.accessors.routes.offers() {
		return nil, false
	}
	return &routes{plugin: d.accessors.routes, calls: d.calls}, true
}

// Capabilities returns the plugin's, with their calls through the same queue.
func (d *decorated) Capabilities() provider.Capabilities {
	capabilities := provider.CapabilitiesOf(d.Interface)
	if list := capabilities.ListInstances; list != nil {
		capabilities.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error {
			return d.calls.list(ctx, d.calls.about("ListInstances", ""), list, yield)
		}
	}
	if watch := capabilities.WatchInstances; watch != nil {
		capabilities.WatchInstances = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
			return d.calls.watch(ctx, d.calls.about("WatchInstances", ""), watch, yield)
		}
	}
	if list := capabilities.ListLoadBalancers; list != nil {
		capabilities.ListLoadBalancers = func(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
			about := d.calls.about("ListLoadBalancers", "")
			return once(ctx, d.calls, about, func(ctx context.Context) ([]provider.LoadBalancer, error) {
				listed, err := list(ctx, clusterName)
				return copiesOfBalancers(listed), err
			})
		}
	}
	if replace := capabilities.ReplaceRoute; replace != nil {
		capabilities.ReplaceRoute = func(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
			return d.calls.change(ctx, d.calls.about("ReplaceRoute", old.DestinationCIDR), func(ctx context.Context) error {
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
			call := &call{client: d.calls, about: subject{name: "RetryLoadBalancers"}, span: noSpan}
			err := Protect(call.about.name, func() error { retry(ctx, again); return nil }, func(err error) {
				logr.FromContextOrDiscard(ctx).Error(err, "The cloud provider no longer reports Services to try again")
			})
			call.logPanic(ctx, d.calls.shown(err))
		}
	}
	return capabilities
}
