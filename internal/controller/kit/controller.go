package kit

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ControllerOptions are what a Controller is made of. Reconciler and Sources are required.
type ControllerOptions struct {
	// Reconciler works on the objects of the queue.
	Reconciler reconcile.Reconciler
	// Sources fill the queue.
	Sources []source.Source
	// Workers is how many objects are worked on at once. Zero: one.
	Workers int
	// RateLimiter says when an object is tried again. Nil: controller-runtime's default.
	RateLimiter workqueue.TypedRateLimiter[reconcile.Request]
	// Logger is what the controller logs to.
	Logger logr.Logger
	// LoggerFor names the object that is worked on in what is logged about it. Nil: it is not named.
	LoggerFor func(object types.NamespacedName) logr.Logger
}

// Controller is a controller-runtime controller as ours are: its queue has priorities and is filled before this process leads. It
// is a Runnable that needs leader election and warms up without.
type Controller struct {
	inner ctrl.Controller
	// warming holds an element during a warm-up.
	warming chan struct{}
}

// NewController returns a controller that has not started yet.
func NewController(name string, options ControllerOptions) (*Controller, error) {
	yes := true
	inner, err := ctrl.NewUnmanaged(name, ctrl.Options{
		Reconciler:              options.Reconciler,
		MaxConcurrentReconciles: options.Workers,
		RateLimiter:             options.RateLimiter,
		UsePriorityQueue:        &yes,
		EnableWarmup:            &yes,
		NeedLeaderElection:      &yes,
		RecoverPanic:            &yes,
		SkipNameValidation:      &yes, // that is for metrics; a test may run two in one process
		LogConstructor: func(request *reconcile.Request) logr.Logger {
			if request == nil || options.LoggerFor == nil {
				return options.Logger
			}
			return options.LoggerFor(request.NamespacedName)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building the controller %s: %w", name, err)
	}
	for _, source := range options.Sources {
		if err := inner.Watch(source); err != nil {
			return nil, fmt.Errorf("adding a watch to the controller %s: %w", name, err)
		}
	}
	return &Controller{inner: inner, warming: make(chan struct{}, 1)}, nil
}

// Start works until ctx ends.
func (c *Controller) Start(ctx context.Context) error {
	if err := c.Warmup(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return c.inner.Start(ctx)
}

// Warmup fills the queue before this process leads: a new leader begins with the objects that wait. Start waits for a warm-up that is under
// way, as in controller-runtime. A mutex does this there, and the clock of virtual time stands still while a goroutine waits for a mutex.
func (c *Controller) Warmup(ctx context.Context) error {
	warm, ok := c.inner.(interface{ Warmup(context.Context) error })
	if !ok {
		return nil
	}
	select {
	case c.warming <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-c.warming }()
	return warm.Warmup(ctx)
}

// NeedLeaderElection says that Start runs on the leader only.
func (c *Controller) NeedLeaderElection() bool { return true }

// Queue is what watches add to.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Add adds an object to a controller's queue with a priority. A queue without priorities takes it in its turn.
func Add(q Queue, object types.NamespacedName, priority int) {
	request := reconcile.Request{NamespacedName: object}
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}

// Enqueuer adds to a controller's queue from outside its watches. The zero value has no queue yet and adds nothing.
type Enqueuer struct {
	queue atomic.Pointer[Queue]
}

// Capture is a source of the controller, by which its queue becomes known.
func (e *Enqueuer) Capture(_ context.Context, q Queue) error {
	e.queue.Store(&q)
	return nil
}

// Queue returns the controller's queue, nil before the controller has started or warmed up.
func (e *Enqueuer) Queue() Queue {
	if q := e.queue.Load(); q != nil {
		return *q
	}
	return nil
}

// Add adds an object with a priority.
func (e *Enqueuer) Add(object types.NamespacedName, priority int) {
	if q := e.Queue(); q != nil {
		Add(q, object, priority)
	}
}
