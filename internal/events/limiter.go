// Package events bounds how often an object is told the same thing.
//
// The correlator of client-go merges events that are alike, but by then each has cost a write to the API server, and messages
// that differ in a request ID are not alike. Who retries has to hold back itself.
package events

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Interval is how often an object about which the same thing goes wrong again and again is told so.
const Interval = 10 * time.Minute

// Limiter remembers what objects were told. It is safe for concurrent use; the zero value remembers nothing.
type Limiter struct {
	mu    sync.Mutex
	told  map[telling]time.Time
	swept time.Time
}

// telling is what is told no more than once an Interval: a reason to an object.
type telling struct {
	object types.UID
	reason string
}

// Allow reports whether an object may be told for a reason now, and takes it as told if so. The message does not count: it is
// the reason that does not change while something goes on being wrong.
func (l *Limiter) Allow(object types.UID, reason string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	told := telling{object, reason}
	if last, found := l.told[told]; found && now.Sub(last) < Interval {
		return false
	}
	if l.told == nil {
		l.told = map[telling]time.Time{}
	}
	l.told[told] = now
	return true
}

// sweep forgets what may be told again anyway, so that objects that are gone take no room. The lock is held.
func (l *Limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < Interval {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.told, func(_ telling, last time.Time) bool { return now.Sub(last) >= Interval })
}
