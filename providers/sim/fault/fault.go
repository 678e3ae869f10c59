// Package fault decides which calls of a cloud misbehave, how many of them, and until when calls hang. What a misbehaving call does is the
// effect of its rule. The simulated cloud and the clouds of tests give effects a meaning.
package fault

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Rule makes calls misbehave.
type Rule[Call, Effect any] struct {
	// Matches reports whether the rule is about a call. Nil means that it is about every call.
	Matches func(Call) bool
	// Skip calls that match pass first. Of the calls that follow, Count misbehave; zero means all of them.
	Skip, Count int
	// Effect is how they misbehave.
	Effect Effect
}

// Rules are the rules that hold, oldest first. They may be used by many goroutines.
type Rules[Call, Effect any] struct {
	mu       sync.Mutex
	rules    []*Rule[Call, Effect]
	released chan struct{}
	closed   bool
}

// NewRules returns no rules.
func NewRules[Call, Effect any]() *Rules[Call, Effect] {
	return &Rules[Call, Effect]{released: make(chan struct{})}
}

// Add adds a rule behind the others. The returned function removes it; calls that hang by then continue to hang.
func (r *Rules[Call, Effect]) Add(rule Rule[Call, Effect]) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = append(r.rules, &rule)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.rules = slices.DeleteFunc(r.rules, func(one *Rule[Call, Effect]) bool { return one == &rule })
	}
}

// List returns the rules with what is left of Skip and Count.
func (r *Rules[Call, Effect]) List() []Rule[Call, Effect] {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := make([]Rule[Call, Effect], 0, len(r.rules))
	for _, rule := range r.rules {
		left = append(left, *rule)
	}
	return left
}

// Clear removes all rules and releases the calls that hang.
func (r *Rules[Call, Effect]) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = nil
	if !r.closed {
		close(r.released)
		r.released = make(chan struct{})
	}
}

// Close releases hanging calls, and calls that would hang later. The rules stay.
func (r *Rules[Call, Effect]) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.released)
	}
}

// Take returns the effect of the oldest rule that matches a call, nil if the call works, and what is closed when the call may no longer hang.
func (r *Rules[Call, Effect]) Take(call Call) (*Effect, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, rule := range r.rules {
		if rule.Matches != nil && !rule.Matches(call) {
			continue
		}
		if rule.Skip > 0 {
			rule.Skip--
			return nil, r.released
		}
		effect := rule.Effect
		if rule.Count == 1 {
			r.rules = slices.Delete(r.rules, i, i+1)
		} else if rule.Count > 1 {
			rule.Count--
		}
		return &effect, r.released
	}
	return nil, r.released
}

// ErrReleased is the error of a call that hung until it was released.
var ErrReleased = errors.New("the call hung and was released")

// Hang returns the error of the context when that ends, or ErrReleased when the call is released.
func Hang(ctx context.Context, released <-chan struct{}) error { return wait(ctx, released, nil) }

// Delay returns nil after some time. If the context ends or the call is released before, it returns what Hang returns.
func Delay(ctx context.Context, delay time.Duration, released <-chan struct{}) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	return wait(ctx, released, timer.C)
}

func wait(ctx context.Context, released <-chan struct{}, elapsed <-chan time.Time) error {
	select {
	case <-elapsed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-released:
		return ErrReleased
	}
}
