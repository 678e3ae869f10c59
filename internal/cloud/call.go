package cloud

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// MaxErrorText is how many bytes of an error of the plugin go on, to logs, events, spans and conditions. See ADR 6.
const MaxErrorText = 4000

// shown returns an error of the plugin as it goes on: with a text that is bounded and repeats no credential.
func (c *client) shown(err error) error { return c.secrets.Bound(err, MaxErrorText) }

// call is one call of a controller, and the call of the plugin that it makes, on a goroutine of its own, so its caller need not wait for ever.
//
//	state        place        object   left by
//	waiting      -            -        the queue: running
//	running      taken        kept     the plugin returns: over; after long: outstanding
//	outstanding  given back   kept     the plugin returns: over
//	over         given back   free     -
//
// Its context ends with the lease or the process, and at a deadline if the operator or the provider has set one. The caller of a read may
// give up, the call goes on.
//
// A call that fails is not repeated here, whatever the cloud has said: its controller does that, which has a backoff for each object.
type call struct {
	*client
	about   admission.Subject
	timeout time.Duration // the deadline, 0 if there is none
	span    trace.Span
	// waited is for how long, and priority the label of the priority with which, it was let in.
	waited   time.Duration
	priority string
	waiter   *admission.Waiter // nil: it was not let in

	ctx      context.Context
	end      func()      // of the context, once the plugin has returned
	deadline *time.Timer // nil: there is none
	done     chan admission.Result
	left     sync.Once
	counted  atomic.Bool
}

// once makes a call. The caller of a read may give up, and what the method returns then is dropped; a write is waited for, but not for ever:
// see guard.StillRunningError.
func once[T any](ctx context.Context, c *client, about admission.Subject, method func(context.Context) (T, error)) (T, error) {
	value := new(T)
	back, err := c.call(ctx, about, func(ctx context.Context, _ *call) (err error) {
		*value, err = method(ctx)
		return err
	})
	if !back { // the call may still be writing it
		var none T
		return none, err
	}
	return *value, err
}

// change is once for a method that returns nothing but an error.
func (c *client) change(ctx context.Context, about admission.Subject, method func(context.Context) error) error {
	_, err := c.call(ctx, about, func(ctx context.Context, _ *call) error { return method(ctx) })
	return err
}

// read calls what returns a value.
func read[T, R any](ctx context.Context, of offered[T], about admission.Subject, method func(context.Context, T) (R, error)) (R, error) {
	return once(ctx, of.calls, about, func(ctx context.Context) (value R, err error) {
		plugin, err := of.plugin.get()
		if err != nil {
			return value, err
		}
		return method(ctx, plugin)
	})
}

// write calls what returns nothing but an error.
func write[T any](ctx context.Context, of offered[T], about admission.Subject, method func(context.Context, T) error) error {
	_, err := read(ctx, of, about, func(ctx context.Context, plugin T) (struct{}, error) { return struct{}{}, method(ctx, plugin) })
	return err
}

// call makes a call, and reports whether the plugin is back from it, or has not been called.
func (c *client) call(ctx context.Context, about admission.Subject, method func(context.Context, *call) error) (back bool, err error) {
	ctx, span := c.tracer.Start(ctx, "cloud."+about.Method, trace.WithSpanKind(trace.SpanKindClient))
	made := &call{client: c, about: about, timeout: c.readTimeout, span: span, done: make(chan admission.Result, 1)}
	if about.Write {
		made.timeout = c.writeTimeout
	}
	if err := made.enter(ctx); err != nil {
		made.finish(admission.Result{Err: err, Outcome: classify.OutcomeOf(err)})
		return true, err
	}
	made.start(ctx, method)
	result, back := made.wait(ctx)
	made.finish(result)
	return back, result.Err
}

// enter waits until the call may be made.
func (c *call) enter(ctx context.Context) error {
	start := time.Now()
	var err error
	if c.about.Write && c.writesFrom != nil {
		err = c.afterOthers(ctx)
	}
	request := admission.RequestOf(ctx)
	if err == nil {
		c.waiter, err = c.queue.Enter(ctx, request, c.about, c.timeout)
	}
	c.priority = request.Priority()
	if err == nil && c.fence != nil {
		if err = c.fence(); err != nil {
			c.queue.Leave(c.waiter, admission.Result{Err: err, Outcome: classify.OutcomeCanceled})
		}
	}
	c.waited = time.Since(start)
	c.metrics.queued.WithLabelValues(c.about.Group, c.priority).Observe(c.waited.Seconds())
	if err != nil {
		return fmt.Errorf("waiting to call the cloud for %s: %w", c.about.Method, err)
	}
	return nil
}

// afterOthers waits until a write may begin beside what an earlier leader had begun.
func (c *call) afterOthers(ctx context.Context) error {
	if c.balancersEnd && c.about.Group == admission.GroupLoadBalancers {
		return nil
	}
	if !sleep.For(ctx, time.Until(c.writesFrom())) {
		return context.Cause(ctx)
	}
	return nil
}

// start calls the plugin. Every call of a plugin's method passes here.
func (c *call) start(ctx context.Context, method func(context.Context, *call) error) {
	if c.lifetime != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.ctx, c.end = ctx, func() { cancel(nil) }
	if c.lifetime != nil {
		ending := context.AfterFunc(c.lifetime, func() { cancel(context.Cause(c.lifetime)) })
		c.end = func() { ending(); cancel(nil) }
	}
	if c.timeout > 0 {
		c.deadline = time.AfterFunc(c.timeout, func() { cancel(classify.ErrDeadline) })
	}
	go func() {
		// Errors of SDKs may panic when they are asked what they say, so they are classified here, and their texts bounded.
		err := guard.Protect(c.about.Method, func() error { return c.shown(classify.Error(method(c.ctx, c))) }, c.returned)
		c.returned(c.shown(err)) // of a panic
	}()
}

// returned ends the call. It is called once, by the plugin's goroutine.
func (c *call) returned(err error) {
	result := c.resultOf(err)
	c.leave(result)
	c.done <- result
	c.end()
}

// leave gives the place back, the first time, and reports to the queue what came of the call.
func (c *call) leave(result admission.Result) {
	if c.deadline != nil {
		c.deadline.Stop()
	}
	c.left.Do(func() {
		if c.queue.Leave(c.waiter, result) {
			logr.FromContextOrDiscard(c.ctx).Info("A call that had not returned for long has returned", "operation", c.about.Method,
				"object", c.about.Object, "took", time.Since(c.waiter.Began).Round(time.Millisecond).String())
		}
	})
}

// begun gives the place back although the call goes on, as the call of a watch does.
func (c *call) begun() {
	result := admission.Result{Outcome: classify.OutcomeOK}
	c.leave(result)
	c.finish(result)
}

// goesOn lets the deadline begin anew, because the plugin has shown that it goes on. While what it has returned is being worked on, none passes.
func (c *call) goesOn(paused bool) {
	if c.deadline != nil && paused {
		c.deadline.Stop()
	} else if c.deadline != nil {
		c.deadline.Reset(c.timeout)
	}
	c.queue.GoesOn(c.waiter, paused)
}

// wait returns what the plugin returned, or that it has not for so long that its caller waits no more. A read is not waited for when its
// caller has given up; a write is, because to come back while it is under way would let its caller do something else about its object.
func (c *call) wait(caller context.Context) (result admission.Result, back bool) {
	ended := caller.Done()
	if c.about.Write {
		ended = nil
	}
	var err error
	select {
	case result := <-c.done:
		return result, true
	case <-c.waiter.Given:
		err = c.waiter.StillRunning()
		if c.ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(c.ctx), err)
		}
		logr.FromContextOrDiscard(c.ctx).Error(err, "A call of the cloud provider has not returned for long; other calls no longer wait for it",
			"operation", c.about.Method, "object", c.about.Object, "took", time.Since(c.waiter.Began).Round(time.Millisecond).String())
	case <-ended:
		err = context.Cause(caller)
	}
	select {
	case result := <-c.done: // at the same moment
		return result, true
	default:
		return c.resultOf(err), false
	}
}

// resultOf names what became of a call, and gives its error the type by which controllers decide.
func (c *call) resultOf(err error) admission.Result {
	if err != nil && errors.Is(context.Cause(c.ctx), classify.ErrDeadline) && !errors.Is(err, classify.ErrDeadline) {
		err = fmt.Errorf("%w: %w", classify.ErrDeadline, err) // the plugin's own words for a context that we ended
	}
	var panicked *guard.PanicError
	outcome := classify.OutcomeOf(err)
	switch {
	case errors.As(err, &panicked) || errors.Is(err, guard.ErrExited):
		outcome = classify.OutcomePanic
	case outcome == classify.OutcomeError && errors.Is(c.ctx.Err(), context.Canceled):
		outcome = classify.OutcomeCanceled // whatever the caller gave as the cause
	}
	return admission.Result{Err: err, Outcome: outcome}
}

// finish counts a call, the first time, and ends its span.
func (c *call) finish(result admission.Result) {
	if result.Outcome == classify.OutcomePanic {
		c.logPanic(c.ctx, c.about, result.Err)
	}
	if c.counted.Swap(true) {
		return
	}
	if c.waiter != nil {
		c.metrics.calls.WithLabelValues(c.about.Method, result.Outcome).Inc()
		c.metrics.duration.WithLabelValues(c.about.Method).Observe(time.Since(c.waiter.Began).Seconds())
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(
			attribute.String("cloud.operation", c.about.Method),
			attribute.String("cloud.object", c.about.Object),
			attribute.String("cloud.priority", c.priority),
			attribute.String("cloud.outcome", result.Outcome),
			attribute.Float64("cloud.waited_seconds", c.waited.Seconds()),
		)
	}
	if names.IsCallFailure(result.Outcome) {
		c.span.SetStatus(codes.Error, result.Err.Error())
	}
	c.span.End()
}

// logPanic logs a panic of the plugin with its stack: the error that goes on has one line.
func (c *client) logPanic(ctx context.Context, about admission.Subject, err error) {
	var panicked *guard.PanicError
	if errors.As(err, &panicked) {
		c.metrics.panics.WithLabelValues(about.Method).Inc()
		logr.FromContextOrDiscard(ctx).Error(err, "The cloud provider panicked; the call fails and the process goes on",
			"operation", about.Method, "object", about.Object, "stack", string(panicked.Stack))
	}
}
