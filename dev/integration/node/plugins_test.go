package node_test

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// plugin is what all plugins of these tests have in common: a name, and a count of the calls for each node or provider ID.
type plugin struct {
	name string

	mu    sync.Mutex
	calls map[string]int
}

func (p *plugin) asked(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]int{}
	}
	p.calls[key]++
}

func (p *plugin) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}

func (p *plugin) ProviderName() string { return p.name }
func (p *plugin) HasClusterID() bool   { return true }

func (p *plugin) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (p *plugin) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (p *plugin) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return nil, false }
func (p *plugin) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (p *plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (p *plugin) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (p *plugin) Routes() (cloudprovider.Routes, bool)                              { return nil, false }

// plainPlugin is a plugin of today that knows nothing of Mooring.
type plainPlugin struct {
	plugin
	metadata answering
}

func newPlain(name string, metadata answering) *plainPlugin {
	return &plainPlugin{plugin: plugin{name: name}, metadata: metadata}
}

func (p *plainPlugin) InstancesV2() (cloudprovider.InstancesV2, bool) { return plainInstances{p}, true }

type plainInstances struct{ plugin *plainPlugin }

func (i plainInstances) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i.plugin.asked(n.Name)
	return i.plugin.metadata(ctx, n)
}

func (i plainInstances) InstanceExists(context.Context, *corev1.Node) (bool, error) { return true, nil }
func (i plainInstances) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, nil
}

// answering is how a plain plugin answers.
type answering func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error)

// always answers the same for every node.
func always(metadata *cloudprovider.InstanceMetadata, err error) answering {
	return func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) { return metadata, err }
}

// listingPlugin is a plugin that lists what it is given.
type listingPlugin struct {
	plugin
	listed func() ([]provider.Instance, error)
}

func (p *listingPlugin) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: func(_ context.Context, yield func([]provider.Instance) error) error {
		listed, err := p.listed()
		if err != nil {
			return err
		}
		return yield(listed)
	}}
}

// legacyPlugin is a plugin of the days before InstancesV2. It knows one instance, for every node.
type legacyPlugin struct {
	plugin
	id        string // empty: it has no provider IDs
	addresses []corev1.NodeAddress
}

func (p *legacyPlugin) Instances() (cloudprovider.Instances, bool) {
	return legacyInstances{plugin: p}, true
}
func (p *legacyPlugin) Zones() (cloudprovider.Zones, bool) { return legacyZones{}, true }

type legacyInstances struct {
	cloudprovider.Instances
	plugin *legacyPlugin
}

func (i legacyInstances) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	i.plugin.asked(string(name))
	if i.plugin.id == "" {
		return "", cloudprovider.NotImplemented
	}
	return i.plugin.id, nil
}

func (i legacyInstances) NodeAddressesByProviderID(context.Context, string) ([]corev1.NodeAddress, error) {
	return i.plugin.addresses, nil
}

func (i legacyInstances) NodeAddresses(context.Context, types.NodeName) ([]corev1.NodeAddress, error) {
	return i.plugin.addresses, nil
}

func (i legacyInstances) InstanceTypeByProviderID(context.Context, string) (string, error) {
	return "old.large", nil
}
func (i legacyInstances) InstanceType(context.Context, types.NodeName) (string, error) {
	return "old.large", nil
}

type legacyZones struct{ cloudprovider.Zones }

func (legacyZones) GetZoneByProviderID(context.Context, string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "old-1a", Region: "old-1"}, nil
}

func (legacyZones) GetZoneByNodeName(context.Context, types.NodeName) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{FailureDomain: "old-1a", Region: "old-1"}, nil
}
