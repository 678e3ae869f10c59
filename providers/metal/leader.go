package metal

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/mooring-ccm/mooring/internal/message/events"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam"
)

// clientName is the user agent of the leader's parts where the manager has given no client.
const clientName = "metal-cloud-provider"

// Initialize starts what only the leader does: it allocates addresses, asks management controllers, and writes to
// Kubernetes what became of Services and machines. It ends with stop.
func (c *Cloud) Initialize(clients cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Background().WithName(ProviderName)))
	go func() {
		<-stop
		cancel()
	}()
	if err := c.lead(ctx, clients); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The parts of the provider that run on the leader could not be started")
	}
}

// leader is what the leader's parts have in common.
type leader struct {
	ctx      context.Context
	client   kubernetes.Interface
	recorder record.EventRecorder
	// informers are not those of every replica: these keep objects whole.
	informers informers.SharedInformerFactory
}

// lead starts the parts of the leader, which end with ctx.
func (c *Cloud) lead(ctx context.Context, clients cloudprovider.ControllerClientBuilder) error {
	client, err := c.writingClient(clients)
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	context.AfterFunc(ctx, broadcaster.Shutdown)
	l := &leader{
		ctx: ctx, client: client, informers: informers.NewSharedInformerFactory(client, 0),
		recorder: events.Bounded(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: ProviderName + "-provider"})),
	}
	if err := c.leadMachines(l); err != nil {
		return err
	}
	if err := c.leadAddresses(l); err != nil {
		return err
	}
	c.leadConditions(l)
	c.leadResources(l)
	l.informers.Start(ctx.Done())
	c.leading.Do(func() {
		c.leadership = ctx
		close(c.led)
	})
	return nil
}

// writingClient returns the manager's client, or under --dry-run, where nothing runs on every replica, one that reads.
func (c *Cloud) writingClient(clients cloudprovider.ControllerClientBuilder) (kubernetes.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	client, err := clients.Client(clientName)
	if err != nil {
		return nil, fmt.Errorf("client of the provider: %w", err)
	}
	return client, nil
}

// run starts a part that ends with the leader.
func (l *leader) run(what string, part func(context.Context) error) {
	go func() {
		if err := part(l.ctx); err != nil && l.ctx.Err() == nil {
			logr.FromContextOrDiscard(l.ctx).Error(err, "A part of the provider has ended", "part", what)
		}
	}()
}

// leadMachines asks management controllers, and looks after the nodes of machines that are dead.
func (c *Cloud) leadMachines(l *leader) error {
	if !c.began.Inventory.Enabled() {
		return nil
	}
	nodes := l.informers.Core().V1().Nodes()
	if err := c.instances.FollowNodes(nodes); err != nil {
		return err
	}
	machines, err := c.deadMachines(l, nodes)
	if err != nil {
		return err
	}
	if err := c.leadNodeGroups(l, nodes, machines.Fenced); err != nil {
		return err
	}
	l.run("power states", func(ctx context.Context) error { return c.poller.Run(ctx, c.source) })
	l.run("dead machines", machines.Run)
	return nil
}

// leadAddresses starts the allocation of addresses.
func (c *Cloud) leadAddresses(l *leader) error {
	if len(c.began.Pools) == 0 {
		return nil
	}
	if err := c.allocator.Lead(ipam.Sources{
		Client: l.client, Services: l.informers.Core().V1().Services().Informer(),
		Nodes: l.informers.Core().V1().Nodes().Informer(), Recorder: l.recorder,
		Announced: func() bool {
			toRouters, onSegment := c.announces()
			return c.running() != nil && (toRouters || onSegment)
		},
	}); err != nil {
		return err
	}
	l.run("addresses", c.allocator.Run)
	return nil
}

// announces reports how the config has addresses announced now.
func (c *Cloud) announces() (toRouters, onSegment bool) {
	settings := c.source.Current()
	return settings.BGP != nil, settings.L2 != nil
}

// leadConditions writes to Services whether they are announced.
func (c *Cloud) leadConditions(l *leader) {
	running := c.running()
	if running == nil {
		return
	}
	writer := &announce.ConditionWriter{
		Announcer: running.announcer, Client: l.client, Services: l.informers.Core().V1().Services().Lister(), Recorder: l.recorder,
		Registerer: c.registry, Routers: running.routers, OnSegment: running.responder.Answering,
		InForce: c.announces,
	}
	changed, cancel := running.speaker.Subscribe()
	writer.RoutersChanged = changed
	l.run("conditions of services", func(ctx context.Context) error {
		defer cancel()
		writer.Run(ctx)
		return nil
	})
}

// leadResources tells of MetalLB's resources what became of them. Under --dry-run, where nothing watches them, nothing is told.
func (c *Cloud) leadResources(l *leader) {
	c.mu.Lock()
	watched := c.client != nil
	c.mu.Unlock()
	if c.resources == nil || !watched {
		return
	}
	l.run("resources of MetalLB", func(ctx context.Context) error {
		c.resources.Report(ctx, l.recorder, c.allocator.Usage)
		return nil
	})
}

// routers returns how far announcements of this replica get with each router.
func (p *parts) routers() []announce.Router {
	statuses := p.speaker.Sessions()
	routers := make([]announce.Router, len(statuses))
	for i, status := range statuses {
		routers[i].Name = status.Name
		for family, name := range map[model.Family]config.AddressFamily{model.IPv4: config.IPv4, model.IPv6: config.IPv6} {
			why, wanted := status.Delivery(name)
			routers[i].Families[family] = announce.RouterFamily{Wanted: wanted, Why: why.Words()}
		}
	}
	for _, other := range p.speaker.Elsewhere() {
		router := announce.Router{Name: other.Name, Elsewhere: true}
		for family, name := range map[model.Family]config.AddressFamily{model.IPv4: config.IPv4, model.IPv6: config.IPv6} {
			router.Families[family].Wanted = slices.Contains(other.Families, name)
		}
		routers = append(routers, router)
	}
	return routers
}
