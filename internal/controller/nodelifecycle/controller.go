// Package nodelifecycle is the node lifecycle controller. It deletes nodes whose instances are gone from the cloud, and taints
// nodes whose instances are shut down.
//
// Data flows one way, once per period. dirtynodes.go says when a pass is due. pass.go reads the nodes from the cache, and nodes.go says whose they
// are. observe.go asks the cloud about nodes that are not ready; when, says package nodeview. desired.go decides by that answer what each node shall be. plan.go decides what may
// be done about it: it holds the guard that keeps a wrong "not found" from deleting nodes. deletionlog.go records deletions before they happen, so a
// restart does not forget them. apply.go carries the plan out.
package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// Name is the controller's name, as in the reference.
const Name = "cloud-node-lifecycle-controller"

const (
	// DefaultWindow is the time over which deletions are counted.
	DefaultWindow = 10 * time.Minute
	// workers is how many nodes are written to at once.
	workers = 32
)

// DefaultSettings are those of the flags.
func DefaultSettings() Settings {
	return Settings{
		Confirmations: 2,
		MinAge:        2 * time.Minute,
		MinDenialTime: 10 * time.Second,
		Limit:         Limit{Percent: 25},
		Window:        DefaultWindow,
	}
}

// Options are what the controller works with. Client, Cache, Recorder, Inventory and DeletionLog are required.
type Options struct {
	// Client reads from Cache and writes with the controller's identity.
	Client client.Client
	// Cache delivers the nodes.
	Cache cache.Cache
	// Recorder records events on nodes, from the component cloud-node-lifecycle-controller.
	Recorder record.EventRecorder
	// Inventory knows the cloud's instances.
	Inventory *instances.Inventory
	// Owners knows which nodes are ours.
	Owners ownership.Rules
	// DeletionLog remembers deletions beyond the life of this process. It must not be used by anybody else.
	DeletionLog *DeletionLog
	// Settings are what the operator decides. Confirmations must be positive. Window is DefaultWindow if it is zero.
	Settings Settings
	// Period is the longest time between two passes over all nodes. Zero: DefaultPeriod.
	Period time.Duration
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger
}

// Controller deletes and taints nodes as the cloud says of their instances. It is a controller-runtime Runnable that needs
// leader election and warms up without.
type Controller struct {
	cache      cache.Cache
	inventory  *instances.Inventory
	reconciler *reconciler
	period     time.Duration
	log        logr.Logger
}

// New returns a controller that has not started yet.
func New(options Options) *Controller {
	options.Settings.Window = cmp.Or(options.Settings.Window, DefaultWindow)
	options.Period = cmp.Or(options.Period, DefaultPeriod)
	dirtyNodes := newDirtyNodes(options.Owners)
	writer := writer{
		client: options.Client, recorder: options.Recorder, limiter: &kit.EventLimiter{}, settings: options.Settings,
		deletionLog: options.DeletionLog.String(), limit: workers,
	}
	reconciler := &reconciler{
		reader: options.Client, dirtyNodes: dirtyNodes, deletionLog: options.DeletionLog, settings: options.Settings,
		metrics:  newMetrics(options.Registerer),
		rules:    options.Owners,
		observer: newObserver(options.Inventory, options.Settings, options.Period, dirtyNodes.trigger, writer.recordWaiting),
		writes:   newWrites(writer),
		guard:    guard{historyUnknown: true}, state: nodeState{},
	}
	return &Controller{
		cache: options.Cache, inventory: options.Inventory, reconciler: reconciler, period: options.Period,
		log: options.Logger.WithValues("controller", Name),
	}
}

// Set parses a share such as "25%" or a number such as "10". It makes a Limit the value of a flag.
func (l *Limit) Set(text string) error {
	digits, share := strings.CutSuffix(text, "%")
	number, err := strconv.Atoi(digits)
	switch {
	case err != nil || number < 0:
		return fmt.Errorf("%q is neither a share of the nodes such as 25%% nor a number of nodes such as 10", text)
	case share && number > 100:
		return fmt.Errorf("%q is more than all nodes: 100%% switches the limit off", text)
	case share:
		*l = Limit{Percent: number}
	default:
		*l = Limit{Count: number}
	}
	return nil
}

// String returns the limit in the form that Set parses.
func (l Limit) String() string {
	if l.Percent > 0 {
		return strconv.Itoa(l.Percent) + "%"
	}
	return strconv.Itoa(l.Count)
}

// Type names the type in a command's help.
func (l *Limit) Type() string { return "limit" }

// Start makes passes until ctx ends. With a plugin that cannot be asked about instances it says so and does nothing, as the
// reference does: such a plugin may have been built for load balancers only.
func (c *Controller) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, c.log)
	if err := c.inventory.Supported(); err != nil {
		c.log.Info("This process does not handle nodes of missing or stopped instances", "reason", err.Error())
		<-ctx.Done()
		return nil
	}
	if err := c.reconciler.dirtyNodes.watch(ctx, c.cache); err != nil {
		return err
	}
	for ctx.Err() == nil {
		again := c.reconciler.pass(ctx)
		await(ctx, c.period, c.reconciler.dirtyNodes.due, again) // from the end of the pass: a slow cloud is not asked without pause
	}
	c.reconciler.writes.running.Wait()
	return nil
}

// Warmup fills the cache of nodes before this process leads.
func (c *Controller) Warmup(ctx context.Context) error {
	return c.reconciler.dirtyNodes.watch(ctx, c.cache)
}

// NeedLeaderElection says that Start runs on the leader only.
func (c *Controller) NeedLeaderElection() bool { return true }
