package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
	"github.com/mooring-ccm/mooring/internal/priorityqueue"
)

// Name is the controller's name, as in the reference.
const Name = "cloud-node-controller"

// Options are what the controller works with. Client, Cache, Recorder and Inventory are required.
type Options struct {
	// Client reads from Cache and writes with the controller's identity.
	Client client.Client
	// LiveReader reads from the API server, not from Cache. It is asked who else writes a field of a node. Nil: nobody is named.
	LiveReader client.Reader
	// Cache delivers the watch of nodes.
	Cache cache.Cache
	// Recorder records events on nodes, from the component cloud-node-controller.
	Recorder record.EventRecorder
	// Inventory knows the cloud's instances.
	Inventory *inventory.Inventory
	// Ownership says which nodes are ours.
	Ownership ownership.Rules
	// StatusUpdateFrequency is how often all initialised nodes are compared with the cloud. Zero:
	// DefaultStatusUpdateFrequency.
	StatusUpdateFrequency time.Duration
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
	// DefaultWorkers is enough for the API server, or a cloud that is asked node by node, to be what a mass join waits for: as
	// many as calls to the cloud may be under way. Workers that have nothing to do cost nothing.
	DefaultWorkers = 64
)

// Controller initialises and refreshes nodes. It is a controller-runtime Runnable that needs leader election and warms up
// without.
type Controller struct {
	inner      ctrl.Controller
	reconciler *reconciler
	refresher  *refresher
	inventory  *inventory.Inventory
	log        logr.Logger
}

// New returns a controller that has not started yet. All options that are missing are named in one error.
func New(options Options) (*Controller, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	metrics, traces := newMetrics(options.Registerer), newTraces(options.TracerProvider)
	log := options.Logger.WithValues("controller", Name)
	reconciler := &reconciler{
		reader: options.Client, live: options.LiveReader, writer: writer{client: options.Client, traces: traces}, recorder: options.Recorder,
		inventory: options.Inventory, rules: options.Ownership, evidence: &ownership.Evidence{},
		memory: newMemory(), metrics: metrics, traces: traces, known: 2 * options.StatusUpdateFrequency,
	}
	refresher := &refresher{
		interval: options.StatusUpdateFrequency, reader: options.Client, inventory: options.Inventory,
		reconciler: reconciler, metrics: metrics, log: log, queued: make(chan queue, 1),
		asked: map[types.UID]bool{}, failed: map[types.UID]error{},
	}
	inner, err := newInner(reconciler, options.Workers, log)
	if err != nil {
		return nil, fmt.Errorf("building the node controller: %w", err)
	}
	watcher := watcher{judge: reconciler.judge, memory: reconciler.memory, metrics: metrics, traces: traces}
	for _, source := range []source.Source{
		source.Kind(options.Cache, &corev1.Node{}, watcher.handler()),
		source.Func(refresher.capture),
	} {
		if err := inner.Watch(source); err != nil {
			return nil, fmt.Errorf("watching nodes: %w", err)
		}
	}
	return &Controller{inner: inner, reconciler: reconciler, refresher: refresher, inventory: options.Inventory, log: log}, nil
}

// newInner returns the controller-runtime controller with a priority queue that is filled before this process leads.
func newInner(reconciler *reconciler, workers int, log logr.Logger) (ctrl.Controller, error) {
	yes := true
	return ctrl.NewUnmanaged(Name, ctrl.Options{
		Reconciler:              reconciler,
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstDelay, maxDelay),
		NewQueue:                priorityqueue.New,
		EnableWarmup:            &yes,
		NeedLeaderElection:      &yes,
		RecoverPanic:            &yes,
		SkipNameValidation:      &yes, // that is for metrics; a test may run two in one process
		LogConstructor: func(request *reconcile.Request) logr.Logger {
			if request == nil {
				return log
			}
			return log.WithValues("node", request.Name)
		},
	})
}

// complete fills in defaults and returns what is missing.
func (o *Options) complete() error {
	var missing []error
	for _, required := range []struct {
		name   string
		absent bool
	}{
		{"Client", o.Client == nil}, {"Cache", o.Cache == nil}, {"Recorder", o.Recorder == nil}, {"Inventory", o.Inventory == nil},
	} {
		if required.absent {
			missing = append(missing, fmt.Errorf("the node controller's option %s is required", required.name))
		}
	}
	if o.StatusUpdateFrequency < 0 {
		missing = append(missing, fmt.Errorf("the node controller's option StatusUpdateFrequency is %s, want more than 0",
			o.StatusUpdateFrequency))
	}
	if o.StatusUpdateFrequency == 0 {
		o.StatusUpdateFrequency = DefaultStatusUpdateFrequency
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	return errors.Join(missing...)
}

// Start works until ctx ends. With a plugin that cannot be asked about instances it says so and does nothing, as the
// reference does: such a plugin may have been built for load balancers only.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.inventory.Supported(); err != nil {
		c.log.Info("Nodes are not initialised by this process", "reason", err.Error())
		<-ctx.Done()
		return nil
	}
	c.reconciler.led = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var refreshing sync.WaitGroup
	defer c.reconciler.traces.stop()
	defer refreshing.Wait()
	defer cancel()
	refreshing.Go(func() { c.refresher.run(ctx) })
	return c.inner.Start(ctx)
}

// Warmup fills the queue before this process leads, so that a new leader begins with the nodes that wait.
func (c *Controller) Warmup(ctx context.Context) error {
	warm, ok := c.inner.(interface{ Warmup(context.Context) error })
	if !ok {
		return nil
	}
	return warm.Warmup(ctx)
}

// NeedLeaderElection says that Start runs on the leader only.
func (c *Controller) NeedLeaderElection() bool { return true }
