package cloud

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Priority says which of the calls that wait for the cloud is let in first.
type Priority int32

// The priorities, from the lowest. A context without one has the zero value.
const (
	// PriorityRefresh is for what looks whether anything has changed. No object waits for it.
	PriorityRefresh Priority = iota - 1
	// PriorityUpdate is for changes of what exists: the targets of a load balancer, a route that points elsewhere.
	PriorityUpdate
	// PriorityNewObject is for what a new Service or a new route needs to come into being.
	PriorityNewObject
	// PriorityDeletion is for what goes: load balancers that cost money, and nodes whose Pods wait to be moved.
	PriorityDeletion
	// PriorityNewNode is for nodes that join. Nothing runs on them until the cloud has answered.
	PriorityNewNode
)

// String returns the priority as the label of a metric.
func (p Priority) String() string {
	switch p {
	case PriorityRefresh:
		return "refresh"
	case PriorityNewObject:
		return "new_object"
	case PriorityDeletion:
		return "deletion"
	case PriorityNewNode:
		return "new_node"
	default:
		return "update"
	}
}

// raises counts how often a priority was raised, so a queue sees that it has to sort again.
var raises atomic.Uint64

// request is what a context says of the calls that are made with it. Several askers may share one, see Join.
type request struct {
	priority atomic.Int32

	mu sync.Mutex
	// listeners want to know what the call waits for.
	listeners []func(reason string)
	// waiting is what the call waits for, empty unless it has waited for long.
	waiting string
	// asked is when the first call was let in, zero before.
	asked time.Time
}

// requestKey and noticeKey are the keys of a *request and of a listener in a context.
type (
	requestKey struct{}
	noticeKey  struct{}
)

// WithPriority returns a context whose calls to the cloud have the given priority. Join and Raise raise that context and those
// made from it, and no other.
func WithPriority(ctx context.Context, priority Priority) context.Context {
	r := &request{}
	r.priority.Store(int32(priority))
	if listener, ok := ctx.Value(noticeKey{}).(func(string)); ok {
		r.listeners = []func(string){listener}
	}
	return context.WithValue(ctx, requestKey{}, r)
}

// turn is the place in the queue of calls that follow each other.
type turn struct{ arrival atomic.Uint64 }

// turnKey is the key of a *turn in a context.
type turnKey struct{}

// InOneTurn returns a context whose calls wait in the place of the first of them, for a question that takes several calls: without it
// the second calls of many questions would follow all the first ones, so no question is answered before nearly all are.
func InOneTurn(ctx context.Context) context.Context {
	return context.WithValue(ctx, turnKey{}, &turn{})
}

// turnOf returns nil if each call is for itself.
func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	return t
}

// AskedAt returns when the first call was let in that was made with a context from WithPriority: what those calls returned is no older, however long they have waited in the queue. It is zero if none was.
func AskedAt(ctx context.Context) time.Time {
	r := requestOf(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// asks notes that a call was let in.
func (r *request) asks(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked.IsZero() {
		r.asked = at
	}
}

// WithNotice returns a context whose listener is called when a call waits for longer than a minute to be let in, and what
// it waits for: an operator who looks at the object shall find that there. The listener is called from another goroutine, at
// most once for each call, and must not block. WithPriority has to be called on the context that is returned, not before.
func WithNotice(ctx context.Context, listener func(reason string)) context.Context {
	return context.WithValue(ctx, noticeKey{}, listener)
}

func noticeOf(ctx context.Context) func(string) {
	listener, _ := ctx.Value(noticeKey{}).(func(string))
	return listener
}

// requestOf returns what a context says of its calls.
func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	r := &request{} // PriorityUpdate
	r.listen(noticeOf(ctx))
	return r
}

// PriorityOf returns the priority of calls with this context: PriorityUpdate unless it was given one.
func PriorityOf(ctx context.Context) Priority {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return Priority(r.priority.Load())
	}
	return PriorityUpdate
}

// Raise gives the calls of a context that came from WithPriority at least the given priority, waiting ones
// included.
func Raise(ctx context.Context, priority Priority) {
	r, ok := ctx.Value(requestKey{}).(*request)
	for ok {
		current := r.priority.Load()
		if Priority(current) >= priority {
			return
		}
		if r.priority.CompareAndSwap(current, int32(priority)) {
			raises.Add(1)
			return
		}
	}
}

// Join lets an asker share the call of another: the call gets the higher of both priorities, and the asker learns too what
// it waits for.
func Join(call, asker context.Context) {
	Raise(call, PriorityOf(asker))
	if r, ok := call.Value(requestKey{}).(*request); ok {
		r.listen(noticeOf(asker))
	}
}

// listen adds a listener, and calls it at once if the call waits already.
func (r *request) listen(listener func(string)) {
	if listener == nil {
		return
	}
	r.mu.Lock()
	r.listeners = append(r.listeners, listener)
	reason := r.waiting
	r.mu.Unlock()
	if reason != "" {
		listener(reason)
	}
}

// waits calls all listeners with what the call waits for; an empty reason is that it waits no more.
func (r *request) waits(reason string) {
	r.mu.Lock()
	r.waiting = reason
	listeners := r.listeners
	r.mu.Unlock()
	if reason == "" {
		return
	}
	for _, listener := range listeners {
		listener(reason)
	}
}
