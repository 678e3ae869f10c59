package cloud

import (
	"context"
	"sync/atomic"
)

// Priority says which of the calls that wait for the cloud is let in first.
type Priority int32

// The priorities, from the lowest. The zero value is that of a context without one.
const (
	// PriorityRefresh is for what looks whether anything has changed. Nobody waits for it.
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

// priorityKey is the key of a *atomic.Int32 in a context, so that a call that waits can be raised.
type priorityKey struct{}

// WithPriority returns a context whose calls to the cloud have the given priority. Raise raises that context and those made
// from it, and no other.
func WithPriority(ctx context.Context, priority Priority) context.Context {
	holder := new(atomic.Int32)
	holder.Store(int32(priority))
	return context.WithValue(ctx, priorityKey{}, holder)
}

// PriorityOf returns the priority of calls with this context: PriorityUpdate unless it was given one.
func PriorityOf(ctx context.Context) Priority {
	if holder, ok := ctx.Value(priorityKey{}).(*atomic.Int32); ok {
		return Priority(holder.Load())
	}
	return PriorityUpdate
}

// Raise gives the calls of a context that came from WithPriority at least the given priority, those that wait already
// included. Whoever lets several askers share one call raises it to the highest of theirs.
func Raise(ctx context.Context, priority Priority) {
	holder, ok := ctx.Value(priorityKey{}).(*atomic.Int32)
	for ok {
		current := holder.Load()
		if Priority(current) >= priority || holder.CompareAndSwap(current, int32(priority)) {
			return
		}
	}
}
