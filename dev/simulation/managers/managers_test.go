package managers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/simulation/managers"
)

func TestMain(m *testing.M) {
	managers.Prepare(logr.Discard())
	m.Run()
}

const nodes = 10

// cloud is a cloud with an instance for each node. Its provider declares nothing.
type cloud struct {
	cloudprovider.Interface

	mu        sync.Mutex
	balancers map[string]int // how often each was made
	panics    int            // how many of the next calls panic
}

func (c *cloud) ProviderName() string                                              { return "memory" }
func (c *cloud) HasClusterID() bool                                                { return true }
func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return balancer{c}, true }
func (c *cloud) InstanceExists(context.Context, *corev1.Node) (bool, error)        { return true, nil }
func (c *cloud) InstanceShutdown(context.Context, *corev1.Node) (bool, error)      { return false, nil }

func (c *cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.panics > 0 {
		c.panics--
		panic("a mistake of the plugin")
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: "memory://" + node.Name, InstanceType: "small", Zone: "a", Region: "b",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
	}, nil
}

type balancer struct{ *cloud }

func (b balancer) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return service.Name
}

func (b balancer) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return status(), b.balancers[service.Name] > 0, nil
}

func (b balancer) EnsureLoadBalancer(_ context.Context, _ string, service *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.balancers[service.Name]++
	return status(), nil
}

func (b balancer) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return nil
}

func (b balancer) EnsureLoadBalancerDeleted(context.Context, string, *corev1.Service) error {
	return nil
}

func status() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}}
}

// populate has a kubelet register nodes and a user make a Service.
func populate(t *testing.T, server *apiServer) {
	t.Helper()
	for i := range nodes {
		server.put("nodes", asJSON(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), CreationTimestamp: metav1.Now()},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{
				{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}))
	}
	server.put("services", asJSON(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.Now()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	}))
}

func asJSON(t *testing.T, typed any) object {
	t.Helper()
	into := object{}
	must.NoError(t, json.Unmarshal(must.Value(json.Marshal(typed))(t), &into))
	return into
}

// expectSettled fails the test unless all nodes are initialized and the Service has its load balancer.
func expectSettled(t *testing.T, server *apiServer) {
	t.Helper()
	for i := range nodes {
		node, name := &corev1.Node{}, fmt.Sprintf("node-%d", i)
		if server.get(t, "nodes", "/"+name, node); node.Spec.ProviderID != "memory://"+name || len(node.Spec.Taints) > 0 {
			t.Errorf("%s has provider ID %q and taints %v", name, node.Spec.ProviderID, node.Spec.Taints)
		}
	}
	service := &corev1.Service{}
	if server.get(t, "services", "default/web", service); len(service.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("the Service has status %+v", service.Status)
	}
}

// each runs a test in a bubble of its own for each manager, twice: what one bubble leaves behind meets the next one.
func each(t *testing.T, test func(*testing.T, *managers.Manager)) {
	for _, manager := range []*managers.Manager{managers.Reference, managers.Mooring} {
		for _, name := range []string{manager.Name, manager.Name + " once more"} {
			t.Run(name, func(t *testing.T) {
				began := time.Now()
				synctest.Test(t, func(t *testing.T) { test(t, manager) })
				t.Logf("took %s", time.Since(began))
			})
		}
	}
}

func TestStart(t *testing.T) {
	each(t, func(t *testing.T, manager *managers.Manager) {
		server, plugin := newAPIServer(), &cloud{balancers: map[string]int{}}
		populate(t, server)
		process := must.Value(managers.Start(t.Context(), manager, managers.Settings{
			Transport: server, Plugin: func(*managers.Incarnation) cloudprovider.Interface { return plugin },
		}))(t)
		defer process.Release()
		time.Sleep(10 * time.Minute)
		if err := process.Err(); err != nil {
			t.Errorf("ended: %v", err)
		}
		expectSettled(t, server)
		if made := plugin.balancers["web"]; made != 1 {
			t.Errorf("the load balancer was made %d times", made)
		}
	})
}
