// Package faulty is a cloud in memory with a provider that misbehaves on command, one operation and one object at a time, as package
// pluginfault has it. Everything else works at once.
package faulty

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/provider"
)

// Cloud is the cloud, and its provider with the faults that it has. Its methods may be called from several goroutines.
type Cloud struct {
	*pluginfault.Plugin
	*pluginfault.Injector
	built chan struct{}
	*memory
	awaitRoutes func()
}

// memory is what the cloud holds.
type memory struct {
	name   string
	scheme string // of its provider IDs with what parts it from the rest, empty if they have none

	mu        sync.Mutex
	instances map[string]provider.Instance // by node
	made      map[string]int               // how many instances there have been, by node
	events    []provider.InstanceEvent
	changed   chan struct{}            // closed and replaced with each event
	balancers map[string]*loadBalancer // by Service
	routes    map[string]*cloudprovider.Route
	addresses netip.Addr // the last one that was given away
}

// loadBalancer is what the cloud has of a Service.
type loadBalancer struct {
	address string
	targets []string // names of nodes, sorted
}

// Options are what the provider declares.
type Options struct {
	// Schemes and LoadBalancerWrites are as in provider.Capabilities. Without schemes the manager asks for nodes of other clouds.
	Schemes            []string
	LoadBalancerWrites int
	// Lists and Watches say that it has ListInstances and WatchInstances.
	Lists, Watches bool
	// BareIDs makes provider IDs without a scheme, as the providers of Alibaba Cloud and Oracle do.
	BareIDs bool
	// AwaitRoutes is called before it says that it has routes. Nil: it says so at once.
	AwaitRoutes func()
}

// New returns an empty cloud whose provider is registered under its name, which is also the scheme of its provider IDs. A name
// can be registered once in a process.
func New(name string, o Options) *Cloud {
	m := &memory{
		name: name, scheme: name + "://", changed: make(chan struct{}), addresses: netip.MustParseAddr("198.18.0.0"),
		instances: map[string]provider.Instance{}, made: map[string]int{}, balancers: map[string]*loadBalancer{},
		routes: map[string]*cloudprovider.Route{},
	}
	if o.BareIDs {
		m.scheme = ""
	}
	works := plugin{memory: m, declares: provider.Capabilities{ProviderIDSchemes: o.Schemes, LoadBalancerWrites: o.LoadBalancerWrites}}
	if o.Lists {
		works.declares.ListInstances = m.listInstances
	}
	if o.Watches {
		works.declares.WatchInstances = m.watchInstances
	}
	faults := pluginfault.NewInjector()
	c := &Cloud{Plugin: pluginfault.Wrap(works, faults), Injector: faults, built: make(chan struct{}, 1), memory: m, awaitRoutes: o.AwaitRoutes}
	cloudprovider.RegisterCloudProvider(name, func(io.Reader) (cloudprovider.Interface, error) {
		c.built <- struct{}{}
		return c, nil
	})
	return c
}

// Routes is part of cloudprovider.Interface.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) {
	if c.awaitRoutes != nil {
		c.awaitRoutes()
	}
	return c.Plugin.Routes()
}

// Built has a value for each manager that has built the provider, until a test receives it. By then the manager has read its flags.
func (c *Cloud) Built() <-chan struct{} { return c.built }

// AddInstance makes an instance for a node. One that takes the place of another has a provider ID of its own.
func (m *memory) AddInstance(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[node]++
	instance := provider.Instance{NodeName: nodeName(node), State: provider.InstanceRunning}
	instance.InstanceMetadata = cloudprovider.InstanceMetadata{
		ProviderID: m.providerID(node, m.made[node]), InstanceType: "small", Zone: "zone-1", Region: "region-1",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.newAddress()}, {Type: corev1.NodeHostName, Address: node}},
	}
	m.instances[node] = instance
	m.send(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// RemoveInstance deletes the instance of a node.
func (m *memory) RemoveInstance(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(provider.InstanceEvent{Kind: provider.InstanceDeleted, Instance: m.instances[node]})
	delete(m.instances, node)
}

// LoseInstance deletes the instance of a node, and no watch reports it.
func (m *memory) LoseInstance(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.instances, node)
}

// MoveInstance gives the instance of a node another address.
func (m *memory) MoveInstance(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	instance := m.instances[node]
	instance.NodeAddresses = slices.Clone(instance.NodeAddresses)
	instance.NodeAddresses[0].Address = m.newAddress()
	m.instances[node] = instance
	m.send(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// LoseLoadBalancer deletes the load balancer of a Service behind the manager's back.
func (m *memory) LoseLoadBalancer(service string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.balancers, service)
}

// LoseRoute deletes the routes to a node behind the manager's back.
func (m *memory) LoseRoute(node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.routes, func(_ string, route *cloudprovider.Route) bool { return route.TargetNode == nodeName(node) })
}

// StopInstance shuts the instance of a node down.
func (m *memory) StopInstance(node string) { m.set(node, provider.InstanceStopped) }

// StartInstance starts it again. A watch reports it in any case.
func (m *memory) StartInstance(node string) { m.set(node, provider.InstanceRunning) }

func (m *memory) set(node string, state provider.InstanceState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	instance := m.instances[node]
	instance.State = state
	m.instances[node] = instance
	m.send(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// ProviderID returns the provider ID of a node's instance, or empty if there is no instance.
func (m *memory) ProviderID(node string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[node].ProviderID
}

// Address returns the address of a node's instance, which it must have.
func (m *memory) Address(node string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[node].NodeAddresses[0].Address
}

// Targets returns the nodes that the load balancer of a Service has as targets, sorted.
func (m *memory) Targets(service string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if balancer := m.balancers[service]; balancer != nil {
		return slices.Clone(balancer.targets)
	}
	return nil
}

// RoutedNodes returns the nodes that are targets of routes, sorted.
func (m *memory) RoutedNodes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes := map[string]bool{}
	for _, route := range m.routes {
		nodes[string(route.TargetNode)] = true
	}
	return slices.Sorted(maps.Keys(nodes))
}

// providerID returns the provider ID of the first, second or later instance of a node.
func (m *memory) providerID(node string, instance int) string {
	if instance == 1 {
		return m.scheme + node
	}
	return fmt.Sprintf("%s%s.%d", m.scheme, node, instance)
}

// newAddress returns an address that nothing has. The lock is held.
func (m *memory) newAddress() string {
	m.addresses = m.addresses.Next()
	return m.addresses.String()
}

// send adds to what watches say. The lock is held.
func (m *memory) send(event provider.InstanceEvent) {
	m.events = append(m.events, event)
	close(m.changed)
	m.changed = make(chan struct{})
}
