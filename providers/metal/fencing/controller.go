package fencing

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/providers/metal/nodepatch"
	metalpower "github.com/mooring-ccm/mooring/providers/metal/power"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

const (
	// defaultPeriod is the time between two passes.
	defaultPeriod = 5 * time.Second
	// maxPause is how many periods may lie between two answers of the API server without its silence being assumed.
	maxPause = 4
	// minBackoff and maxBackoff are how long a machine is left alone after one attempt that failed, and after many.
	minBackoff, maxBackoff = time.Minute, 10 * time.Minute
)

// TurnOff turns the machine of a node off, and returns nil once that is confirmed.
type TurnOff func(ctx context.Context, node *v1.Node) error

// Options are what the controller works with. All but Registerer and Period are required.
type Options struct {
	// Client reads and annotates nodes.
	Client corev1client.NodesGetter
	// Nodes delivers them. Its factory is started by the caller.
	Nodes coreinformers.NodeInformer
	// Recorder records events on nodes.
	Recorder record.EventRecorder
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

	// silentSince is by the UIDs of nodes, and recorded what their last event said; both are of the passes alone.
	silentSince map[types.UID]time.Time
	recorded    map[types.UID]hold
	// answering and answered are since when the API server has answered, and when it last has.
	answering, answered time.Time

	attempts sync.WaitGroup
	mu       sync.Mutex
	// attempting says that an attempt goes on, and last when one began.
	attempting bool
	last       time.Time
	failures   map[types.UID]failure
}

// failure is what became of attempts at one machine.
type failure struct {
	count     int
	notBefore time.Time
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := required.Check("fencing controller",
		required.Option{Name: "Client", Missing: options.Client == nil}, required.Option{Name: "Nodes", Missing: options.Nodes == nil},
		required.Option{Name: "Recorder", Missing: options.Recorder == nil}, required.Option{Name: "Observe", Missing: options.Observe == nil},
		required.Option{Name: "TurnOff", Missing: options.TurnOff == nil}, required.Option{Name: "Self", Missing: options.Self == nil},
		required.Option{Name: "Settings", Missing: options.Settings == nil},
	); err != nil {
		return nil, err
	}
	if options.Period == 0 {
		options.Period = defaultPeriod
	}
	return &Controller{
		options: options, writer: writer{nodes: options.Client, recorder: options.Recorder, turnOff: options.TurnOff},
		metrics: newMetrics(options.Registerer), silentSince: map[types.UID]time.Time{}, recorded: map[types.UID]hold{},
		failures: map[types.UID]failure{},
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
	nodes, s := c.look(present, own, settings)
	if settings.Enabled && s.silent > 0 {
		c.ask(ctx, nodes)
	}
	s.answering = c.answering
	now := time.Now()
	actions, held := plan(nodes, s, settings, now)
	c.metrics.holds(held)
	c.record(present, held)
	for _, action := range actions {
		if action.kind == turnOff {
			c.begin(ctx, action, settings, now)
			continue
		}
		if err := c.writer.mark(ctx, action, now); err != nil && !errors.Is(err, nodepatch.ErrOutdated) && ctx.Err() == nil {
			log.Error(err, "A node could not be annotated; trying again", "node", action.node.Name)
		}
	}
}

// look returns what matters of nodes, and of all of them together. It remembers since when each is silent.
func (c *Controller) look(present []*v1.Node, own self.Replica, settings Settings) ([]facts, situation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := situation{nodes: len(present), attempting: c.attempting, lastAttempt: c.last, ownKnown: settings.OutsideCluster}
	now, silentSince := time.Now(), map[types.UID]time.Time{}
	failures := map[types.UID]failure{}
	all := make([]facts, 0, len(present))
	for _, node := range present {
		f := factsOf(node, c.options.Observe(node).VerifiedPower(), own.Is(node))
		s.ownKnown = s.ownKnown || f.own
		if f.Silent {
			s.silent++
			silentSince[f.UID] = since(c.silentSince[f.UID], node, now)
			f.silentSince = silentSince[f.UID]
		}
		if failed, ok := c.failures[f.UID]; ok && !f.Ready {
			failures[f.UID], f.notBefore = failed, failed.notBefore
		}
		if f.attempted.After(s.lastAttempt) {
			s.lastAttempt = f.attempted
		}
		all = append(all, f)
	}
	c.silentSince, c.failures = silentSince, failures
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

// ask has the API server answer for one silent node, so that it is known to be reachable: nodes fall silent together when it is not.
func (c *Controller) ask(ctx context.Context, nodes []facts) {
	for _, node := range nodes {
		if !node.Silent {
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
func (c *Controller) begin(ctx context.Context, action action, settings Settings, now time.Time) {
	c.mu.Lock()
	c.attempting, c.last = true, now
	c.mu.Unlock()
	c.attempts.Go(func() {
		err := c.writer.fence(ctx, action, settings.Timeout, now)
		c.finish(ctx, action, err)
	})
}

// finish notes what became of an attempt.
func (c *Controller) finish(ctx context.Context, action action, err error) {
	log := logr.FromContextOrDiscard(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempting = false
	switch {
	case err == nil:
		delete(c.failures, action.node.UID)
		c.metrics.attempts.WithLabelValues("succeeded").Inc()
		log.Info("The machine of a silent node was turned off", "node", action.node.Name)
	case errors.Is(err, nodepatch.ErrOutdated):
		c.metrics.attempts.WithLabelValues("outdated").Inc()
	default:
		failed := c.failures[action.node.UID]
		failed.notBefore = time.Now().Add(min(minBackoff<<min(failed.count, 8), maxBackoff))
		failed.count++
		c.failures[action.node.UID] = failed
		c.metrics.attempts.WithLabelValues("failed").Inc()
		log.Error(err, "The machine of a silent node could not be turned off; trying again", "node", action.node.Name)
	}
}

// record records on nodes why their machines are not turned off, where that stays until somebody does something.
func (c *Controller) record(present []*v1.Node, held map[string]hold) {
	recorded := map[types.UID]hold{}
	for _, node := range present {
		why := held[node.Name]
		message, lasting := heldMessages[why]
		if !lasting {
			continue
		}
		recorded[node.UID] = why
		if c.recorded[node.UID] != why {
			c.options.Recorder.Event(node, v1.EventTypeWarning, ReasonFencingHeld, "The node is silent and its machine is not turned off: "+message)
		}
	}
	c.recorded = recorded
}

// heldMessages say what holds a power-off that does not go away by itself.
var heldMessages = map[hold]string{
	heldControl:    "it is a node of the control plane",
	heldUnverified: "its BMC does not name the machine by its system UUID",
	heldOwn:        "this replica runs on it",
	heldOwnUnknown: "this replica does not know which node it runs on; set NODE_NAME in its pod, or fence.outsideCluster",
	heldTooMany:    "more nodes are silent than fence.maxUnknownPercent allows",
	heldFenced:     "it was turned off before and has power again, but the node has not been ready since",
}
