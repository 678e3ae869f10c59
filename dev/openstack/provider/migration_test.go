package provider

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/octaviatest"
	mooring "github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
)

// TestFromUpstreamAndBack takes over load balancers that were made by the calls of cloud-provider-openstack, one of them shared, changes them by
// tags alone, and looks that its code finds the same objects afterwards. Upstream.Make and Upstream.Find cite its functions.
func TestFromUpstreamAndBack(t *testing.T) {
	f := newFixture(t, "migration")
	ctx, cancel := context.WithTimeout(mooring.WithClusterUID(t.Context(), "cluster-uid"), 2*timeout)
	defer cancel()
	made, err := f.environment.CreateServers(ctx, openstack.ServerOptions{Names: []string{"worker-0", "worker-1"}})
	must.NoError(t, err)
	nodes, members := []*corev1.Node{}, map[string]string{}
	found := f.list(ctx, t)
	for _, server := range made {
		instance := found["openstack:///"+server.ID]
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: server.Name}, Spec: corev1.NodeSpec{ProviderID: instance.ProviderID},
			Status: corev1.NodeStatus{Addresses: instance.NodeAddresses},
		})
		for _, address := range instance.NodeAddresses {
			if address.Type == corev1.NodeInternalIP && strings.Contains(address.Address, ".") {
				members[server.Name] = address.Address
			}
		}
	}
	for _, driver := range []string{"ovn", "amphora"} {
		t.Run(driver, func(t *testing.T) {
			sections := []string{
				"[LoadBalancer]", "lb-provider=" + driver, "subnet-id=" + f.environment.Subnet, "floating-network-id=" + f.environment.External,
			}
			if driver == "amphora" {
				sections = append(sections, "create-monitor=true", "monitor-delay=5s", "monitor-timeout=3s", "monitor-max-retries=1", "monitor-max-retries-down=3")
			}
			f.configure(t, sections...)
			f.migrate(ctx, t, nodes, octaviatest.UpstreamService{
				Cluster: clusterName, Service: exposed("moved-"+driver, 80, 443), Driver: driver, SubnetID: f.environment.Subnet,
				FloatingNetworkID: f.environment.External, Members: members, Monitors: driver == "amphora",
			})
		})
	}
}

// exposed returns a Service with ports.
func exposed(name string, ports ...int32) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name), Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, port := range ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: port, NodePort: 30000 + port})
	}
	return service
}

// migrate has two Services of upstream's manager, the second on the load balancer of the first, taken over and back.
func (f *fixture) migrate(ctx context.Context, t *testing.T, nodes []*corev1.Node, owner octaviatest.UpstreamService) {
	upstream := octaviatest.Upstream{Octavia: f.clients.LoadBalancer, Neutron: f.clients.Network}
	before, err := upstream.Make(ctx, owner)
	must.NoError(t, err)
	sharer := owner
	sharer.Owner, sharer.Service = before.ID, exposed(owner.Service.Name+"-shares", 1080)
	sharer.Service.Annotations[annotations.LoadBalancerID] = before.ID
	shared, err := upstream.Make(ctx, sharer)
	must.NoError(t, err)
	balancers, _ := f.provider.LoadBalancer()
	f.cloud.Faults().Reset()
	for range 2 { // taken over by tags, and then nothing
		for _, service := range []*corev1.Service{owner.Service, sharer.Service} {
			var status *corev1.LoadBalancerStatus
			repeat(ctx, t, func() (err error) {
				status, err = balancers.EnsureLoadBalancer(ctx, clusterName, service, nodes)
				return err
			})
			if len(status.Ingress) != 1 || status.Ingress[0].IP != before.FloatingIP {
				t.Errorf("%s has %+v, and had %s", service.Name, status.Ingress, before.FloatingIP)
			}
		}
	}
	for _, call := range f.cloud.Faults().Calls() {
		members := call.Method == http.MethodPut && strings.HasSuffix(call.Path, "members")
		if members || slices.Contains([]string{http.MethodPost, http.MethodDelete}, call.Method) && !strings.HasSuffix(call.Path, login) {
			t.Errorf("the takeover made the call %s %s", call.Method, call.Path)
		}
	}
	finds := func(when string, of octaviatest.UpstreamService, want octaviatest.Shape) {
		t.Helper()
		got, err := upstream.Find(ctx, of)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s upstream's manager finds of %s (-before +after): %v\n%s", when, of.Service.Name, err, diff)
		}
	}
	finds("after the takeover", owner, before)
	finds("after the takeover", sharer, shared)
	repeat(ctx, t, func() error { return balancers.EnsureLoadBalancerDeleted(ctx, clusterName, sharer.Service) })
	finds("after one that shares was deleted", owner, before)
	if _, err := upstream.Find(ctx, sharer); err == nil {
		t.Error("what the deleted Service had is still there")
	}
	repeat(ctx, t, func() error { return balancers.EnsureLoadBalancerDeleted(ctx, clusterName, owner.Service) })
}
