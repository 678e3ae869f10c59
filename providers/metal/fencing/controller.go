package fencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	metalpower "github.com/mooring-ccm/mooring/providers/metal/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

const (
	// defaultPeriod is the time between two passes.
	defaultPeriod = 5 * time.Second
	// maxPause is how many periods may lie between two answers of the API server without its silence being assumed.
	maxPause = 4
	// mostTwins is how many nodes an event names that say that they are the same machine.
	mostTwins = 3
)

// TurnOff turns the machine of a node off, and returns nil once that is confirmed.
type TurnOff func(ctx context.Context, node *v1.Node) error

// Options are what the controller works with. All but Registerer and Period are required.
type Options struct {
	// Client reads nodes.
	Client corev1client.NodesGetter
	// Leases reaches the Lease that holds the record of attempts, LeaseNamespace and LeaseName say which it is.
	Leases                    coordinationv1client.LeasesGetter
	LeaseNamespace, LeaseName string
	// Nodes delivers them. Its factory is started by the caller.
	Nodes coreinformers.NodeInformer
	// Recorder records events on nodes.
	Recorder record.EventRecorder
	// Named returns the machine that the inventory calls like a node, nil if there is none, and Known whether it has one with an ID.
	Named func(node string) *Machine
	Known func(id string) bool
	// Claims returns the IDs of the machines that a node is, or may be.
	Claims func(*v1.Node) []string
	// Observe returns what is known of the power of a node's machine.
	Observe func(*v1.Node) metalpower.Observation
	// TurnOff turns machines off.
	TurnOff TurnOff
	// Self is what this replica knows of its own machine.
	Self func() (self.Replica, error)
	// Settings returns what the operator decides, as it is now.
	Settings func() Settings
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Period is the time between two passes. Zero: 5s.
	Period time.Duration
}

// Controller turns machines off. It is the leader's.
type Controller struct {
	options Options
	writer  writer
	metrics *metrics

	// store holds the record, silentSince is by the UIDs of nodes, and recorded what their last event said; all are of the passes alone.
	store       *store
	complaint   string
	silentSince map[types.UID]time.Time
	recorded    map[types.UID]holdReason
	// twins are those of nodes, by name, for events.
	twins map[string][]string
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
	if err := required.Check("fencing controller",
		required.Option{Name: "Client", Missing: options.Client == nil}, required.Option{Name: "Nodes", Missing: options.Nodes == nil},
		required.Option{Name: "Recorder", Missing: options.Recorder == nil}, required.Option{Name: "Observe", Missing: options.Observe == nil},
		required.Option{Name: "TurnOff", Missing: options.TurnOff == nil}, required.Option{Name: "Self", Missing: options.Self == nil},
		required.Option{Name: "Settings", Missing: options.Settings == nil}, required.Option{Name: "Leases", Missing: options.Leases == nil},
		required.Option{Name: "LeaseNamespace", Missing: options.LeaseNamespace == ""},
		required.Option{Name: "LeaseName", Missing: options.LeaseName == ""}, required.Option{Name: "Named", Missing: options.Named == nil},
		required.Option{Name: "Known", Missing: options.Known == nil}, required.Option{Name: "Claims", Missing: options.Claims == nil},
	); err != nil {
		return nil, err
	}
	if options.Period == 0 {
		options.Period = defaultPeriod
	}
	return &Controller{
		options: options, writer: writer{nodes: options.Client, recorder: options.Recorder, turnOff: options.TurnOff, named: options.Named},
		store: &store{record: leaserecord.Record{
			Leases: options.Leases, Namespace: options.LeaseNamespace, Name: options.LeaseName, Annotation: Annotation,
		}},
		metrics: newMetrics(options.Registerer), silentSince: map[types.UID]time.Time{}, recorded: map[types.UID]holdReason{},
	}, nil
}

// Run looks after nodes until ctx ends, and waits for an attempt that goes on.
func (c *Controller) Run(ctx context.Context) error {
	defer c.attempts.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), c.options.Nodes.Informer().HasSynced) {
		return nil
	}
	tick := time.NewTicker(c.options.Period)
	defer tick.Stop()
	for {
		c.pass(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// pass looks at all nodes once. What fails is tried again by the next.
func (c *Controller) pass(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx)
	settings := c.options.Settings()
	present, err := c.options.Nodes.Lister().List(labels.Everything())
	if err != nil {
		log.Error(err, "Listing nodes")
		return
	}
	own, err := c.options.Self()
	if err != nil {
		log.Error(err, "The machine of this replica is not known; no machine is turned off")
		return
	}
	c.load(ctx, settings)
	nodes, s := c.look(present, own, settings)
	if settings.Enabled && s.silent > 0 {
		c.ask(ctx, nodes)
	}
	s.answering = c.answering
	now := time.Now()
	actions, held := plan(nodes, s, settings, now)
	c.metrics.holds(held)
	c.say(present, held)
	for _, action := range actions {
		if err := c.note(ctx, action, now); err != nil {
			if action.kind == turnOff {
				c.metrics.attempt(err)
			}
			c.complain(ctx, err)
			return
		}
		if action.kind == turnOff {
			c.begin(ctx, action, settings)
		}
	}
}

// load reads the record, if it is needed and not known. It is read when this replica begins, and after a write that failed.
func (c *Controller) load(ctx context.Context, settings Settings) {
	c.mu.Lock()
	known := c.record != nil
	c.mu.Unlock()
	if known || !settings.Enabled {
		return
	}
	record, err := c.store.read(ctx, time.Now())
	if err != nil {
		c.complain(ctx, err)
		return
	}
	c.mu.Lock()
	c.record = &record
	c.mu.Unlock()
}

// complain logs that the record is not to be had, once for each reason.
func (c *Controller) complain(ctx context.Context, err error) {
	if ctx.Err() == nil && c.complaint != err.Error() {
		c.complaint = err.Error()
		logr.FromContextOrDiscard(ctx).Error(err, "No machine is turned off without a record of it; trying again")
	}
}

// note records an action before it is taken. A machine is turned off only if the API server has stored the decision: other leaders see it,
// and nothing is turned off in a dry run, whose writes are refused.
func (c *Controller) note(ctx context.Context, action action, now time.Time) error {
	c.mu.Lock()
	record := c.record
	c.mu.Unlock()
	if record == nil {
		return errOutdated
	}
	next := action.of(*record, now, c.options.Known)
	err := c.store.write(ctx, next, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record = &next; err != nil {
		c.record = nil // it may have been written all the same
	}
	return err
}

// Fenced reports whether a machine was turned off here, or is being, and its node has not been ready since, as far as is known.
func (c *Controller) Fenced(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return false
	}
	_, attempted := c.record.of(id)
	return attempted
}

// look returns what matters of nodes, and of all of them together. It remembers since when each is silent.
func (c *Controller) look(present []*v1.Node, own self.Replica, settings Settings) ([]facts, situation) {
	c.mu.Lock()
	s := situation{attempting: c.attempting, unrecorded: c.record == nil, ownKnown: settings.OutsideCluster}
	var record attempts
	if c.record != nil {
		record = *c.record
		s.lastAttempt = record.Last
	}
	c.mu.Unlock() // node groups, which Observe asks, ask what was fenced
	now, silentSince := time.Now(), map[types.UID]time.Time{}
	all, claims := make([]facts, 0, len(present)), map[string][]string{}
	for _, node := range present {
		claims[node.Name] = c.options.Claims(node)
		if named := c.options.Named(node.Name); named != nil && !slices.Contains(claims[node.Name], named.ID) {
			claims[node.Name] = append(claims[node.Name], named.ID)
		}
	}
	c.twins = twinsOf(claims)
	for _, node := range present {
		f := factsOf(node, c.options.Named(node.Name), c.options.Observe(node).VerifiedPower(), own.Is(node))
		f.twins = c.twins[f.Name]
		f.attempt, f.attempted = record.of(f.machine)
		if f.machine != "" { // what is said of other nodes is their kubelets' word
			s.nodes++
			s.ownKnown = s.ownKnown || f.own
		}
		if f.Silent {
			if f.machine != "" {
				s.silent++
			}
			silentSince[f.UID] = since(c.silentSince[f.UID], node, now)
			f.silentSince = silentSince[f.UID]
		}
		all = append(all, f)
	}
	c.silentSince = silentSince
	return all, s
}

// since returns since when a node is silent: since a pass first saw it, or since it last changed, whichever is later.
func since(seen time.Time, node *v1.Node, now time.Time) time.Time {
	if seen.IsZero() {
		return now
	}
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		if condition.Type == v1.NodeReady && condition.LastTransitionTime.After(seen) {
			return now
		}
	}
	return seen
}

// ask has the API server answer for one silent node, so it is known to be reachable: nodes fall silent together when it is not.
func (c *Controller) ask(ctx context.Context, nodes []facts) {
	for _, node := range nodes {
		if !node.Silent || node.machine == "" {
			continue
		}
		if _, err := c.writer.read(ctx, node.Name); err != nil {
			c.answering = time.Time{}
			return
		}
		now := time.Now()
		if c.answering.IsZero() || now.Sub(c.answered) > maxPause*c.options.Period {
			c.answering = now
		}
		c.answered = now
		return
	}
}

// begin starts an attempt, beside the passes: it may take long, and others are looked after meanwhile.
func (c *Controller) begin(ctx context.Context, action action, settings Settings) {
	c.mu.Lock()
	c.attempting = true
	c.mu.Unlock()
	c.attempts.Go(func() {
		err := c.writer.fence(ctx, action, settings.Timeout)
		c.finish(ctx, action, err)
	})
}

// finish notes what became of an attempt.
func (c *Controller) finish(ctx context.Context, action action, err error) {
	log := logr.FromContextOrDiscard(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempting = false
	c.metrics.attempt(err)
	switch {
	case err == nil:
		log.Info("The machine of a silent node was turned off", "node", action.node.Name)
	case !errors.Is(err, errOutdated):
		log.Error(err, "The machine of a silent node could not be turned off; trying again", "node", action.node.Name)
	}
}

// say records on nodes why their machines are not turned off, if that stays until the operator acts.
func (c *Controller) say(present []*v1.Node, held map[string]holdReason) {
	recorded := map[types.UID]holdReason{}
	for _, node := range present {
		why := held[node.Name]
		message, lasting := heldMessages[why]
		if !lasting {
			continue
		}
		recorded[node.UID] = why
		if c.recorded[node.UID] != why {
			if why == heldTwins {
				message = fmt.Sprintf("%s: %s", message, strings.Join(c.twins[node.Name][:min(len(c.twins[node.Name]), mostTwins)], ", "))
			}
			c.options.Recorder.Event(node, v1.EventTypeWarning, ReasonFencingHeld, "The node is silent and its machine is not turned off: "+message)
		}
	}
	c.recorded = recorded
}

// heldMessages say what holds a power-off that does not go away by itself.
var heldMessages = map[holdReason]string{
	heldControl:    "it is a node of the control plane",
	heldUnverified: "its BMC does not name the machine by its system UUID",
	heldOwn:        "this replica runs on it",
	heldOwnUnknown: "this replica does not know which node it runs on; set NODE_NAME in its pod, or fence.outsideCluster",
	heldTooMany:    "more nodes are silent than fence.maxUnknownPercent allows",
	heldUnproven:   "its machine is not proven: the inventory gives no machine the node's name, or the node has not its provider ID",
	heldTwins:      "another node says that it is the same machine",
	heldUnrecorded: "the record of attempts cannot be read, see the log",
	heldFenced:     "it was turned off before and has power again, but the node has not been ready since",
}
