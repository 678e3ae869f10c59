package conformance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// firstNodePort is the node port of the first port of the first Service of a trial.
const firstNodePort = 30080

// service returns a Service of type LoadBalancer with one TCP port. Nothing is made for it yet.
func (t *trial) service() *v1.Service {
	t.services++
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "mooring-conformance", Name: fmt.Sprintf("%s-%s-%d", t.rule, t.options.RunID, t.services),
			UID: t.uid(fmt.Sprintf("service-%d", t.services)),
		},
		Spec: v1.ServiceSpec{
			Type:                  v1.ServiceTypeLoadBalancer,
			IPFamilies:            []v1.IPFamily{v1.IPv4Protocol},
			ExternalTrafficPolicy: v1.ServiceExternalTrafficPolicyCluster,
			SessionAffinity:       v1.ServiceAffinityNone,
			Ports:                 []v1.ServicePort{t.port("http", v1.ProtocolTCP, 80, 0)},
		},
	}
}

func (t *trial) port(name string, protocol v1.Protocol, port, offset int32) v1.ServicePort {
	return v1.ServicePort{Name: name, Protocol: protocol, Port: port, NodePort: firstNodePort + int32(t.services)*10 + offset}
}

func (t *trial) balancers() cloudprovider.LoadBalancer {
	balancers, _ := t.Cloud.LoadBalancer()
	return balancers
}

// willHave has a Service's load balancer removed when the trial has ended. It is called before the first call that may make one.
func (t *trial) willHave(service *v1.Service) {
	what := "load balancer of service " + service.Name + ", " + string(service.UID)
	if slices.ContainsFunc(t.removals, func(r removal) bool { return r.what == what }) {
		return
	}
	service = service.DeepCopy()
	t.removeLater(what, func(ctx context.Context) error { return t.deleteBalancer(ctx, service) })
}

// deleteBalancer deletes a Service's load balancer and looks that it is gone.
func (t *trial) deleteBalancer(ctx context.Context, service *v1.Service) error {
	if err := t.balancers().EnsureLoadBalancerDeleted(ctx, t.options.ClusterName, service); err != nil {
		return fmt.Errorf("EnsureLoadBalancerDeleted: %w", err)
	}
	return t.lacksBalancer(ctx, service)
}

// lacksBalancer returns an error if a Service has a load balancer.
func (t *trial) lacksBalancer(ctx context.Context, service *v1.Service) error {
	status, exists, err := t.balancers().GetLoadBalancer(ctx, t.options.ClusterName, service)
	if exists || err != nil {
		return fmt.Errorf("GetLoadBalancer: %v, exists %t, %w; there should be none", status, exists, orNil(err))
	}
	return nil
}

// ensure makes a Service's load balancer and waits until it is ready.
func (t *trial) ensure(ctx context.Context, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	t.willHave(service)
	var status *v1.LoadBalancerStatus
	err := t.retried(ctx, func(ctx context.Context) error {
		var err error
		status, err = t.balancers().EnsureLoadBalancer(ctx, t.options.ClusterName, service, nodes)
		return err
	})
	switch {
	case errors.Is(err, provider.ErrImplementedElsewhere):
		return nil, unavailable("the provider's load balancers are implemented elsewhere: %v", err)
	case err != nil:
		return nil, fmt.Errorf("EnsureLoadBalancer: %w", err)
	case status == nil:
		return nil, errors.New("EnsureLoadBalancer: no status, and no error")
	}
	return status, nil
}

// ensureNew makes the load balancer of a new Service.
func (t *trial) ensureNew(ctx context.Context) (*v1.Service, *v1.LoadBalancerStatus, []*v1.Node, error) {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	service := t.service()
	status, err := t.ensure(ctx, service, nodes)
	return service, status, nodes, err
}

// update changes the targets of a Service's load balancer.
func (t *trial) update(ctx context.Context, service *v1.Service, nodes []*v1.Node) error {
	err := t.retried(ctx, func(ctx context.Context) error {
		return t.balancers().UpdateLoadBalancer(ctx, t.options.ClusterName, service, nodes)
	})
	if err != nil {
		return fmt.Errorf("UpdateLoadBalancer: %w", err)
	}
	return nil
}

// hasBalancer tries that GetLoadBalancer shows a Service's load balancer with that status, within the propagation timeout.
func (t *trial) hasBalancer(ctx context.Context, service *v1.Service, want *v1.LoadBalancerStatus) error {
	return t.eventually(ctx, func(ctx context.Context) error {
		status, exists, err := t.balancers().GetLoadBalancer(ctx, t.options.ClusterName, service)
		if err != nil || !exists || !reflect.DeepEqual(status, want) {
			return fmt.Errorf("GetLoadBalancer: %v, exists %t, %w; EnsureLoadBalancer returned %v", status, exists, orNil(err), want)
		}
		return nil
	})
}

// inspect looks at a Service's load balancer in the cloud: by the hook, or else by the provider's list.
func (t *trial) inspect(ctx context.Context, service *v1.Service) (*LoadBalancerView, error) {
	if t.Hooks.InspectLoadBalancer != nil {
		view, err := t.Hooks.InspectLoadBalancer(ctx, t.options.ClusterName, service)
		if err == nil && view == nil {
			err = errors.New("it returned nothing, and no error")
		}
		if err != nil {
			return nil, hookFailed("InspectLoadBalancer", err)
		}
		return view, nil
	}
	if provider.CapabilitiesOf(t.Cloud).ListLoadBalancers == nil {
		return nil, unavailable("only a provider's own test can give the hook that this needs, InspectLoadBalancer, and the provider's capabilities have no ListLoadBalancers")
	}
	listed, err := t.listedBalancer(ctx, t.options.ClusterName, service)
	if err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("ListLoadBalancers does not list the load balancer of service %s", service.UID)
	}
	return &LoadBalancerView{Targets: listed.Targets, Ports: listed.Ports}, nil
}

// listedBalancer returns a Service's load balancer as the provider lists it, nil if it does not.
func (t *trial) listedBalancer(ctx context.Context, clusterName string, service *v1.Service) (*provider.LoadBalancer, error) {
	all, err := provider.CapabilitiesOf(t.Cloud).ListLoadBalancers(ctx, clusterName)
	if err != nil {
		return nil, fmt.Errorf("ListLoadBalancers: %w", err)
	}
	var found *provider.LoadBalancer
	for _, balancer := range all {
		if balancer.ServiceUID != service.UID {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("ListLoadBalancers lists two load balancers of service %s: %s and %s",
				service.UID, found.Name, balancer.Name)
		}
		found = &balancer
	}
	return found, nil
}

// hasTargets tries that traffic to a Service's load balancer goes to these nodes and no others.
func (t *trial) hasTargets(ctx context.Context, service *v1.Service, nodes []*v1.Node) error {
	var want []types.NodeName
	for _, node := range nodes {
		want = append(want, types.NodeName(node.Name))
	}
	slices.Sort(want)
	return t.eventually(ctx, func(ctx context.Context) error {
		view, err := t.inspect(ctx, service)
		if err != nil {
			return err
		}
		if view.Targets == nil {
			return unavailable("neither hook nor list returns the targets of a load balancer")
		}
		if got := slices.Sorted(slices.Values(view.Targets)); !slices.Equal(got, want) {
			return fmt.Errorf("the targets are %q; the nodes were %q", got, want)
		}
		return nil
	})
}

// hasPorts tries that a Service's load balancer listens on the Service's ports and no others.
func (t *trial) hasPorts(ctx context.Context, service *v1.Service) error {
	want := listeners(service.Spec.Ports)
	return t.eventually(ctx, func(ctx context.Context) error {
		view, err := t.inspect(ctx, service)
		if err != nil {
			return err
		}
		if view.Ports == nil {
			return unavailable("neither hook nor list returns the ports of a load balancer")
		}
		if got := listeners(view.Ports); !slices.Equal(got, want) {
			return fmt.Errorf("the listeners are %q; the service's ports are %q", got, want)
		}
		return nil
	})
}

// listeners is what of ports a load balancer has, in order.
func listeners(ports []v1.ServicePort) []string {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = fmt.Sprintf("%s %d to %d", port.Protocol, port.Port, port.NodePort)
	}
	slices.Sort(texts)
	return texts
}
