// Package faults is what clouds of tests share that misbehave on command: a log of the calls that they received. Its folders have the
// faults of HTTP APIs and of providers. Package providers/sim/fault decides which calls misbehave.
package faults

import (
	"slices"
	"sync"
)

// Log is the calls that a cloud received. The zero value is an empty log. It may be used by many goroutines.
type Log[Call any] struct {
	mu    sync.Mutex
	calls []*entry[Call]
}

type entry[Call any] struct {
	call  Call
	ended bool
}

// Begin notes a call. The returned function notes its end, after a change of what is noted.
func (l *Log[Call]) Begin(call Call) (end func(change func(*Call))) {
	l.mu.Lock()
	defer l.mu.Unlock()
	noted := &entry[Call]{call: call}
	l.calls = append(l.calls, noted)
	return func(change func(*Call)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		change(&noted.call)
		noted.ended = true
	}
}

// Find returns the calls that match, in the order in which they began.
func (l *Log[Call]) Find(matches func(call Call, ended bool) bool) (calls []Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, noted := range l.calls {
		if matches(noted.call, noted.ended) {
			calls = append(calls, noted.call)
		}
	}
	return calls
}

// Drain returns the calls that have ended, and forgets them.
func (l *Log[Call]) Drain() (calls []Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = slices.DeleteFunc(l.calls, func(noted *entry[Call]) bool {
		if noted.ended {
			calls = append(calls, noted.call)
		}
		return noted.ended
	})
	return calls
}
