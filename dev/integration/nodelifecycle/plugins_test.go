package nodelifecycle_test

import (
	"context"
	"errors"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// The states in which a plainPlugin knows an instance. One that it does not know is gone.
const (
	runs   = "runs"
	isOff  = "is off"
	breaks = "answers with an error"
	hides  = "answers every second time with not found, and with an error in between"
)

var errBroken = errors.New("connection refused")

// plainPlugin is a plugin that knows nothing of Mooring: by InstancesV2, or by the legacy Instances. It knows instances by
// their nodes' names, which are the last part of their provider IDs.
type plainPlugin struct {
	name   string
	legacy bool

	mu        sync.Mutex
	instances map[string]string
	calls     map[string]int // by method and node name
}

func newPlugin(name string, instances map[string]string) *plainPlugin {
	return &plainPlugin{name: name, instances: maps.Clone(instances), calls: map[string]int{}}
}

func (p *plainPlugin) set(name, state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instances == nil {
		p.instances = map[string]string{}
	}
	p.instances[name] = state
}

// lose makes the plugin know none of its instances, and returns what brings them back.
func (p *plainPlugin) lose() (find func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.instances
	p.instances = nil
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.instances = known
	}
}

func (p *plainPlugin) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}

func (p *plainPlugin) ask(method, name string) (state string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := method + " " + name
	p.calls[key]++
	switch state := p.instances[name]; {
	case state == breaks, state == hides && p.calls[key]%2 == 0:
		return "", errBroken
	case state == hides:
		return "", nil
	default:
		return state, nil
	}
}

func (p *plainPlugin) ProviderName() string                                              { return p.name }
func (p *plainPlugin) HasClusterID() bool                                                { return true }
func (p *plainPlugin) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (p *plainPlugin) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (p *plainPlugin) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (p *plainPlugin) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (p *plainPlugin) Routes() (cloudprovider.Routes, bool)                              { return nil, false }

func (p *plainPlugin) Instances() (cloudprovider.Instances, bool) {
	return legacyInstances{plugin: p}, p.legacy
}
func (p *plainPlugin) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return plainInstances{plugin: p}, !p.legacy
}

type plainInstances struct{ plugin *plainPlugin }

func (i plainInstances) InstanceExists(_ context.Context, n *corev1.Node) (bool, error) {
	state, err := i.plugin.ask("exists", n.Name)
	return state != "", err
}

func (i plainInstances) InstanceShutdown(_ context.Context, n *corev1.Node) (bool, error) {
	state, err := i.plugin.ask("shutdown", n.Name)
	return state == isOff, err
}

func (i plainInstances) InstanceMetadata(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	state, err := i.plugin.ask("metadata", n.Name)
	if err != nil || state == "" {
		return nil, errors.Join(err, cloudprovider.InstanceNotFound)
	}
	return &cloudprovider.InstanceMetadata{ProviderID: n.Spec.ProviderID}, nil
}

type legacyInstances struct {
	cloudprovider.Instances
	plugin *plainPlugin
}

// nameOf takes the name off a provider ID.
func (i legacyInstances) nameOf(providerID string) string {
	return providerID[len(i.plugin.name)+len("://"):]
}

func (i legacyInstances) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	state, err := i.plugin.ask("id", string(name))
	if err == nil && state == "" {
		err = cloudprovider.InstanceNotFound
	}
	return string(name), err
}

func (i legacyInstances) InstanceExistsByProviderID(_ context.Context, providerID string) (bool, error) {
	state, err := i.plugin.ask("exists", i.nameOf(providerID))
	return state != "", err
}

func (i legacyInstances) InstanceShutdownByProviderID(_ context.Context, providerID string) (bool, error) {
	state, err := i.plugin.ask("shutdown", i.nameOf(providerID))
	return state == isOff, err
}
