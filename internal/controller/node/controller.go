// Package node is the node controller. It initializes nodes that carry the taint
// node.cloudprovider.kubernetes.io/uninitialized from what the cloud says of their instances, and keeps nodes as the cloud
// says afterwards.
//
// Data flows one way. A watch event or the periodic refresh (watch.go) puts a node's name into the queue;
// reconcile.go looks the node and its instance up; desired.go and plan.go decide; apply.go writes; and reconcile.go turns how it
// ended into events, metrics and the time of the next try, by the names of failures in reasons.go. When nodes are looked up again that need nothing is decided by the package pace,
// and whose values of labels may be changed in writers.go.
package node

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// Name is the controller's name, as in the reference.
const Name = "cloud-node-controller"

// Options are what the controller works with. Client, Cache, Recorder and Inventory are required.
type Options struct {
	// Client reads from Cache and writes with the controller's identity.
	Client client.Client
	// LiveReader reads from the API server, not from Cache. It is asked who wrote a label of a node. Nil: others did.
	LiveReader client.Reader
	// LabelManagers are the field managers that this controller takes over from. It may change their values of labels, beside its own.
	LabelManagers []string
	// Cache delivers the watch of nodes.
	Cache cache.Cache
	// Recorder records events on nodes, from the component cloud-node-controller.
	Recorder record.EventRecorder
	// Inventory knows the cloud's instances.
	Inventory *instances.Inventory
	// Owners says which nodes are ours.
	Owners ownership.Rules
	// Whole reports whether Cache holds all that the API server has of a node, except for managedFields. The controller may then update the node
	// instead of patching it, which is cheaper. Nil: it holds no node completely.
	Whole func(*corev1.Node) bool
	// StatusUpdateFrequency is how often all initialized nodes are compared with the cloud. Zero:
	// DefaultStatusUpdateFrequency.
	StatusUpdateFrequency time.Duration
	// FullRefreshPeriod is within which each initialized node is compared with the cloud if that is a call for each node and nothing
	// happens to them. No longer than StatusUpdateFrequency: all are, once per StatusUpdateFrequency. Zero: DefaultFullRefreshPeriod.
	FullRefreshPeriod time.Duration
	// Workers is how many nodes are worked on at once. Zero: DefaultWorkers.
	Workers int
	// TracerProvider takes a trace of each node that joins. Nil: there are none.
	TracerProvider trace.TracerProvider
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the controller logs to.
	Logger logr.Logger
}

const (
	// DefaultStatusUpdateFrequency is the reference's --node-status-update-frequency.
	DefaultStatusUpdateFrequency = 5 * time.Minute
	// DefaultFullRefreshPeriod makes less than 1,000 calls an hour of 5,000 nodes to which nothing happens.
	DefaultFullRefreshPeriod = 6 * time.Hour
	// DefaultWorkers is large enough: a mass join waits only for the API server, or for a cloud that is asked node by node. It is twice the number of
	// concurrent calls of the cloud. While one half of the workers waits for the cloud, the other half can write. More concurrent writes also cost
	// client and server less for each, because several share a system call. Idle workers cost nothing.
	DefaultWorkers = 128
)

// Controller initializes and refreshes nodes. It is a controller-runtime Runnable that needs leader election and warms up
// without.
type Controller struct {
	*kit.Controller
	reconciler *reconciler
	refresher  interface{ run(ctx context.Context) }
	inventory  *instances.Inventory
	log        logr.Logger
}

// New returns a controller that has not started yet.
func New(options Options) (*Controller, error) {
	options.FullRefreshPeriod = cmp.Or(options.FullRefreshPeriod, DefaultFullRefreshPeriod)
	options.StatusUpdateFrequency = cmp.Or(options.StatusUpdateFrequency, DefaultStatusUpdateFrequency)
	options.Workers = cmp.Or(options.Workers, DefaultWorkers)
	log := options.Logger.WithValues("controller", Name)
	reconciler := newReconciler(options)
	watcher := watcher{reconciler: reconciler}
	controller := &Controller{reconciler: reconciler, inventory: options.Inventory, log: log}
	if options.oneByOne() {
		watcher.single = newSingleRefresher(options, reconciler, log)
		controller.refresher = watcher.single
	} else {
		controller.refresher = &refresher{reconciler: reconciler, interval: options.StatusUpdateFrequency, log: log}
	}
	inner, err := kit.NewController(Name, kit.ControllerOptions{
		Reconciler: reconciler, Workers: options.Workers, Logger: log,
		LoggerFor:   func(node types.NamespacedName) logr.Logger { return log.WithValues("node", node.Name) },
		RateLimiter: kit.NewRetryLimiter[reconcile.Request](),
		Sources:     []source.Source{source.Kind(options.Cache, &corev1.Node{}, watcher.handler()), source.Func(reconciler.queue.Capture)},
	})
	if err != nil {
		return nil, err
	}
	controller.Controller = inner
	return controller, nil
}

// newReconciler wires what makes the passes. It remembers nothing of any node yet.
func newReconciler(options Options) *reconciler {
	state, traces := newState(), newTraces(options.TracerProvider)
	return &reconciler{
		reader: options.Client, live: options.LiveReader, managers: managersOf(options.LabelManagers),
		writer: writer{client: options.Client, traces: traces, whole: options.Whole}, recorder: options.Recorder,
		inventory: options.Inventory, owners: options.Owners,
		state: state, metrics: newMetrics(options.Registerer, state.lasting), traces: traces, known: 2 * options.StatusUpdateFrequency,
	}
}

// managersOf returns the field managers that decide for the cloud.
func managersOf(others []string) map[string]bool {
	managers := map[string]bool{fieldManager: true}
	for _, name := range others {
		managers[name] = true
	}
	return managers
}

// oneByOne reports whether nodes are compared with the cloud one by one: each is a call, and not all of them are wanted each time.
func (o *Options) oneByOne() bool {
	return !o.Inventory.Lists() && o.FullRefreshPeriod > o.StatusUpdateFrequency
}

// Start works until ctx ends. With a plugin that cannot be asked about instances it says so and does nothing, as the
// reference does: such a plugin may have been built for load balancers only.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.inventory.Supported(); err != nil {
		c.log.Info("Nodes are not initialized by this process", "reason", err.Error())
		<-ctx.Done()
		return nil
	}
	c.reconciler.led = time.Now()
	c.reconciler.leads.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	var refreshing sync.WaitGroup
	defer c.reconciler.traces.stop()
	defer refreshing.Wait()
	defer cancel()
	if err := c.Warmup(ctx); err != nil || ctx.Err() != nil { // without a queue the refresher could add to none
		return err
	}
	refreshing.Go(func() { c.refresher.run(ctx) })
	return c.Controller.Start(ctx)
}
