package pluginfault

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// Capabilities is provider.Capable. Capabilities that are no calls, changes of many routes and node groups have no faults.
func (p *Plugin) Capabilities() provider.Capabilities {
	all := provider.CapabilitiesOf(p.Interface)
	if list := all.ListInstances; list != nil {
		all.ListInstances = p.listInstances(list)
	}
	if watch := all.WatchInstances; watch != nil {
		all.WatchInstances = p.watchInstances(watch)
	}
	if list := all.ListLoadBalancers; list != nil {
		all.ListLoadBalancers = func(ctx context.Context, cluster string) ([]provider.LoadBalancer, error) {
			return do(ctx, p, Call{Operation: "ListLoadBalancers", Cluster: cluster}, func() ([]provider.LoadBalancer, error) {
				return list(ctx, cluster)
			})
		}
	}
	if replace := all.ReplaceRoute; replace != nil {
		all.ReplaceRoute = func(ctx context.Context, cluster string, old, replacement *cloudprovider.Route) error {
			return p.change(ctx, routed("ReplaceRoute", cluster, replacement), func() error { return replace(ctx, cluster, old, replacement) })
		}
	}
	if change := all.ChangeTargets; change != nil {
		all.ChangeTargets = func(ctx context.Context, cluster string, service *corev1.Service, add, remove []*corev1.Node) error {
			return p.change(ctx, served("ChangeTargets", cluster, service, add), func() error { return change(ctx, cluster, service, add, remove) })
		}
	}
	return all
}

// part makes a part of a call with its fault, and hands it on.
func part[T any](ctx context.Context, p *Plugin, operation string, first provider.Instance, request any, right T, yield func(T) error) error {
	call := Call{Operation: operation, Object: string(first.NodeName), Part: true, Request: request}
	answer, err := do(ctx, p, call, func() (T, error) { return right, nil })
	if err != nil {
		return err
	}
	return yield(answer)
}

func (p *Plugin) listInstances(list provider.ListInstancesFunc) provider.ListInstancesFunc {
	return func(ctx context.Context, yield func([]provider.Instance) error) error {
		return p.change(ctx, Call{Operation: "ListInstances"}, func() error {
			return list(ctx, func(page []provider.Instance) error {
				if len(page) == 0 {
					return yield(page)
				}
				return part(ctx, p, "ListInstances", page[0], page[0], page, yield)
			})
		})
	}
}

func (p *Plugin) watchInstances(watch provider.WatchInstancesFunc) provider.WatchInstancesFunc {
	return func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
		return p.change(ctx, Call{Operation: "WatchInstances"}, func() error {
			return watch(ctx, func(event provider.InstanceEvent) error {
				if event.Kind == provider.InstancesCurrent {
					return yield(event)
				}
				return part(ctx, p, "WatchInstances", event.Instance, event, event, yield)
			})
		})
	}
}
