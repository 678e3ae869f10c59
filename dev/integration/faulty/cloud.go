// Package faulty is a cloud in memory with a provider that misbehaves on command, one operation and one object at a time: it
// panics, hangs, is slow, fails, refuses for its quota or gives wrong answers. Everything else works at once.
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

	"github.com/mooring-ccm/mooring/provider"
)

// Cloud is the cloud, and its provider. Its methods may be called from several goroutines.
type Cloud struct {
	name     string
	scheme   string // of its provider IDs with what parts it from the rest, empty if they have none
	declares provider.Capabilities
	built    chan struct{}
	released chan struct{}
	release  func() // once

	mu        sync.Mutex
	faults    map[subject]Fault
	calls     []*Call
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
}

// New returns an empty cloud whose provider is registered under its name, which is also the scheme of its provider IDs. A name
// can be registered once in a process.
func New(name string, o Options) *Cloud {
	c := &Cloud{
		name: name, scheme: name + "://", built: make(chan struct{}, 1), released: make(chan struct{}), changed: make(chan struct{}), addresses: netip.MustParseAddr("198.18.0.0"),
		faults: map[subject]Fault{}, instances: map[string]provider.Instance{}, made: map[string]int{}, balancers: map[string]*loadBalancer{},
		routes: map[string]*cloudprovider.Route{},
	}
	if o.BareIDs {
		c.scheme = ""
	}
	c.release = sync.OnceFunc(func() { close(c.released) })
	c.declares = provider.Capabilities{ProviderIDSchemes: o.Schemes, LoadBalancerWrites: o.LoadBalancerWrites}
	if o.Lists {
		c.declares.ListInstances = c.listInstances
	}
	if o.Watches {
		c.declares.WatchInstances = c.watchInstances
	}
	cloudprovider.RegisterCloudProvider(name, func(io.Reader) (cloudprovider.Interface, error) {
		c.built <- struct{}{}
		return c, nil
	})
	return c
}

// Built has a value for each manager that has built the provider, and that nobody has received yet. By then the manager has read its
// flags.
func (c *Cloud) Built() <-chan struct{} { return c.built }

// AddInstance makes an instance for a node. One that takes the place of another has a provider ID of its own.
func (c *Cloud) AddInstance(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[node]++
	instance := provider.Instance{NodeName: nodeName(node), State: provider.InstanceRunning}
	instance.InstanceMetadata = cloudprovider.InstanceMetadata{
		ProviderID: c.providerID(node, c.made[node]), InstanceType: "small", Zone: "zone-1", Region: "region-1",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.newAddress()}, {Type: corev1.NodeHostName, Address: node}},
	}
	c.instances[node] = instance
	c.send(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// RemoveInstance deletes the instance of a node.
func (c *Cloud) RemoveInstance(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(provider.InstanceEvent{Kind: provider.InstanceDeleted, Instance: c.instances[node]})
	delete(c.instances, node)
}

// LoseInstance deletes the instance of a node, and no watch reports it.
func (c *Cloud) LoseInstance(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.instances, node)
}

// MoveInstance gives the instance of a node another address.
func (c *Cloud) MoveInstance(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instance := c.instances[node]
	instance.NodeAddresses = slices.Clone(instance.NodeAddresses)
	instance.NodeAddresses[0].Address = c.newAddress()
	c.instances[node] = instance
	c.send(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// LoseLoadBalancer deletes the load balancer of a Service, as somebody does who should not.
func (c *Cloud) LoseLoadBalancer(service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.balancers, service)
}

// LoseRoute deletes the routes to a node, as somebody does who should not.
func (c *Cloud) LoseRoute(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.routes, func(_ string, route *cloudprovider.Route) bool { return route.TargetNode == nodeName(node) })
}

// StopInstance shuts the instance of a node down.
func (c *Cloud) StopInstance(node string) { c.set(node, provider.InstanceStopped) }

// StartInstance starts it again. A watch reports it in any case.
func (c *Cloud) StartInstance(node string) { c.set(node, provider.InstanceRunning) }

func (c *Cloud) set(node string, state provider.InstanceState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instance := c.instances[node]
	instance.State = state
	c.instances[node] = instance
	c.send(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// ProviderID returns the provider ID of a node's instance, or empty if there is no instance.
func (c *Cloud) ProviderID(node string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[node].ProviderID
}

// Address returns the address of a node's instance, which it must have.
func (c *Cloud) Address(node string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[node].NodeAddresses[0].Address
}

// Targets returns the nodes that the load balancer of a Service has as targets, sorted.
func (c *Cloud) Targets(service string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if balancer := c.balancers[service]; balancer != nil {
		return slices.Clone(balancer.targets)
	}
	return nil
}

// RoutedNodes returns the nodes that are targets of routes, sorted.
func (c *Cloud) RoutedNodes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := map[string]bool{}
	for _, route := range c.routes {
		nodes[string(route.TargetNode)] = true
	}
	return slices.Sorted(maps.Keys(nodes))
}

// providerID returns the provider ID of the first, second or later instance of a node.
func (c *Cloud) providerID(node string, instance int) string {
	if instance == 1 {
		return c.scheme + node
	}
	return fmt.Sprintf("%s%s.%d", c.scheme, node, instance)
}

// newAddress returns an address that nothing has. The lock is held.
func (c *Cloud) newAddress() string {
	c.addresses = c.addresses.Next()
	return c.addresses.String()
}

// send adds to what watches say. The lock is held.
func (c *Cloud) send(event provider.InstanceEvent) {
	c.events = append(c.events, event)
	close(c.changed)
	c.changed = make(chan struct{})
}
