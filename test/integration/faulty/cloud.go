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
	declares provider.Capabilities
	built    chan struct{}
	build    func() // once
	released chan struct{}
	release  func() // once

	mu        sync.Mutex
	faults    map[subject]Fault
	calls     []*Call
	instances map[string]provider.Instance // by node
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
}

// New returns an empty cloud whose provider is registered under its name, which is also the scheme of its provider IDs. A name
// can be registered once in a process.
func New(name string, o Options) *Cloud {
	c := &Cloud{
		name: name, built: make(chan struct{}), released: make(chan struct{}), changed: make(chan struct{}), addresses: netip.MustParseAddr("198.18.0.0"),
		faults: map[subject]Fault{}, instances: map[string]provider.Instance{}, balancers: map[string]*loadBalancer{},
		routes: map[string]*cloudprovider.Route{},
	}
	c.build = sync.OnceFunc(func() { close(c.built) })
	c.release = sync.OnceFunc(func() { close(c.released) })
	c.declares = provider.Capabilities{ProviderIDSchemes: o.Schemes, LoadBalancerWrites: o.LoadBalancerWrites}
	if o.Lists {
		c.declares.ListInstances = c.listInstances
	}
	if o.Watches {
		c.declares.WatchInstances = c.watchInstances
	}
	cloudprovider.RegisterCloudProvider(name, func(io.Reader) (cloudprovider.Interface, error) {
		c.build()
		return c, nil
	})
	return c
}

// Built is closed once a manager has built the provider. By then it has read its flags.
func (c *Cloud) Built() <-chan struct{} { return c.built }

// AddInstance makes an instance for a node.
func (c *Cloud) AddInstance(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	instance := provider.Instance{NodeName: nodeName(node), State: provider.InstanceRunning}
	instance.InstanceMetadata = cloudprovider.InstanceMetadata{
		ProviderID: c.providerID(node), InstanceType: "small", Zone: "zone-1", Region: "region-1",
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.newAddress()}, {Type: corev1.NodeHostName, Address: node}},
	}
	c.instances[node] = instance
	c.tell(provider.InstanceEvent{Kind: provider.InstanceSet, Instance: instance})
}

// RemoveInstance deletes the instance of a node.
func (c *Cloud) RemoveInstance(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell(provider.InstanceEvent{Kind: provider.InstanceDeleted, Instance: c.instances[node]})
	delete(c.instances, node)
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

func (c *Cloud) providerID(node string) string { return fmt.Sprintf("%s://%s", c.name, node) }

// newAddress returns an address that nothing has. The lock is held.
func (c *Cloud) newAddress() string {
	c.addresses = c.addresses.Next()
	return c.addresses.String()
}

// tell adds to what watches say. The lock is held.
func (c *Cloud) tell(event provider.InstanceEvent) {
	c.events = append(c.events, event)
	close(c.changed)
	c.changed = make(chan struct{})
}
