package kit

import (
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

// Backoff says how long to wait after failures in a row of one object or operation: First after the first, twice as long after each
// further one, up to Longest. When the cloud asks for a longer pause, it gets that, up to classify.MaxRetryAfter.
type Backoff struct {
	// First is the pause after the first failure.
	First time.Duration
	// Longest is the longest pause that does not come from the cloud.
	Longest time.Duration
	// Terminal is the shortest pause after an error that repeating cannot help, see IsTerminal. Zero: such an error is like any other.
	Terminal time.Duration
	// IsTerminal reports whether repeating cannot help against an error. Nil: provider.IsTerminal.
	IsTerminal func(error) bool
}

// maxDoublings is more than there are between any two pauses, and few enough that a doubled pause still fits its type.
const maxDoublings = 30

// After returns the pause after a failure. Before is how many failures in a row preceded it.
func (b Backoff) After(before int, err error) time.Duration {
	pause := b.Longest
	if doubled := b.First << before; before < maxDoublings && doubled>>before == b.First {
		pause = min(doubled, b.Longest)
	}
	isTerminal := b.IsTerminal
	if isTerminal == nil {
		isTerminal = provider.IsTerminal
	}
	if isTerminal(err) {
		pause = max(pause, b.Terminal)
	}
	if asked, ok := classify.RetryAfter(err); ok {
		pause = max(pause, asked)
	}
	return pause
}

// RateLimiter returns the same pauses for a controller's queue. It counts the failures of each object itself. It sees no errors, and therefore
// ignores Terminal and the cloud's requested pauses.
func (b Backoff) RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](b.First, b.Longest)
}

const (
	// LongestRetry is the longest pause between two tries that does not come from the cloud: what has recovered is noticed within it. The
	// reference's pauses grow to five minutes for Services and to 1,000 s for nodes.
	LongestRetry = 2 * time.Minute
	// MaxConflicts is how many writes in a row may come too late before that counts as a failure.
	MaxConflicts = 6
	// NodesQuiet is for how long no other node must have changed before a pass over all nodes begins ahead of its time, so a rack that loses
	// its power is one pass.
	NodesQuiet = 500 * time.Millisecond
	// Moment is how long changes that follow each other closely are gathered, how long a wait is before an event tells it, the first pause
	// after a failed write of routes, and for how long a process that gives memory back has been quiet.
	Moment = time.Second
	// retriesASecond and retriesAtOnce bound the retries of all objects together, as in the reference.
	retriesASecond, retriesAtOnce = 10, 100
	// jitter is the largest part of a pause by which it is longer: one in so many.
	jitter = 10
)

// ConflictBackoff are the pauses after a write that came too late, and before an object is looked at again whose last write the cache does not
// show yet: the watch itself brings the object back when it does.
var ConflictBackoff = Backoff{First: 20 * time.Millisecond, Longest: 5 * time.Second}

// retryBackoff are the pauses of NewRetryLimiter before jitter.
var retryBackoff = Backoff{First: 5 * time.Millisecond, Longest: LongestRetry}

// Lengthened returns a pause of an object with jitter, so what has failed together is not tried together, also when it has failed often. Jitter depends
// on the object and on how often it has failed before, and on nothing else. A pause that is longer than the longest stays: the cloud has asked for it.
func Lengthened(pause, longest time.Duration, object string, before int) time.Duration {
	if pause > longest {
		return pause
	}
	sum := fnv.New32a()
	_, _ = fmt.Fprint(sum, object, before) // a hash takes everything
	pause = min(pause, longest*jitter/(jitter+1))
	return pause + pause*time.Duration(sum.Sum32()%1000)/(1000*jitter)
}

// NewRetryLimiter returns the pauses between the retries of objects as the reference's controllers have them, by client-go's default: 5 ms after
// the first failure of an object, doubling, and all objects together ten a second after a burst of 100. There are two differences: an object's
// pause is never longer than two minutes, and jitter lengthens it.
func NewRetryLimiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedMaxOfRateLimiter(
		lengthened[T]{workqueue.NewTypedItemExponentialFailureRateLimiter[T](retryBackoff.First, retryBackoff.Longest)},
		workqueue.TypedRateLimiter[T](&workqueue.TypedBucketRateLimiter[T]{Limiter: rate.NewLimiter(retriesASecond, retriesAtOnce)}),
	)
}

// lengthened adds jitter to the pauses of a limiter.
type lengthened[T comparable] struct {
	workqueue.TypedRateLimiter[T]
}

// When implements workqueue.TypedRateLimiter.
func (l lengthened[T]) When(object T) time.Duration {
	before := l.NumRequeues(object)
	return Lengthened(l.TypedRateLimiter.When(object), LongestRetry, fmt.Sprint(object), before)
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Row is a row of failures of one object or operation. Its zero value is none.
type Row struct {
	// Count is how many there were, one after the other.
	Count int
	// Until is when the next try is due.
	Until time.Time
}

// Failed returns the row with a failure more.
func (r Row) Failed(now time.Time, pauses Backoff, err error) Row {
	return Row{Count: r.Count + 1, Until: now.Add(pauses.After(r.Count, err))}
}

// Rests reports whether the next try is not due yet.
func (r Row) Rests(now time.Time) bool { return now.Before(r.Until) }
