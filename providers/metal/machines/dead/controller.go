package dead

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/leaserecord"
	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/machines/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

const (
	// defaultPeriod is the longest time between two passes: states of power grow old without an event.
	defaultPeriod = 5 * time.Second
	// maxPause is how many periods may lie between two answers of the API server without its silence being assumed.
	maxPause = 4
	// mostTwins is how many nodes an event names that say that they are the same machine.
	mostTwins = 3
)

// Machines are the machines of the inventory, and what is known of their power.
type Machines interface {
	// Named returns the machine that the inventory calls like a node, nil if there is none, and Known whether it has one with an ID.
	Named(node string) *config.Machine
	Known(id string) bool
	// Claims returns the IDs of the machines that a node is, or may be.
	Claims(node *v1.Node) []string
	// Observe returns what is known of the machine of a node. What is not known, also because there is no such machine, is unknown.
	Observe(node *v1.Node) metalpower.Observation
	// Subscribe has a function called after changes, until cancel is called.
	Subscribe(changed func()) (cancel func())
	// GoesToSleep reports whether the machine of a node is to be off: its node group turns it off, and that it falls silent is no fault.
	GoesToSleep(node *v1.Node) bool
	// TurnOff turns the machine of a node off, and returns nil once that is confirmed.
	TurnOff(ctx context.Context, node *v1.Node) error
}

// Options are what the controller works with. All but Registerer and Period are required.
type Options struct {
	// Client reads and writes nodes.
	Client corev1client.NodesGetter
	// Leases reaches the Lease that holds the record of attempts, LeaseNamespace and LeaseName say which it is.
	Leases                    coordinationv1client.LeasesGetter
	LeaseNamespace, LeaseName string
	// Nodes delivers them. Its factory is started by the caller.
	Nodes coreinformers.NodeInformer
	// Recorder records events on nodes.
	Recorder record.EventRecorder
	// Machines knows the machines.
	Machines Machines
	// Self is what this replica knows of its own machine.
	Self func() (self.Replica, error)
	// Settings returns what the operator decides, as it is now.
	Settings func() Settings
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Period is the time between two passes. Zero: 5s.
	Period time.Duration
}

// Controller puts the taint out-of-service on nodes and takes it off, and turns machines off. It is the leader's.
type Controller struct {
	options Options
	writer  writer
	metrics *metrics
	wake    chan struct{}
	// doubts are the warnings about controllers, and holds those about machines that are not turned off.
	doubts, holds reporter

	// store holds the record, and silentSince is by the UIDs of nodes; both are of the passes alone.
	store       *store
	complaint   string
	silentSince map[types.UID]time.Time
	// answering and answered are since when the API server has answered, and when it last has.
	answering, answered time.Time

	attempts sync.WaitGroup
	mu       sync.Mutex
	// attempting says that an attempt goes on.
	attempting bool
	// record is what was done, nil if that is to be read.
	record *attempts
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := required.Check("controller of dead machines",
		required.Option{Name: "Client", Missing: options.Client == nil}, required.Option{Name: "Nodes", Missing: options.Nodes == nil},
		required.Option{Name: "Recorder", Missing: options.Recorder == nil}, required.Option{Name: "Machines", Missing: options.Machines == nil},
		required.Option{Name: "Self", Missing: options.Self == nil}, required.Option{Name: "Settings", Missing: options.Settings == nil},
		required.Option{Name: "Leases", Missing: options.Leases == nil},
		required.Option{Name: "LeaseNamespace", Missing: options.LeaseNamespace == ""},
		required.Option{Name: "LeaseName", Missing: options.LeaseName == ""},
	); err != nil {
		return nil, err
	}
	if options.Period == 0 {
		options.Period = defaultPeriod
	}
	return &Controller{
		options: options, wake: make(chan struct{}, 1), metrics: newMetrics(options.Registerer),
		writer: writer{nodes: options.Client, recorder: options.Recorder, machines: options.Machines},
		doubts: reporter{options.Recorder, map[types.UID]string{}}, holds: reporter{options.Recorder, map[types.UID]string{}},
		store: &store{record: leaserecord.Record{
			Leases: options.Leases, Namespace: options.LeaseNamespace, Name: options.LeaseName, Annotation: AttemptsAnnotation,
		}},
		silentSince: map[types.UID]time.Time{},
	}, nil
}

// Run looks after nodes until ctx ends, and waits for an attempt that goes on. Taints follow changes at once. Machines are turned off after
// long times only, and a look at them asks the API server: each period has one.
func (c *Controller) Run(ctx context.Context) error {
	defer c.attempts.Wait()
	informer := c.options.Nodes.Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.poke() },
		UpdateFunc: func(_, node any) { c.pokeFor(node) },
	})
	if err != nil {
		return fmt.Errorf("following nodes: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()
	defer c.options.Machines.Subscribe(c.poke)()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	tick := time.NewTicker(c.options.Period)
	defer tick.Stop()
	for due := true; ; {
		c.pass(ctx, due)
		select {
		case <-tick.C:
			due = true
		case <-c.wake:
			due = false
		case <-ctx.Done():
			return nil
		}
	}
}

// pokeFor has a pass follow an update of a node whose taint it could change: most are heartbeats.
func (c *Controller) pokeFor(updated any) {
	if node, ok := updated.(*v1.Node); ok && nodeFacts(node).needsTaintLook() {
		c.poke()
	}
}

func (c *Controller) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// pass looks at all nodes once, and at machines to turn off if that is due. What fails is tried again by the next.
func (c *Controller) pass(ctx context.Context, fence bool) {
	present, err := c.options.Nodes.Lister().List(labels.Everything())
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Listing nodes")
		return
	}
	settings, now := c.options.Settings(), time.Now()
	nodes := make([]facts, len(present))
	for i, node := range present {
		observed := c.options.Machines.Observe(node)
		nodes[i] = factsOf(node, c.options.Machines.Named(node.Name), observed)
		c.doubt(node, observed, nodes[i], settings, now)
	}
	c.doubts.forget(present)
	c.changeTaints(ctx, nodes, settings, now)
	if fence {
		c.fence(ctx, present, nodes, settings)
	}
}

// factsOf reads what matters off a node, and off the machine that the inventory calls like it, nil if there is none.
func factsOf(node *v1.Node, named *config.Machine, observed metalpower.Observation) facts {
	f := nodeFacts(node)
	f.trusted, f.verified, f.since = observed.TrustedPower(), observed.VerifiedPower(), observed.Since
	if named == nil {
		return f
	}
	_, controlPlane := named.Labels[nodestate.ControlPlaneLabel]
	f.controlPlane = f.controlPlane || controlPlane
	f.excluded = f.excluded || named.Maintenance
	if node.Spec.ProviderID == named.ProviderID() {
		f.machine = named.ID
	}
	return f
}

// doubt records why what a controller says is not used for the taint, if it is not.
func (c *Controller) doubt(node *v1.Node, observed metalpower.Observation, f facts, settings Settings, now time.Time) {
	var wrong *metalpower.WrongSystemError
	var reason, message string
	switch {
	case errors.As(observed.Err, &wrong):
		reason, message = ReasonWrongBMC, "The power state is not used: "+wrong.Error()
	case f.untrusted(settings, now):
		reason, message = ReasonUnverifiedBMC, "The BMC says that the machine is off, but the system UUID that it gives, or the machine's, "+
			"is not known: pods and volumes stay on the node. Set systemUUID of the machine, or allowUnverified of its bmc"
	}
	c.doubts.report(node, message, reason, message)
}

// changeTaints puts taints on and takes them off.
func (c *Controller) changeTaints(ctx context.Context, nodes []facts, settings Settings, now time.Time) {
	log, marked := logr.FromContextOrDiscard(ctx), 0
	for _, f := range nodes {
		if f.marked && f.outOfService() {
			marked++
		}
	}
	c.metrics.marked.Set(float64(marked))
	for _, action := range planTaints(nodes, settings, now) {
		err := c.writer.changeTaint(ctx, action)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOutdated):
		case err != nil:
			c.metrics.failures.WithLabelValues(action.String()).Inc()
			log.Error(err, "The taint of a node could not be changed; trying again", "node", action.node.name)
		default:
			c.metrics.writes.WithLabelValues(action.String()).Inc()
			log.Info("The taint node.kubernetes.io/out-of-service was changed", "node", action.node.name, "operation", action.String())
		}
	}
}
