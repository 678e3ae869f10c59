package metal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/machine"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// listPage is how many machines a page of a list holds.
const listPage = 500

// PowerStates are what is known of the power of machines, by their IDs, as a *power.Poller knows it.
type PowerStates interface {
	// Observe returns what is known of one machine.
	Observe(id string) power.Observation
	// Subscribe has a function called after changes, until cancel is called.
	Subscribe(changed func()) (cancel func())
}

// Instances are the machines of the inventory as instances: cloudprovider.InstancesV2, with lists and watches. A machine exists as long as
// it is in the inventory and its node group has not put it to sleep. It is shut down when its management controller has confirmed that it is
// off. Every answer is at hand, without a call. It is safe for concurrent use, also on a standby, which reads no power states.
type Instances struct {
	power PowerStates
	// sleeps reports whether a machine is asleep, and goesToSleep whether it is to be; nil if none ever is.
	sleeps, goesToSleep func(id string) bool

	index atomic.Pointer[machine.Index]
	nodes atomic.Pointer[corelisters.NodeLister]
	close []func()

	mu       sync.Mutex
	watchers map[*watcher]bool
}

// watcher is one watch; its channel says that something has changed.
type watcher struct{ wake chan struct{} }

var _ cloudprovider.InstancesV2 = &Instances{}

// NewInstances returns the machines of a config that changes. Close ends what it began.
func NewInstances(source power.Configured, states PowerStates) *Instances {
	i := &Instances{power: states, watchers: map[*watcher]bool{}}
	i.close = append(i.close, source.Subscribe(i.use), states.Subscribe(i.wake))
	i.use(source.Current())
	return i
}

// Close ends the subscriptions.
func (i *Instances) Close() {
	for _, cancel := range i.close {
		cancel()
	}
}

// Capabilities returns what the provider offers by its machines.
func (i *Instances) Capabilities() provider.Capabilities {
	return provider.Capabilities{
		ProviderIDSchemes: []string{config.ProviderIDScheme},
		ListInstances:     i.List,
		WatchInstances:    i.Watch,
		StandbySafe:       true,
	}
}

// FollowNodes has lists and watches name the nodes that belong to machines by something else than their names: a node without a
// provider ID is looked for in them by its name. Before, and without, only the names of the inventory count.
func (i *Instances) FollowNodes(nodes coreinformers.NodeInformer) error {
	lister := nodes.Lister()
	i.nodes.Store(&lister)
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    i.wakeFor,
		UpdateFunc: func(_, node any) { i.wakeFor(node) },
		DeleteFunc: i.wakeFor,
	})
	if err != nil {
		return fmt.Errorf("following nodes: %w", err)
	}
	return nil
}

// wakeFor wakes watches for a node that is looked for by its name.
func (i *Instances) wakeFor(changed any) {
	if node, ok := changed.(*v1.Node); ok && node.Spec.ProviderID == "" {
		i.wake()
	}
}

func (i *Instances) use(c *config.CloudConfig) {
	i.index.Store(machine.NewIndex(c.Inventory.Machines))
	i.wake()
}

func (i *Instances) wake() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for w := range i.watchers {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// find returns the machine of a node. A machine that is asleep does not exist, unless its kubelet says that it runs: its node is deleted
// and it comes back as a new one.
func (i *Instances) find(node *v1.Node) (*config.Machine, error) {
	found, err := i.index.Load().Find(node)
	if err == nil && i.asleep(found) && !nodestate.Ready(node) {
		return nil, fmt.Errorf("machine %s is asleep: %w", found.Name, provider.ErrInstanceNotFound)
	}
	return found, err
}

func (i *Instances) asleep(m *config.Machine) bool { return i.sleeps != nil && i.sleeps(m.ID) }

// InstanceExists reports whether the node's machine is in the inventory and not asleep. What cannot be decided is an error.
func (i *Instances) InstanceExists(_ context.Context, node *v1.Node) (bool, error) {
	_, err := i.find(node)
	if errors.Is(err, provider.ErrInstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown reports whether the node's machine is confirmed to be off.
func (i *Instances) InstanceShutdown(_ context.Context, node *v1.Node) (bool, error) {
	found, err := i.find(node)
	if err != nil {
		return false, err
	}
	return identified(i.power.Observe(found.ID), found, node).State == power.Off, nil
}

// InstanceMetadata returns what the inventory says of the node's machine.
func (i *Instances) InstanceMetadata(_ context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	found, err := i.find(node)
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(found)
	return &metadata, nil
}

// Observe returns what is known of the power of a node's machine. Of a node without a machine, or with the system UUID of another
// one, nothing is.
func (i *Instances) Observe(node *v1.Node) power.Observation {
	found, err := i.index.Load().Find(node)
	if err != nil {
		return power.Observation{Err: err}
	}
	return identified(i.power.Observe(found.ID), found, node)
}

// Subscribe has a function called after changes of power, until cancel is called.
func (i *Instances) Subscribe(changed func()) (cancel func()) { return i.power.Subscribe(changed) }

// List is provider.ListInstancesFunc.
func (i *Instances) List(ctx context.Context, yield func([]provider.Instance) error) error {
	var all []provider.Instance
	for _, seen := range i.look() {
		all = append(all, seen.instance())
	}
	for page := range slices.Chunk(all, listPage) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(page); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sight is one machine at one moment.
type sight struct {
	machine *config.Machine
	node    types.NodeName
	state   provider.InstanceState
}

// look returns all machines that are not asleep as they are now, in the order of their IDs.
func (i *Instances) look() []sight {
	index := i.index.Load()
	names := index.NodeNames(i.knownNodes())
	all := make([]sight, 0, len(index.Machines()))
	for _, found := range index.Machines() {
		if i.asleep(found) {
			continue
		}
		name, other := names[found.ID]
		if !other {
			name = types.NodeName(found.Name)
		}
		all = append(all, sight{machine: found, node: name, state: i.power.Observe(found.ID).InstanceState()})
	}
	return all
}

func (i *Instances) knownNodes() []*v1.Node {
	lister := i.nodes.Load()
	if lister == nil {
		return nil
	}
	nodes, err := (*lister).List(labels.Everything())
	if err != nil {
		return nil // a cache does not fail; without it the names of the inventory count
	}
	return nodes
}

func (s sight) instance() provider.Instance {
	return provider.Instance{NodeName: s.node, State: s.state, InstanceMetadata: metadataOf(s.machine)}
}

// metadataOf keeps the order of addresses, which says what comes first.
func metadataOf(m *config.Machine) cloudprovider.InstanceMetadata {
	addresses := make([]v1.NodeAddress, len(m.Addresses))
	for i, address := range m.Addresses {
		addresses[i] = v1.NodeAddress{Type: address.Type, Address: address.Address}
	}
	return cloudprovider.InstanceMetadata{
		ProviderID:       m.ProviderID(),
		InstanceType:     m.MachineType,
		NodeAddresses:    addresses,
		Zone:             m.Zone,
		Region:           m.Region,
		AdditionalLabels: maps.Clone(m.Labels),
	}
}
