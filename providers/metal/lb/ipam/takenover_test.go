package ipam

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// running is an Allocator that runs on an API server.
type running struct {
	*Allocator
	recorder *record.FakeRecorder
}

// runAllocator runs one with pools on nodes and Services until the test ends.
func runAllocator(t *testing.T, pools []config.Pool, nodes []*corev1.Node, services ...*corev1.Service) *running {
	t.Helper()
	client := fake.NewClientset()
	for _, node := range nodes {
		if err := client.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	for _, service := range services {
		if err := client.Tracker().Add(service.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	r := &running{recorder: record.NewFakeRecorder(100)}
	var err error
	r.Allocator, err = newLeading(pools, nil, Sources{
		Client: client, Services: factory.Core().V1().Services().Informer(), Nodes: factory.Core().V1().Nodes().Informer(), Recorder: r.recorder,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	return r
}

// ensure returns the addresses that a Service gets.
func (r *running) ensure(t *testing.T, service *corev1.Service) string {
	t.Helper()
	status, err := r.EnsureLoadBalancer(t.Context(), "cluster", service, nil)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(shownBy(&corev1.Service{Status: corev1.ServiceStatus{LoadBalancer: *status}}))
}

// The load balancer of k3s, servicelb, shows in a Service's status the addresses of all nodes: none is kept, be it in a pool or not.
func TestNodeAddressesOfAPredecessorAreGivenUp(t *testing.T) {
	nodes := []*corev1.Node{nodeAt("n1", "10.0.0.1"), nodeAt("n2", "10.0.0.2"), nodeAt("n3", "10.0.0.3")}
	for name, addresses := range map[string]string{"nodes in no pool": "10.0.0.200-10.0.0.250", "nodes in the pool": "10.0.0.1-10.0.0.250"} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer()
			shown := func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}, {IP: "10.0.0.3"}}
			}
			traefik, other := api.create("traefik", shown), api.create("other", shown, func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
			r := runAllocator(t, []config.Pool{{Name: "lan", Addresses: []string{addresses}}}, nodes, traefik, other)
			first, second := r.ensure(t, traefik), r.ensure(t, other)
			want := []string{"[10.0.0.200]", "[10.0.0.201]"}
			if name == "nodes in the pool" {
				want = []string{"[10.0.0.4]", "[10.0.0.5]"}
			}
			if got := []string{first, second}; !slices.Equal(got, want) {
				t.Errorf("the Services get %v, want %v", got, want)
			}
			var events []string
			for len(r.recorder.Events) > 0 {
				events = append(events, <-r.recorder.Events)
			}
			said := "Warning AddressOfNode The Service gives up 10.0.0.1, which is the address of node n1, and 2 more that nodes have"
			if !slices.Contains(events, said) {
				t.Errorf("events:\n%s", strings.Join(events, "\n"))
			}
		})
	}
}

// No Service gets an address of another Service's spec.externalIPs, but a Service that has such an address keeps it.
func TestExternalIPsAreTaken(t *testing.T) {
	api := newAPIServer()
	external := func(addresses ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.ExternalIPs = addresses }
	}
	had := api.create("had", func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
	})
	manual := api.create("manual", external("192.0.2.0", "no address", "192.0.2.2", "2001:db8::1"), func(s *corev1.Service) {
		s.Spec.Type, s.Annotations[AnnotationSharing] = corev1.ServiceTypeClusterIP, "key"
	})
	free, asks, shares := api.create("free"), api.create("asks", annotate(AnnotationAddresses, "192.0.2.0")), api.create("shares", annotate(AnnotationSharing, "key"))
	own := api.create("own", external("192.0.2.5"), annotate(AnnotationAddresses, "192.0.2.5"))
	r := runAllocator(t, []config.Pool{{Name: "p", Addresses: []string{"192.0.2.0/29"}}}, nil, had, manual, free, asks, shares, own)
	for _, test := range []struct {
		service *corev1.Service
		want    string
	}{
		{free, "[192.0.2.1]"}, {had, "[192.0.2.2]"}, {shares, "[192.0.2.3]"}, {own, "[192.0.2.5]"},
		{asks, "Conflict: 192.0.2.0 is held by the Service default/manual: it does not share"},
	} {
		if got := r.ensure(t, test.service); got != test.want {
			t.Errorf("%s gets %s, want %s", test.service.Name, got, test.want)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if outside := r.allocations.state.Outside(); outside != 0 {
		t.Errorf("%d addresses outside of pools", outside)
	}
}

// The author of a Service keeps no address from others that no Service of its namespace could have.
func TestExternalIPsOfPoolsForOthers(t *testing.T) {
	api := newAPIServer()
	in := func(namespace, pool string) *corev1.Service {
		return api.create(namespace+"-"+pool, annotate(AnnotationPool, pool), func(s *corev1.Service) { s.Namespace = namespace })
	}
	greedy := api.create("greedy", func(s *corev1.Service) {
		s.Namespace, s.Spec.ExternalIPs = "tenant", []string{"192.0.2.0", "192.0.2.8", "192.0.2.16"}
	})
	inAny, inOurs, inTheirs := in("ops", "any"), in("ops", "ours"), in("ops", "theirs")
	r := runAllocator(t, []config.Pool{
		{Name: "any", Addresses: []string{"192.0.2.0/29"}}, {Name: "ours", Addresses: []string{"192.0.2.8/29"}, Namespaces: []string{"ops"}},
		{Name: "theirs", Addresses: []string{"192.0.2.16/29"}, Namespaces: []string{"ops", "tenant"}},
	}, nil, greedy, inAny, inOurs, inTheirs)
	for service, want := range map[*corev1.Service]string{inAny: "[192.0.2.1]", inOurs: "[192.0.2.8]", inTheirs: "[192.0.2.17]"} {
		if got := r.ensure(t, service); got != want {
			t.Errorf("%s gets %s, want %s", service.Name, got, want)
		}
	}
}

// The author of a Service lists the whole pool in spec.externalIPs.
func TestExternalIPsAreBounded(t *testing.T) {
	api := newAPIServer()
	greedy := api.create("greedy", func(s *corev1.Service) {
		for i := range 256 {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, fmt.Sprintf("192.0.2.%d", i))
		}
	})
	if held := holderOf(greedy).External; len(held) != maxReserved {
		t.Errorf("it keeps %d addresses from others", len(held))
	}
}
