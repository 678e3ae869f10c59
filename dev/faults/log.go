// Package faults is what clouds of tests share that misbehave on command: a log of the calls that they received. Its folders have the
// faults of HTTP APIs and of providers. Package internal/fault decides which calls misbehave.
package faults

import (
	"iter"
	"slices"
	"sync"
)

// Log is the calls that a cloud received. The zero value is an empty log. It may be used by many goroutines.
type Log[Call any] struct {
	mu       sync.Mutex
	calls    []*entry[Call]
	underWay int // how many of the calls have not ended
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
	l.underWay++
	return func(change func(*Call)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		change(&noted.call)
		noted.ended = true
		l.underWay--
	}
}

// Newest iterates over the calls and whether each has ended, newest first. No call begins or ends meanwhile.
func (l *Log[Call]) Newest() iter.Seq2[Call, bool] {
	return func(yield func(Call, bool) bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, noted := range slices.Backward(l.calls) {
			if !yield(noted.call, noted.ended) {
				return
			}
		}
	}
}

// Ended returns the calls that have ended, in the order in which they began.
func (l *Log[Call]) Ended() (calls []Call) {
	for call, ended := range l.Newest() {
		if ended {
			calls = append(calls, call)
		}
	}
	slices.Reverse(calls)
	return calls
}

// Drain returns what Ended returns, and forgets it.
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

// UnderWay returns how many calls have not ended.
func (l *Log[Call]) UnderWay() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.underWay
}
