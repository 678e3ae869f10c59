package metal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce"
	"github.com/mooring-ccm/mooring/providers/metal/lb/bgp"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam"
	"github.com/mooring-ccm/mooring/providers/metal/lb/layer2"
	"github.com/mooring-ccm/mooring/providers/metal/lb/metallb"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodegroup"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// ProviderName is the name of the provider, for --cloud-provider.
const ProviderName = "metal"

// callsInFlight is how many calls the provider answers at the same time. Its answers come from memory, and what asks BMCs bounds itself.
const callsInFlight = 80

func init() {
	cloudprovider.RegisterCloudProvider(ProviderName, func(from io.Reader) (cloudprovider.Interface, error) {
		if from == nil {
			return nil, errors.New("the provider metal needs --cloud-config: a file of kind " + config.CloudConfigKind)
		}
		source, err := config.Open(from)
		if err != nil {
			return nil, err
		}
		return New(source)
	})
}

// Cloud is the provider.
type Cloud struct {
	source *config.Source
	// resources are MetalLB's, which the config is made of; nil where it is a file or an object.
	resources *metallb.Source
	// began is the config that the process began with: it says which parts there are.
	began     *config.CloudConfig
	poller    *power.Poller
	instances *Instances
	groups    *nodegroup.Controller
	allocator *ipam.Allocator

	// registry has the metrics of what begins before or after the manager takes metrics.
	registry *prometheus.Registry

	// led is closed when this replica leads for the first time.
	led     chan struct{}
	leading sync.Once
	// leadership is canceled when this replica leads no more. It is set before led is closed.
	leadership context.Context

	mu sync.Mutex
	// client has the rights of the manager; nil before the manager has given it.
	client kubernetes.Interface
	// parts are what runs on every replica; nil before it does.
	parts *parts
}

// parts are what runs on every replica. Speaker and responder do nothing while the config has no section for them.
type parts struct {
	announcer *announce.Announcer
	speaker   *bgp.Speaker
	responder *layer2.Responder
}

var (
	_ cloudprovider.Interface = &Cloud{}
	_ provider.Capable        = &Cloud{}
)

// New returns the provider for a config. Nothing runs yet.
func New(source *config.Source) (*Cloud, error) {
	current := source.Current()
	registry := prometheus.NewRegistry()
	allocator, err := ipam.New(current.Pools, registry)
	if err != nil {
		return nil, err
	}
	poller := power.NewPoller(power.Options{Registerer: registry})
	instances := NewInstances(source, poller)
	groups, err := newNodeGroups(source, poller, instances, registry)
	if err != nil {
		return nil, err
	}
	instances.sleeps, instances.goesToSleep = groups.Sleeps, groups.GoesToSleep
	return &Cloud{
		source: source, began: current, poller: poller, instances: instances, groups: groups, allocator: allocator, registry: registry,
		led: make(chan struct{}),
	}, nil
}

// NewFromMetalLB returns the provider for a config that is made of MetalLB's resources. It waits for them.
func NewFromMetalLB(ctx context.Context, options metallb.Options) (*Cloud, error) {
	resources, err := metallb.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	source, err := config.Open(resources)
	if err != nil {
		return nil, err
	}
	c, err := New(source)
	if err != nil {
		return nil, err
	}
	c.resources = resources
	if err := c.registry.Register(resources); err != nil {
		return nil, fmt.Errorf("registering the metrics of MetalLB's resources: %w", err)
	}
	return c, nil
}

// ProviderName returns ProviderName.
func (c *Cloud) ProviderName() string { return ProviderName }

// HasClusterID returns true: nothing here is shared with another cluster by accident. Two clusters that announce the same
// addresses have pools that overlap, which no ID would show.
func (c *Cloud) HasClusterID() bool { return true }

// Instances returns nothing: InstancesV2 has taken its place.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones returns nothing: InstancesV2 has taken its place.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters returns nothing.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// InstancesV2 returns the machines, if there is an inventory.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return c.instances, c.began.Inventory.Enabled()
}

// LoadBalancer returns what assigns addresses, if there are pools.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.allocator, len(c.began.Pools) > 0
}

// Routes returns what is announced of pods' addresses, if there is BGP.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) {
	return &routes{c}, c.announcesPods()
}

func (c *Cloud) announcesPods() bool {
	return c.began.BGP != nil && c.began.Announcement.WithDefaults().PodRoutes != nil && *c.began.Announcement.WithDefaults().PodRoutes
}

// mayAnnounce reports whether this process can announce anything, now or after a change: it watches Services and endpoints. A process that
// began with a config without bgp and l2 does not, but for one whose config is made of MetalLB's resources, any of which may come later.
func (c *Cloud) mayAnnounce() bool { return announces(c.began) || c.resources != nil }

// announces reports whether a config asks for anything to be announced.
func announces(settings *config.CloudConfig) bool { return settings.BGP != nil || settings.L2 != nil }

// Capabilities says what the provider offers by its config.
func (c *Cloud) Capabilities() provider.Capabilities {
	capabilities := provider.Capabilities{
		ProviderIDSchemes: []string{config.ProviderIDScheme},
		RunOnEveryReplica: c.runOnEveryReplica,
		ReplicaReady:      c.replicaReady,
		Rules:             c.rules(),
		Limits:            provider.Limits{InFlight: callsInFlight},
	}
	if c.began.Inventory.Enabled() {
		offered := c.instances.Capabilities()
		capabilities.ListInstances, capabilities.WatchInstances = offered.ListInstances, offered.WatchInstances
		capabilities.StandbySafe = offered.StandbySafe
	}
	if len(c.began.NodeGroups) > 0 {
		capabilities.NodeGroups = c.groups
	}
	if len(c.began.Pools) > 0 {
		capabilities.ListLoadBalancers = c.allocator.ListLoadBalancers
		capabilities.LoadBalancerWrites = ipam.Writes
		capabilities.LoadBalancersEndWithProcess = true // they are addresses in the API server
		capabilities.RetryLoadBalancers = c.allocator.RetryLoadBalancers
	}
	return capabilities
}

// rules are the rights that the parts of the provider need.
func (c *Cloud) rules() []rbacv1.PolicyRule {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	rules := []rbacv1.PolicyRule{rule("", "nodes", "list", "watch")}
	if c.began.Inventory.Enabled() { // without machines nodes are read only; with them one is read before its machine is turned off
		rules = append(rules, rule("", "nodes", "patch", "get"))
	}
	if len(c.began.Pools) > 0 {
		rules = append(rules, rule("", "services", "list", "watch"), rule("", "events", "create", "patch"))
		if c.allocator.Pools().SelectsNamespaces() {
			rules = append(rules, rule("", "namespaces", "get"))
		}
	}
	if c.mayAnnounce() {
		rules = append(rules, rule("", "services", "list", "watch"), rule("", "services/status", "patch"),
			rule("discovery.k8s.io", "endpointslices", "list", "watch"))
	}
	return rules
}

// replicaReady returns nil once this replica announces what the one announced that it replaces. In mode GracefulRestart a replica
// that does not lead announces nothing, and has nothing to wait for; nor has one on a segment, where the leader answers.
//
// See ADR 72.
func (c *Cloud) replicaReady() error {
	if !c.mayAnnounce() {
		return nil
	}
	running, section := c.running(), c.source.Current().BGP
	switch {
	case running == nil:
		return errNotAnnouncing
	case section == nil || section.Mode == config.GracefulRestart && !c.leads():
		return nil
	default:
		return running.speaker.Ready()
	}
}

// leads reports whether this replica has begun to lead.
func (c *Cloud) leads() bool {
	select {
	case <-c.led:
		return true
	default:
		return false
	}
}

// running returns what runs on this replica; nil before it does.
func (c *Cloud) running() *parts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts
}
