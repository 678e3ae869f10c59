package provider

import (
	"context"
	"errors"
	"time"
)

// WatchMarkInterval is the longest time between two marks of a watch, see InstancesCurrent. A watch that shows no mark for
// three times as long is taken for dead. Marks every second make the watch worth most.
const WatchMarkInterval = 10 * time.Second

// ErrWatchExpired says that a watch ended because the cloud no longer knows what changed since the last event. Nothing is
// broken: the next watch begins with all instances.
var ErrWatchExpired = errors.New("the cloud no longer knows what has changed since the last event")

// WatchInstancesFunc calls yield for all instances, and then for every change, until ctx ends.
//
// It begins with everything: an InstanceSet for each instance that exists, in any order, and then the first mark,
// InstancesCurrent. Nothing is used before that mark. From then on it reports each change, those of one instance in the
// order in which they happened, and of its progress by further marks, no more than WatchMarkInterval apart.
//
// It never leaves out a change: when one may have been missed, because the connection broke or the cloud lost count, it
// returns an error, by which it can be seen whether and when to try again, as by any other. The next call begins with
// everything again. A provider may mend a broken connection by itself, if the cloud can report what was missed.
//
// An error of yield ends the watch and is returned as it is. Events are only valid during the call of yield, which is never
// called twice at once.
type WatchInstancesFunc func(ctx context.Context, yield func(InstanceEvent) error) error

// InstanceEventKind says what an InstanceEvent is. The zero value is invalid.
type InstanceEventKind int

const (
	// InstanceSet is an instance that exists, as it is now, whether or not it was sent before.
	InstanceSet InstanceEventKind = iota + 1
	// InstanceDeleted is an instance that no longer exists. Only its ProviderID counts.
	InstanceDeleted
	// InstancesCurrent is a mark: all that the cloud knew, when it made the mark, has been sent. A mark counts from its arrival:
	// it must come from the cloud, behind all changes before it. A timer in the provider proves nothing.
	InstancesCurrent
)

// String returns the kind in lower case, as in metrics.
func (k InstanceEventKind) String() string {
	switch k {
	case InstanceSet:
		return "set"
	case InstanceDeleted:
		return "deleted"
	case InstancesCurrent:
		return "mark"
	default:
		return "unknown"
	}
}

// InstanceEvent is what a watch sends.
type InstanceEvent struct {
	// Kind says what happened.
	Kind InstanceEventKind
	// Instance is the one it happened to; empty for a mark.
	Instance Instance
}
