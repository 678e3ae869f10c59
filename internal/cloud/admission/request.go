package admission

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

// Request is what a context says of the calls that are made with it.
type Request struct {
	*shared
	turn *turn // nil: each call is for itself
}

// shared is what several askers may share, see Join.
type shared struct {
	priority atomic.Int32
	// asked is when the first call was let in, nil before.
	asked atomic.Pointer[time.Time]

	mu sync.Mutex
	// listeners want to know what the call waits for.
	listeners []func(reason string)
	// waiting is what the call waits for, empty unless it has waited for long.
	waiting string
}

// turn is the place in the queue of calls that follow each other.
type turn struct{ arrival atomic.Uint64 }

// requestKey is the key of a *Request in a context.
type requestKey struct{}

// RequestOf returns what a context says of its calls: PriorityUpdate unless it was given a priority.
func RequestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return &Request{shared: &shared{}}
}

// WithPriority returns a context whose calls to the cloud have the given priority. Join and Raise raise that context and those
// made from it, and no other. A listener is called when a call waits for longer than a minute to be let in, with what it waits for: an
// operator who looks at the object shall find that there. It is called from another goroutine, at most once for each call, and must not block.
func WithPriority(ctx context.Context, priority Priority, listeners ...func(reason string)) context.Context {
	own := &shared{listeners: append(RequestOf(ctx).listening(), listeners...)}
	own.priority.Store(int32(priority))
	return context.WithValue(ctx, requestKey{}, &Request{shared: own})
}

// Apart returns a context for a call that others may join, see Join: it is as urgent as ctx, has its listeners and does not end with it.
func Apart(ctx context.Context) context.Context {
	asker := RequestOf(ctx)
	own := &shared{listeners: asker.listening()}
	own.priority.Store(asker.priority.Load())
	return context.WithValue(context.WithoutCancel(ctx), requestKey{}, &Request{shared: own})
}

// InOneTurn returns a context whose calls wait in the place of the first of them, for a question that takes several calls: without it
// the second calls of many questions would follow all the first ones, so no question is answered before nearly all are.
func InOneTurn(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, &Request{shared: RequestOf(ctx).shared, turn: &turn{}})
}

// AskedAt returns when the first call was let in that was made with a context from WithPriority: what those calls returned is no older, however long
// they have waited in the queue. It is zero if none was.
func AskedAt(ctx context.Context) time.Time {
	if asked := RequestOf(ctx).asked.Load(); asked != nil {
		return *asked
	}
	return time.Time{}
}

// PriorityOf returns the priority of calls with this context.
func PriorityOf(ctx context.Context) Priority { return Priority(RequestOf(ctx).priority.Load()) }

// Raise gives the calls of a context that came from WithPriority at least the given priority, waiting ones
// included.
func Raise(ctx context.Context, priority Priority) {
	for r := RequestOf(ctx); ; {
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
	r, added := RequestOf(call), RequestOf(asker).listening()
	r.mu.Lock()
	r.listeners = append(r.listeners, added...)
	reason := r.waiting
	r.mu.Unlock()
	if reason != "" {
		tell(added, reason)
	}
}

// Priority returns the label of the priority.
func (s *shared) Priority() string { return Priority(s.priority.Load()).String() }

// listening returns the listeners.
func (s *shared) listening() []func(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listeners[:len(s.listeners):len(s.listeners)]
}

// waits calls all listeners with what the call waits for; an empty reason is that it waits no more.
func (s *shared) waits(reason string) {
	s.mu.Lock()
	s.waiting = reason
	listeners := s.listeners
	s.mu.Unlock()
	if reason != "" {
		tell(listeners, reason)
	}
}

func tell(listeners []func(string), reason string) {
	for _, listener := range listeners {
		listener(reason)
	}
}
