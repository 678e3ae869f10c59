package kit

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/message"
)

// EventInterval is how often an object gets an event for the same reason while something goes on failing.
const EventInterval = 10 * time.Minute

// EventLimiter bounds how often an object gets an event for the same reason. It is safe for concurrent use; the zero value has
// allowed nothing yet.
//
// The correlator of client-go merges events that are alike, but by then each has cost a write to the API server, and messages that
// differ in a request ID are not alike. A controller that retries has to limit its events itself.
type EventLimiter struct {
	mu sync.Mutex
	// last is when an event was last allowed.
	last    map[eventKey]time.Time
	cleaned time.Time
}

// eventKey is what gets no more than one event per EventInterval.
type eventKey struct {
	object types.UID
	reason string
}

// Allow reports whether an event may be recorded on an object for a reason now, and counts it as recorded if so. The message does not count: it is
// the reason that does not change while something goes on being wrong.
func (l *EventLimiter) Allow(object types.UID, reason string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean(now)
	key := eventKey{object, reason}
	if last, found := l.last[key]; found && now.Sub(last) < EventInterval {
		return false
	}
	if l.last == nil {
		l.last = map[eventKey]time.Time{}
	}
	l.last[key] = now
	return true
}

// Record records an event with a message of bounded length, unless the object got one for the same reason a short while ago. It reports whether
// it did.
func (l *EventLimiter) Record(recorder record.EventRecorder, object client.Object, kind, reason, message string) bool {
	allowed := l.Allow(object.GetUID(), reason, time.Now())
	if allowed {
		recorder.Event(object, kind, reason, EventMessage(message))
	}
	return allowed
}

// clean forgets what may be recorded again anyway, so objects that are gone take no room. The lock is held.
func (l *EventLimiter) clean(now time.Time) {
	if now.Sub(l.cleaned) < EventInterval {
		return
	}
	l.cleaned = now
	maps.DeleteFunc(l.last, func(_ eventKey, last time.Time) bool { return now.Sub(last) >= EventInterval })
}

// MaxMessage is how long the message of an event or a condition may be, in bytes: the events API takes 1 kB for a note.
const MaxMessage = 1000

// EventMessage makes the message of an event of a text.
func EventMessage(text string) string { return message.Line(text, MaxMessage) }

// maxErrorText is how many bytes of an error of the API server are logged: it repeats the values that it refuses.
const maxErrorText = 4000

// WriteError returns an error of a write with a text of bounded length, which wraps it if its own is longer.
func WriteError(err error) error { return message.Bound(err, maxErrorText) }

// FailureLog logs what fails once when it begins to fail, and once when it has recovered. It is safe for concurrent use; by the zero
// value nothing fails.
type FailureLog struct {
	mu sync.Mutex
	// failing are the messages of what fails.
	failing map[string]bool
}

// Note takes the outcome of what a message is about, nil for success: "Could not list the nodes". The message is logged with the error
// and the keys and values when that is new. What fails because the context has ended is no failure and is not logged.
func (l *FailureLog) Note(ctx context.Context, message string, err error, keysAndValues ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.failing[message]
	if l.failing == nil {
		l.failing = map[string]bool{}
	}
	l.failing[message] = err != nil
	switch {
	case ctx.Err() != nil:
	case err != nil && !before:
		log.FromContext(ctx).Error(err, message, keysAndValues...)
	case err == nil && before:
		log.FromContext(ctx).Info("Recovered", "failure", message)
	}
}
