package provider

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
	mooring "github.com/mooring-ccm/mooring/provider"
)

const clusterName = "kubernetes"

// TestLoadBalancers makes, changes and deletes a load balancer with each driver of Octavia.
func TestLoadBalancers(t *testing.T) {
	f := newFixture(t, "balancers")
	ctx, cancel := context.WithTimeout(mooring.WithClusterUID(t.Context(), "cluster-uid"), 2*timeout)
	defer cancel()
	made, err := f.environment.CreateServers(ctx, openstack.ServerOptions{Names: []string{"worker-0", "worker-1", "worker-2"}})
	if err != nil {
		t.Fatal(err)
	}
	found, nodes := f.list(ctx, t), []*corev1.Node{}
	for _, server := range made {
		instance := found["openstack:///"+server.ID]
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: server.Name}, Spec: corev1.NodeSpec{ProviderID: instance.ProviderID},
			Status: corev1.NodeStatus{Addresses: instance.NodeAddresses},
		})
	}
	for _, driver := range []string{"ovn", "amphora"} {
		t.Run(driver, func(t *testing.T) {
			f.configure(t, "[LoadBalancer]", "lb-provider="+driver, "subnet-id="+f.environment.Subnet, "floating-network-id="+f.environment.External)
			f.balance(ctx, t, "on-"+driver, nodes)
		})
	}
}

// balance takes one Service through its life.
func (f *fixture) balance(ctx context.Context, t *testing.T, name string, nodes []*corev1.Node) {
	balancers, _ := f.provider.LoadBalancer()
	capabilities := mooring.CapabilitiesOf(f.provider)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
		}},
	}
	ensure := func(of []*corev1.Node) (status *corev1.LoadBalancerStatus) {
		t.Helper()
		repeat(ctx, t, func() (err error) {
			status, err = balancers.EnsureLoadBalancer(ctx, clusterName, service, of)
			return err
		})
		return status
	}
	targets := func(want ...types.NodeName) {
		t.Helper()
		listed, err := capabilities.ListLoadBalancers(ctx, clusterName)
		if err != nil || len(listed) != 1 || listed[0].ServiceUID != service.UID || !slices.Equal(listed[0].Targets, want) {
			t.Errorf("listed %+v, want one with targets %q: %v", listed, want, err)
		}
	}

	status := ensure(nodes[:2])
	if len(status.Ingress) != 1 || !netip.MustParsePrefix("203.0.113.0/24").Contains(netip.MustParseAddr(status.Ingress[0].IP)) {
		t.Errorf("the status is %+v, want a floating IP", status)
	}
	service.Status.LoadBalancer = *status
	targets("worker-0", "worker-1")

	f.cloud.Faults().Reset()
	ensure(nodes[:2])
	for _, call := range f.cloud.Faults().Calls() {
		if call.Method != "GET" {
			t.Errorf("nothing has changed, and a call is %s %s", call.Method, call.Path)
		}
	}
	if calls := faultproxy.Count(f.cloud.Faults().Calls()); calls.Total() > 6 {
		t.Errorf("%d calls where nothing has changed:\n%s", calls.Total(), calls)
	}

	repeat(ctx, t, func() error { return capabilities.ChangeTargets(ctx, clusterName, service, nodes[2:], nodes[:1]) })
	ensure(nodes[1:])
	targets("worker-1", "worker-2")

	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443})
	if again := ensure(nodes[1:]); again.Ingress[0].IP != status.Ingress[0].IP {
		t.Errorf("the address was %s and is %s", status.Ingress[0].IP, again.Ingress[0].IP)
	}
	targets("worker-1", "worker-2")

	repeat(ctx, t, func() error { return balancers.EnsureLoadBalancerDeleted(ctx, clusterName, service) })
	if listed, err := capabilities.ListLoadBalancers(ctx, clusterName); err != nil || len(listed) > 0 {
		t.Errorf("listed %+v after the deletion: %v", listed, err)
	}
}

// repeat makes a call until its answer is no "come again", as the controller does.
func repeat(ctx context.Context, t *testing.T, call func() error) {
	t.Helper()
	for {
		err := call()
		var again *cloudproviderapi.RetryError
		switch {
		case err == nil:
			return
		case !errors.As(err, &again):
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("given up: %v", err)
		case <-time.After(again.RetryAfter()):
		}
	}
}
