package kit

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
