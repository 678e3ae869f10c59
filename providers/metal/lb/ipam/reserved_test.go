package ipam

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// nodeAt is a node with an address.
func nodeAt(name, address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

// A kubelet writes all addresses of a pool into the status of its own Node.
func TestANodeReservesFewAddresses(t *testing.T) {
	honest, greedy := nodeAt("honest", "192.0.2.200"), nodeAt("a-greedy", "192.0.2.0")
	honest.CreationTimestamp, greedy.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	greedy.Status.Addresses = nil
	for i := range 256 {
		greedy.Status.Addresses = append(greedy.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i)})
	}
	pool := netip.MustParsePrefix("192.0.2.0/24")
	of := map[string]int{}
	for _, node := range reservations([]*corev1.Node{greedy, honest}, pool.Contains) {
		of[node.Name]++
	}
	if of["a-greedy"] != maxReserved || of["honest"] != 1 {
		t.Errorf("reserved: %v", of)
	}
}

// A pool that holds the addresses of nodes which stand in no inventory: no Service gets one, from the first on, and an event on the
// node and a metric say so. A node that joins later is regarded too.
func TestNodesKeepTheirAddresses(t *testing.T) {
	api := newAPIServer()
	services := []*corev1.Service{api.create("a"), api.create("b"), api.create("c")}
	client := fake.NewClientset(nodeAt("n0", "192.0.2.0"))
	factory := informers.NewSharedInformerFactory(client, 0)
	recorder, registry := record.NewFakeRecorder(100), prometheus.NewRegistry()
	a, err := newLeading([]config.Pool{{Name: "p", Addresses: []string{"192.0.2.0/30"}}}, registry, Sources{
		Client: client, Services: factory.Core().V1().Services().Informer(), Nodes: factory.Core().V1().Nodes().Informer(), Recorder: recorder,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	factory.StartWithContext(ctx)
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	}()
	ensure := func(service *corev1.Service) string {
		t.Helper()
		status, err := a.EnsureLoadBalancer(ctx, "cluster", service, nil)
		if err != nil {
			return err.Error()
		}
		return status.Ingress[0].IP
	}
	event := func(want string) {
		t.Helper()
		poll.Until(t, "an event "+want, func(context.Context) error {
			select {
			case event := <-recorder.Events:
				return poll.Holds(strings.HasPrefix(event, want))
			default:
				return poll.Holds(false)
			}
		})
	}
	if got := ensure(services[0]); got != "192.0.2.1" {
		t.Errorf("the first Service got %s", got)
	}
	event("Warning NodeAddressInPool Pool p has 192.0.2.0, an address of this node")
	if _, err := client.CoreV1().Nodes().Create(ctx, nodeAt("n2", "192.0.2.2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	event("Warning NodeAddressInPool Pool p has 192.0.2.2")
	if got := ensure(services[1]); got != "192.0.2.3" {
		t.Errorf("the second Service got %s", got)
	}
	if got := ensure(services[2]); !strings.Contains(got, "Exhausted") {
		t.Errorf("the third Service got %s", got)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP mooring_metal_pool_addresses_of_nodes Addresses of nodes that are in a pool. No Service gets one, and the pool should not have it.
# TYPE mooring_metal_pool_addresses_of_nodes gauge
mooring_metal_pool_addresses_of_nodes 2
`), "mooring_metal_pool_addresses_of_nodes"); err != nil {
		t.Error(err)
	}
}

// A node takes the address that a Service has: the Service is ensured again at once, once, and gets another one.
func TestServiceLeavesAnAddressThatANodeTakes(t *testing.T) {
	api := newAPIServer()
	service := api.create("a")
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	a, err := newLeading([]config.Pool{{Name: "p", Addresses: []string{"192.0.2.0/30"}}}, nil, Sources{
		Client: client, Services: factory.Core().V1().Services().Informer(), Nodes: factory.Core().V1().Nodes().Informer(), Recorder: record.NewFakeRecorder(100),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	retried := make(chan types.NamespacedName, 10)
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	running.Go(func() { a.RetryLoadBalancers(ctx, func(key types.NamespacedName) { retried <- key }) })
	factory.StartWithContext(ctx)
	defer func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}()
	ensure := func() string {
		t.Helper()
		status, err := a.EnsureLoadBalancer(ctx, "cluster", service, nil)
		if err != nil {
			t.Fatal(err)
		}
		return status.Ingress[0].IP
	}
	if got := ensure(); got != "192.0.2.0" {
		t.Fatalf("the Service got %s", got)
	}
	for _, name := range []string{"n1", "n2"} { // the second change is none for the Service
		if _, err := client.CoreV1().Nodes().Create(ctx, nodeAt(name, "192.0.2.0"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if name == "n1" {
			select {
			case key := <-retried:
				if key.Name != "a" {
					t.Errorf("%s is ensured again", key)
				}
			case <-time.After(poll.Deadline):
				t.Fatal("the Service is not ensured again")
			}
		}
	}
	if got := ensure(); got != "192.0.2.1" {
		t.Errorf("ensured again, the Service has %s", got)
	}
	if len(retried) > 0 {
		t.Errorf("the Service is ensured again %d times more", len(retried))
	}
}
