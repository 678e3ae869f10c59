package service

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/dev/scenariotest"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/provider"
)

// cluster stands in for the API server and its cache where a test needs virtual time, which no process outside has. What the
// real one does is tested in dev/integration/service.
type cluster struct {
	client.Client // nil: a call that is not expected here ends the test

	mu       sync.Mutex
	version  int
	services map[types.NamespacedName]*corev1.Service
	nodes    map[string]*corev1.Node
	patches  int
	// nodeLists is how often all nodes were listed.
	nodeLists int
	// patchTakes is how long a patch takes.
	patchTakes time.Duration
	// refusal is the error of patches that would make of a Service one that refused names; nil: none is refused.
	refusal error
	refused func(*corev1.Service) bool
}

// refuse has patches fail from now on that would make of a Service one that which names.
func (c *cluster) refuse(err error, which func(*corev1.Service) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal, c.refused = err, which
}

func newCluster() *cluster {
	return &cluster{services: map[types.NamespacedName]*corev1.Service{}, nodes: map[string]*corev1.Node{}}
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	service, found := c.services[key]
	if !found {
		return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
	}
	service.DeepCopyInto(object.(*corev1.Service))
	return nil
}

func (c *cluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch list := list.(type) {
	case *corev1.NodeList:
		c.nodeLists++
		for _, node := range c.nodes {
			list.Items = append(list.Items, *node.DeepCopy())
		}
	case *corev1.ServiceList:
		for _, service := range c.services {
			list.Items = append(list.Items, *service.DeepCopy())
		}
	}
	return nil
}

func (c *cluster) Status() client.SubResourceWriter { return statusWriter{cluster: c} }

type statusWriter struct {
	client.SubResourceWriter
	cluster *cluster
}

func (w statusWriter) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	c := w.cluster
	c.mu.Lock()
	takes := c.patchTakes
	c.mu.Unlock()
	time.Sleep(takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	current, found := c.services[key]
	if !found {
		return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
	}
	updated, err := scenariotest.Patched(current, object, patch)
	if err != nil {
		return err
	}
	if updated.UID != current.UID {
		return apierrors.NewConflict(corev1.Resource("services"), key.Name, errors.New("another UID"))
	}
	if c.refusal != nil && c.refused(updated) {
		return c.refusal
	}
	c.patches++
	c.version++
	updated.ResourceVersion = strconv.Itoa(c.version)
	c.services[key] = updated
	if updated.DeletionTimestamp != nil && len(updated.Finalizers) == 0 {
		delete(c.services, key)
	}
	updated.DeepCopyInto(object.(*corev1.Service))
	return nil
}

// put stores a Service.
func (c *cluster) put(service *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	service.ResourceVersion = strconv.Itoa(c.version)
	c.services[keyOf(service)] = service
}

// memoryCloud is a plugin whose cloud is a map. Its calls take time and fail as chance has it.
type memoryCloud struct {
	cloudprovider.Interface

	mu       sync.Mutex
	balancer map[types.UID]map[string]string
	calls    map[string]int
	list     func(context.Context, string) ([]provider.LoadBalancer, error)
	// labels is provider.Capabilities.SelectsByLabels.
	labels func() bool
	// byDifference says that its targets can be changed by a difference.
	byDifference bool
	// urgency is how urgent the last Ensure was to the queue of the client.
	urgency admission.Priority
	// chance returns how long a call takes and its error; nil: no time and none. An errLost takes effect all the same.
	chance func(operation string) (time.Duration, error)
}

// errLost says that the answer to a call was lost.
var errLost = errors.New("the answer was lost")

// Capabilities offers a list if there is one, and changes of targets if it shall.
func (m *memoryCloud) Capabilities() provider.Capabilities {
	capabilities := provider.Capabilities{ListLoadBalancers: m.list, SelectsByLabels: m.labels}
	if m.byDifference {
		capabilities.ChangeTargets = m.changeTargets
	}
	return capabilities
}

// setChance has calls go as chance says from now on.
func (m *memoryCloud) setChance(chance func(operation string) (time.Duration, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chance = chance
}

func (m *memoryCloud) changeTargets(_ context.Context, _ string, service *corev1.Service, add, remove []*corev1.Node) error {
	return m.change("change", func() error {
		has, exists := m.balancer[service.UID]
		if !exists {
			return errors.New("there is no such load balancer")
		}
		has = maps.Clone(has)
		for _, node := range remove {
			delete(has, node.Name)
		}
		maps.Copy(has, targetsOf(add).members)
		m.balancer[service.UID] = has
		return nil
	})
}

func (m *memoryCloud) InstancesV2() (cloudprovider.InstancesV2, bool)   { return nil, false }
func (m *memoryCloud) Instances() (cloudprovider.Instances, bool)       { return nil, false }
func (m *memoryCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return m, true }
func (m *memoryCloud) ProviderName() string                             { return "sim" }

func (m *memoryCloud) call(operation string) error {
	m.mu.Lock()
	m.calls[operation]++
	chance := m.chance
	m.mu.Unlock()
	if chance == nil {
		return nil
	}
	took, err := chance(operation)
	time.Sleep(took)
	return err
}

// change makes a call that changes something.
func (m *memoryCloud) change(operation string, effect func() error) error {
	err := m.call(operation)
	if err != nil && !errors.Is(err, errLost) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if failed := effect(); failed != nil {
		return failed
	}
	return err
}

func (m *memoryCloud) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (m *memoryCloud) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if err := m.call("get"); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, exists := m.balancer[service.UID]
	return memoryStatus(), exists, nil
}

func memoryStatus() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}
}

func (m *memoryCloud) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	err := m.change("ensure", func() error {
		m.balancer[service.UID], m.urgency = targetsOf(nodes).members, admission.PriorityOf(ctx)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return memoryStatus(), nil
}

func (m *memoryCloud) UpdateLoadBalancer(_ context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	return m.change("update", func() error {
		if _, exists := m.balancer[service.UID]; !exists {
			return errors.New("there is no such load balancer")
		}
		m.balancer[service.UID] = targetsOf(nodes).members
		return nil
	})
}

func (m *memoryCloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *corev1.Service) error {
	return m.change("delete", func() error {
		delete(m.balancer, service.UID)
		return nil
	})
}

// count returns how often an operation was called.
func (m *memoryCloud) count(operation string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[operation]
}

// has reports whether a node is a target of a load balancer.
func (m *memoryCloud) has(service types.UID, node string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.balancer[service][node]
	return found
}
