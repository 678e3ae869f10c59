package kit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// endingQueue is a priority queue that nobody waits at when it is shut down.
//
// The one of controller-runtime v0.24 hands out an item to a worker that waits with all its locks held. When it is shut down in
// that moment, the worker may be gone already: the locks stay held, every other worker that reports an item as done waits for
// them, and the manager for the workers, until its grace period is over and it ends with an error
// (https://github.com/kubernetes-sigs/controller-runtime/issues/3538). It is fixed in v0.25, which is for Kubernetes 1.37; with
// that version this type can go.
type endingQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	mu sync.Mutex
	// getting is how many workers wait for an item.
	getting  int
	stopping bool
}

// Queue is what watches add to.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// NewQueue returns the queue of a controller, as the option NewQueue of controller-runtime's controllers asks for.
func NewQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) Queue {
	return &endingQueue{PriorityQueue: priorityqueue.New(name, func(options *priorityqueue.Opts[reconcile.Request]) {
		options.RateLimiter = limiter
	})}
}

// GetWithPriority waits for an item, or for the shutdown.
func (q *endingQueue) GetWithPriority() (item reconcile.Request, priority int, shutdown bool) {
	q.mu.Lock()
	if q.stopping {
		q.mu.Unlock()
		return reconcile.Request{}, 0, true
	}
	q.getting++
	q.mu.Unlock()

	item, priority, _ = q.PriorityQueue.GetWithPriority()

	q.mu.Lock()
	defer q.mu.Unlock()
	q.getting--
	if !q.stopping {
		return item, priority, false
	}
	if q.getting == 0 {
		q.PriorityQueue.ShutDown()
	}
	return reconcile.Request{}, 0, true
}

// Get waits for an item, or for the shutdown.
func (q *endingQueue) Get() (item reconcile.Request, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// ShutDown lets nobody have an item any more. Those that wait for one get something to leave with; when the last one has left,
// the queue is shut down.
func (q *endingQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopping {
		return
	}
	q.stopping = true
	if q.getting == 0 {
		q.PriorityQueue.ShutDown()
		return
	}
	for number := range q.getting {
		q.Add(farewell(number))
	}
}

// farewell is an item that stands for no object: no name has a blank in it.
func farewell(number int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprintf("shutting down %d", number)}}
}

// ShutDownWithDrain is ShutDown, as in the queue that this one is made of: items that nobody has begun are left.
func (q *endingQueue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *endingQueue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopping
}

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
