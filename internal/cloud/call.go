package cloud

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// patience is for how long after its first refusal a read is repeated, and mostRefusals how often it may be refused, until
	// its caller hears of it: somebody may wait for a reason.
	patience     = time.Minute
	mostRefusals = 6
)

// caller is the door: what all calls of one plugin share.
type caller struct {
	readTimeout  time.Duration
	writeTimeout time.Duration
	guard        *guard
	gate         *gate
	tracer       trace.Tracer
	metrics      *metrics
}

// read makes a call that changes nothing. It returns at the deadline even if the plugin ignores its context; such a call
// keeps its place until the plugin comes back, so that a plugin that hangs cannot pile up calls.
//
// A read that the cloud refuses for its quota goes back to its place in the queue: nothing has happened, and its caller could
// do nothing else. Waiting does not count against the deadline.
func read[T any](ctx context.Context, c *caller, about subject, call func(context.Context) (T, error)) (T, error) {
	ctx, v := c.visit(ctx, about)
	for {
		value, err := readOnce(ctx, c, v, call)
		if !v.again(err) {
			v.end(err)
			return value, err
		}
	}
}

func readOnce[T any](ctx context.Context, c *caller, v *visit, call func(context.Context) (T, error)) (T, error) {
	var zero T
	w, err := v.enter(ctx)
	if err != nil {
		return zero, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.readTimeout, ErrDeadline)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	start := time.Now()
	go func() {
		value, err := call(ctx)
		c.leave(w, err)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, v.finish(ctx, start, r.err)
	case <-ctx.Done():
		return zero, v.finish(ctx, start, context.Cause(ctx))
	}
}

// write makes a call that changes something in the cloud. It waits for the plugin, whatever the deadline: to come back
// while the change is still under way would let a retry run beside it. A write that the cloud refuses is not repeated here:
// it consists of several calls of the plugin, and some of them may have been accepted.
func write(ctx context.Context, c *caller, about subject, call func(context.Context) error) error {
	ctx, v := c.visit(ctx, about)
	err := writeOnce(ctx, c, v, call)
	v.end(err)
	return err
}

func writeOnce(ctx context.Context, c *caller, v *visit, call func(context.Context) error) error {
	w, err := v.enter(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.writeTimeout, ErrDeadline)
	defer cancel()
	start := time.Now()
	err = call(ctx)
	c.leave(w, err)
	return v.finish(ctx, start, err)
}

// leave gives a call's place back, and tells the gate whether the cloud refused it.
func (c *caller) leave(w *waiter, err error) {
	refusal, refused := throttled(classify(err))
	var retryAfter time.Duration
	if refused {
		retryAfter = refusal.RetryAfter
	}
	c.gate.leave(w, refused, retryAfter)
}

// throttled returns the refusal that an error is or wraps.
func throttled(err error) (*provider.ThrottledError, bool) {
	var refusal *provider.ThrottledError
	ok := errors.As(err, &refusal)
	return refusal, ok
}
