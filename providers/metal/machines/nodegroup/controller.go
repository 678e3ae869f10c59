package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// defaultPeriod is the time between two passes.
const defaultPeriod = 2 * time.Second

// BMC changes the power of machines. An error says what the controller answered; see metalpower.Classify.
type BMC interface {
	// TurnOn, ShutDown and TurnOff are as those of package power.
	TurnOn(ctx context.Context, machine *config.Machine) error
	ShutDown(ctx context.Context, machine *config.Machine) error
	TurnOff(ctx context.Context, machine *config.Machine) error
}

// Sources are what a controller that leads works with. All but Fenced are required.
type Sources struct {
	// Client reads nodes, and Leases keeps the record.
	Client corev1client.NodesGetter
	Leases coordinationv1client.LeasesGetter
	// Nodes delivers nodes. Its factory is started by the caller.
	Nodes coreinformers.NodeInformer
	// Recorder records events on nodes and on the Lease.
	Recorder record.EventRecorder
	// Fenced reports whether a machine was turned off because its node was silent, and has not been turned on since. Nil: none ever is.
	Fenced func(id string) bool
}

// Options are what a controller is made of. All but Changed, BMC, Registerer and Period are required.
type Options struct {
	// Config returns the config in force.
	Config func() *config.CloudConfig
	// Observe returns what is known of the power of the machine with an ID.
	Observe func(id string) metalpower.Observation
	// MachinesOf returns the IDs of the machines that a node is, or may be.
	MachinesOf func(*v1.Node) []string
	// Self is what this replica knows of its own machine.
	Self func() (self.Replica, error)
	// Changed is called when a machine has fallen asleep, or is to be awake.
	Changed func()
	// BMC changes the power of machines. Nil: their management controllers, as the config says.
	BMC BMC
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Period is the time between two passes. Zero: 2s.
	Period time.Duration
}

// Controller turns the machines of groups on and off. It is provider.NodeGroups on every replica. Only the leader, which alone asks BMCs, can
// say or change more than the config does.
type Controller struct {
	options Options
	metrics *metrics
	// sources are what Lead gave, and led says that it did; they do not change after.
	sources Sources
	led     atomic.Bool
	// store is where the record is; another Lease takes another process.
	store store
	// changing is held by who changes the record: it has room for one.
	changing chan struct{}
	attempts sync.WaitGroup

	mu sync.Mutex
	// begun is when this leader began; zero before nodes are known.
	begun time.Time
	// recorded is what the API server has, as far as this leader knows; loaded says that it has been read.
	recorded recordedIntents
	loaded   bool
	// told is what became of commands, by the IDs of machines.
	told map[string]commands
	// members are the IDs of the machines of groups, by the config membersOf.
	members   map[string]bool
	membersOf *config.CloudConfig
}

// New returns a controller that does not lead yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := required.Check("node group controller",
		required.Option{Name: "Config", Missing: options.Config == nil}, required.Option{Name: "Observe", Missing: options.Observe == nil},
		required.Option{Name: "MachinesOf", Missing: options.MachinesOf == nil}, required.Option{Name: "Self", Missing: options.Self == nil},
	); err != nil {
		return nil, err
	}
	if options.Period == 0 {
		options.Period = defaultPeriod
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	if options.BMC == nil {
		options.BMC = controllers{}
	}
	return &Controller{
		options: options, metrics: newMetrics(options.Registerer), changing: make(chan struct{}, 1), told: map[string]commands{},
	}, nil
}

// Lead has calls answered once Run has read nodes and the record. It is called once, before Run. All sources that are missing are named in
// one error.
func (c *Controller) Lead(sources Sources) error {
	if err := required.Check("node group controller",
		required.Option{Name: "Client", Missing: sources.Client == nil}, required.Option{Name: "Leases", Missing: sources.Leases == nil},
		required.Option{Name: "Nodes", Missing: sources.Nodes == nil}, required.Option{Name: "Recorder", Missing: sources.Recorder == nil},
	); err != nil {
		return err
	}
	if sources.Fenced == nil {
		sources.Fenced = func(string) bool { return false }
	}
	lease := c.options.Config().NodeGroupLease
	c.sources = sources
	c.store = store{leaserecord.Record{Leases: sources.Leases, Namespace: lease.Namespace, Name: lease.Name, Annotation: Annotation}}
	c.led.Store(true)
	return nil
}

// Run looks after machines until ctx ends, and waits for commands that are under way.
func (c *Controller) Run(ctx context.Context) error {
	defer c.attempts.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), c.sources.Nodes.Informer().HasSynced) {
		return nil
	}
	c.mu.Lock()
	c.begun = time.Now()
	c.mu.Unlock()
	tick := time.NewTicker(c.options.Period)
	defer tick.Stop()
	failing := false
	for {
		err := c.pass(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Cannot manage node groups; retrying")
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// pass looks at all machines of groups once. What fails is tried again by the next.
func (c *Controller) pass(ctx context.Context) error {
	var actions []action
	err := c.change(ctx, func(snapshot snapshot, now time.Time) (changes, error) {
		planned := changes{}
		actions = nil
		for _, group := range snapshot.groups {
			made, due := advance(snapshot.of(group), group.limits(), c.leadsSince(), now)
			for id, next := range made {
				planned[id] = next
			}
			actions = append(actions, due...)
		}
		c.metrics.observe(snapshot, now)
		return planned, nil
	})
	if err != nil {
		return err
	}
	for _, action := range actions {
		c.begin(ctx, action)
	}
	return nil
}

// snapshot is what is known at one moment of all machines of groups.
type snapshot struct {
	groups   []group
	machines map[string]facts
	configs  map[string]*config.Machine
}

// of returns what is known of the machines of a group.
func (s snapshot) of(g group) []facts {
	all := make([]facts, len(g.machines))
	for i, m := range g.machines {
		all[i] = s.machines[m.ID]
	}
	return all
}

// ErrNotLeading says that this replica does not look after node groups: another one leads, or it has only begun to.
var ErrNotLeading = errors.New("only the leader manages node groups, once it has read nodes and its record")

// look returns what is known of machines now. It is complete or an error.
func (c *Controller) look(ctx context.Context) (snapshot, error) {
	if err := ctx.Err(); err != nil {
		return snapshot{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun.IsZero() || !c.loaded {
		return snapshot{}, ErrNotLeading
	}
	present, err := c.sources.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return snapshot{}, fmt.Errorf("listing nodes: %w", err)
	}
	own := c.own()
	nodes := map[string][]*v1.Node{}
	for _, node := range present {
		for _, id := range c.options.MachinesOf(node) {
			nodes[id] = append(nodes[id], node)
		}
	}
	seen := snapshot{groups: groupsOf(c.options.Config()), machines: map[string]facts{}, configs: map[string]*config.Machine{}}
	for _, group := range seen.groups {
		for _, m := range group.machines {
			found := nodeFactsOf(nodes[m.ID], own)
			if c.sources.Fenced(m.ID) {
				found.held = "fenced"
			}
			f := factsOf(m, c.recorded, c.options.Observe(m.ID), found)
			seen.machines[m.ID], seen.configs[m.ID] = c.told[m.ID].of(f), m
		}
	}
	return seen, nil
}

// own returns what says whether this replica runs on a node. One that does not know itself may run on any.
func (c *Controller) own() func(*v1.Node) bool {
	replica, err := c.options.Self()
	if err != nil {
		return func(*v1.Node) bool { return true }
	}
	return replica.Is
}

func (c *Controller) leadsSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

// tries is how often a change is planned anew because the record has changed.
const tries = 3

// change plans new intents and records them. They are in force when it returns nil, or the error of the plan: a plan may have both.
// After any other error they may be or not.
func (c *Controller) change(ctx context.Context, plan func(snapshot, time.Time) (changes, error)) error {
	if !c.led.Load() {
		return ErrNotLeading
	}
	select {
	case c.changing <- struct{}{}:
		defer func() { <-c.changing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	for range tries {
		if err = c.load(ctx); err != nil {
			return err
		}
		now := time.Now()
		var seen snapshot
		if seen, err = c.look(ctx); err != nil {
			return err
		}
		made, refused := plan(seen, now)
		if len(made) == 0 {
			return refused
		}
		if err = c.record(ctx, made, now); err == nil {
			return refused
		}
		if !errors.Is(err, errOutdated) {
			return err
		}
	}
	return err
}

// load reads the record if it is not known.
func (c *Controller) load(ctx context.Context) error {
	c.mu.Lock()
	loaded := c.loaded
	c.mu.Unlock()
	if loaded {
		return nil
	}
	found, err := c.store.read(ctx, time.Now())
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.recorded, c.loaded = found, true
	c.mu.Unlock()
	c.options.Changed()
	return nil
}

// record stores new intents. If that fails the record is read again before anything else.
func (c *Controller) record(ctx context.Context, made changes, now time.Time) error {
	known := map[string]bool{}
	for i := range c.options.Config().Inventory.Machines {
		known[c.options.Config().Inventory.Machines[i].ID] = true
	}
	c.mu.Lock()
	next := c.recorded.with(made, func(id string) bool { return known[id] })
	c.mu.Unlock()
	stored, err := c.store.write(ctx, next, now)
	c.mu.Lock()
	if err != nil {
		c.loaded = false
	} else {
		c.recorded = stored
		for id, intent := range made {
			c.told[id] = c.told[id].forNew(intent)
		}
	}
	c.mu.Unlock()
	if err == nil {
		c.options.Changed()
	}
	return err
}

// Sleeps reports whether a machine is asleep: it was put to sleep by its group, its BMC has confirmed that it is off and does not say
// anything else now. It is at hand, and false before the record is known.
func (c *Controller) Sleeps(id string) bool {
	c.mu.Lock()
	intent, recorded := c.recorded.intents[id]
	c.mu.Unlock()
	return recorded && intent.sleeps() && c.grouped(id) && c.options.Observe(id).State != metalpower.On
}

// GoesToSleep reports whether a machine is to be asleep, whether or not it is already.
func (c *Controller) GoesToSleep(id string) bool {
	c.mu.Lock()
	intent := c.recorded.intents[id]
	c.mu.Unlock()
	return intent.Want == asleep && c.grouped(id)
}

// grouped reports whether a machine is one of a group of the config in force.
func (c *Controller) grouped(id string) bool {
	current := c.options.Config()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == nil || c.membersOf != current {
		c.membersOf, c.members = current, map[string]bool{}
		for _, group := range groupsOf(current) {
			for _, m := range group.machines {
				c.members[m.ID] = true
			}
		}
	}
	return c.members[id]
}
