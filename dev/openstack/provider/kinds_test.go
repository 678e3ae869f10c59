package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// kinds makes Services of each kind. It begins with the Services that the driver ovn cannot serve. They must not delay the others.
func (w *project) kinds(t *testing.T) {
	w.harbor.create(t, "headers", annotate(annotations.XForwardedFor, "true"))
	w.harbor.create(t, "sources", fromOneSource)
	w.harbor.create(t, "web")
	w.harbor.create(t, "inside", internal, toFront)
	w.pier.create(t, "web")
	w.pier.create(t, "local", keepLocal, annotate(annotations.Prefix+"enable-health-monitor", "true"))
	w.pier.create(t, "sources", fromOneSource)

	w.harbor.awaitEvent(t, "headers", `"ovn"`, "x-forwarded-for")
	w.harbor.awaitEvent(t, "sources", `"ovn"`, "spec.loadBalancerSourceRanges")
	web := w.harbor.awaitServed(t, "web")
	within(t, externalCIDR, w.harbor.addressOf(t, "web"))
	w.harbor.awaitServed(t, "inside")
	within(t, serverCIDR, w.harbor.addressOf(t, "inside"))
	w.inOVN(t, w.harbor.addressOf(t, "web")+":80")

	within(t, externalCIDR, w.pier.addressOf(t, "web"))
	w.pier.awaitServed(t, "web")
	w.pier.asksHealthPort(t, w.pier.awaitServed(t, "local"))
	allowed := w.pier.listeners(t, w.pier.awaitServed(t, "sources"))
	if len(allowed) != 1 || !slices.Equal(allowed[0].AllowedCIDRs, []string{"198.51.100.0/24"}) {
		t.Errorf("the listeners are %+v, want one for 198.51.100.0/24 only", allowed)
	}

	w.harbor.create(t, "shares", annotate(annotations.LoadBalancerID, web.ID), onPort(8080))
	if got, want := w.harbor.addressOf(t, "shares"), w.harbor.addressOf(t, "web"); got != want {
		t.Errorf("the Service that shares has %s, want %s", got, want)
	}
	if both := w.harbor.listeners(t, web); len(both) != 2 {
		t.Errorf("the shared load balancer has the listeners %+v, want two", both)
	}
}

func annotate(name, value string) func(*corev1.Service) {
	return func(service *corev1.Service) { metav1.SetMetaDataAnnotation(&service.ObjectMeta, name, value) }
}

// internal asks for no floating IP.
func internal(service *corev1.Service) { annotate(annotations.Internal, "true")(service) }

func onPort(port int32) func(*corev1.Service) {
	return func(service *corev1.Service) { service.Spec.Ports[0].Port = port }
}

// nodeSelector is the annotation by which only some nodes are targets, and front the label of those.
const nodeSelector, front = annotations.Prefix + "node-selector", "example.test/front"

// toFront has the three nodes in front be the targets. OVN takes half a second for a member on a busy machine.
func toFront(service *corev1.Service) { annotate(nodeSelector, front+"=true")(service) }

// inFront reports whether a server becomes a node in front.
func inFront(number int) bool { return number < 3 }

func keepLocal(service *corev1.Service) {
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func fromOneSource(service *corev1.Service) {
	service.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
}

func within(t *testing.T, network, address string) {
	t.Helper()
	if !netip.MustParsePrefix(network).Contains(netip.MustParseAddr(address)) {
		t.Errorf("the address %s is not in %s", address, network)
	}
}

// create makes a Service.
func (s *site) create(t *testing.T, name string, edits ...func(*corev1.Service)) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "first", Port: 80}}},
	}
	for _, edit := range edits {
		edit(service)
	}
	_, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), service, metav1.CreateOptions{})
	must.NoError(t, err)
}

// addressOf waits until a Service shows an address, and returns it.
func (s *site) addressOf(t *testing.T, name string) (address string) {
	t.Helper()
	until(t, fmt.Sprintf("Service %s/%s has an address", s.name, name), func(ctx context.Context) error {
		service, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		shown := addressesOf(service)
		if len(shown) != 1 {
			return fmt.Errorf("it shows %q: %s", shown, saysOf(service))
		}
		address = shown[0]
		return nil
	})
	return address
}

// saysOf returns the conditions of a Service.
func saysOf(service *corev1.Service) string {
	var text strings.Builder
	for _, condition := range service.Status.Conditions {
		fmt.Fprintf(&text, "%s %s %s: %s; ", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return text.String()
}

// balancerName is how upstream's manager and this one name the load balancer of a Service.
func (s *site) balancerName(service string) string {
	return model.Name(s.name, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: service})
}

// balancersOf returns the load balancers that octavia has for a Service.
func (s *site) balancersOf(ctx context.Context, service string) ([]loadbalancers.LoadBalancer, error) {
	client := s.project.environment.Clients().LoadBalancer
	pages, err := loadbalancers.List(client, loadbalancers.ListOpts{Name: s.balancerName(service)}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return loadbalancers.ExtractLoadBalancers(pages)
}

// awaitServed waits until a Service has an address, and one load balancer that is as it has to be: ACTIVE, of the right driver, and with all
// nodes and nothing else behind every port.
func (s *site) awaitServed(t *testing.T, name string) (found loadbalancers.LoadBalancer) {
	t.Helper()
	s.addressOf(t, name)
	until(t, fmt.Sprintf("the load balancer of %s/%s is complete", s.name, name), func(ctx context.Context) error {
		all, err := s.balancersOf(ctx, name)
		if err != nil {
			return err
		}
		if len(all) != 1 || all[0].ProvisioningStatus != "ACTIVE" || all[0].Provider != s.driver {
			return fmt.Errorf("octavia has %+v", all)
		}
		found = all[0]
		service, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return s.behind(ctx, found.ID, service)
	})
	return found
}

// behind returns an error unless all nodes that a Service wants, and no others, are behind each of its ports.
func (s *site) behind(ctx context.Context, balancer string, service *corev1.Service) error {
	all, err := s.poolsOf(ctx, balancer)
	if err != nil {
		return err
	}
	for _, port := range service.Spec.Ports {
		var want []string
		for _, number := range s.members {
			if service.Annotations[nodeSelector] != "" && !inFront(number) {
				continue
			}
			want = append(want, fmt.Sprintf("%s:%d", addressesIn(s.project.servers[number])[0], port.NodePort))
		}
		slices.Sort(want)
		if !slices.ContainsFunc(all, func(got []string) bool { return slices.Equal(got, want) }) {
			return fmt.Errorf("behind port %d should be %q; the pools are %q", port.Port, want, all)
		}
	}
	return nil
}

// poolsOf returns what is behind each pool of a load balancer, as sorted lists of address and port.
func (s *site) poolsOf(ctx context.Context, balancer string) (all [][]string, err error) {
	client := s.project.environment.Clients().LoadBalancer
	pages, err := pools.List(client, pools.ListOpts{LoadbalancerID: balancer}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	found, err := pools.ExtractPools(pages)
	for _, pool := range found {
		members, listErr := s.membersOf(ctx, pool.ID)
		if listErr != nil {
			return nil, listErr
		}
		var behind []string
		for _, member := range members {
			behind = append(behind, fmt.Sprintf("%s:%d", member.Address, member.ProtocolPort))
		}
		slices.Sort(behind)
		all = append(all, behind)
	}
	return all, err
}

func (s *site) membersOf(ctx context.Context, pool string) ([]pools.Member, error) {
	pages, err := pools.ListMembers(s.project.environment.Clients().LoadBalancer, pool, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return pools.ExtractMembers(pages)
}

func (s *site) listeners(t *testing.T, lb loadbalancers.LoadBalancer) []listeners.Listener {
	t.Helper()
	pages, err := listeners.List(s.project.environment.Clients().LoadBalancer, listeners.ListOpts{LoadbalancerID: lb.ID}).AllPages(t.Context())
	must.NoError(t, err)
	found, err := listeners.ExtractListeners(pages)
	must.NoError(t, err)
	return found
}

// asksHealthPort fails unless the members behind the Service "local" are probed at the port by which kube-proxy says whether it has pods.
func (s *site) asksHealthPort(t *testing.T, lb loadbalancers.LoadBalancer) {
	t.Helper()
	client := s.project.environment.Clients().LoadBalancer
	service, err := s.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "local", metav1.GetOptions{})
	must.NoError(t, err)
	members, err := s.membersOf(t.Context(), lb.Pools[0].ID)
	must.NoError(t, err)
	for _, member := range members {
		if member.MonitorPort != int(service.Spec.HealthCheckNodePort) {
			t.Errorf("member %s is probed at %d, want %d", member.Address, member.MonitorPort, service.Spec.HealthCheckNodePort)
		}
	}
	pool, err := pools.Get(t.Context(), client, lb.Pools[0].ID).Extract()
	must.NoError(t, err)
	monitor, err := monitors.Get(t.Context(), client, pool.MonitorID).Extract()
	if err != nil || monitor.Type != "HTTP" || monitor.URLPath != "/healthz" {
		t.Errorf("the monitor is %+v, want HTTP of /healthz: %v", monitor, err)
	}
}

// inOVN waits until OVN balances what comes to an address.
func (w *project) inOVN(t *testing.T, address string) {
	t.Helper()
	until(t, "OVN balances "+address, func(ctx context.Context) error {
		view, err := w.cloud.OVN(ctx, openstack.Northbound, "lb-list")
		if err == nil && !strings.Contains(view, address) {
			err = errors.New("it does not")
		}
		return err
	})
}
