package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/mooring-ccm/mooring/provider"
)

const (
	// patience is for how long after its first refusal a read is repeated, and mostRefusals how often it may be refused, until
	// its caller gets the error: somebody may wait for a reason.
	patience     = time.Minute
	mostRefusals = 6

	// tracerName is the instrumentation scope of the spans.
	tracerName = "github.com/mooring-ccm/mooring/internal/cloud"
)

// outcomePanic is the outcome of a call in which the plugin panicked, as the label of a metric.
const outcomePanic = "panic"

// noSpan is the span of calls that are not traced. As a variable it costs no allocation.
var noSpan trace.Span = noop.Span{}

// tracerOf returns nil for nil.
func tracerOf(provider trace.TracerProvider) trace.Tracer {
	if provider == nil {
		return nil
	}
	return provider.Tracer(tracerName)
}

// call is one call of a controller, which may take several attempts. It has a span.
type call struct {
	*client
	about    subject
	arrival  uint64    // its place in the queue, from its first attempt
	admitted time.Time // the last attempt
	attempts int
	refusals int
	refused  time.Time // for the first time
	refusal  error     // the newest
	waited   time.Duration
	priority Priority // when it was let in last
	span     trace.Span
}

func (c *client) call(ctx context.Context, about subject) (context.Context, *call) {
	span := noSpan
	if c.tracer != nil {
		ctx, span = c.tracer.Start(ctx, "cloud."+about.name, trace.WithSpanKind(trace.SpanKindClient))
	}
	return ctx, &call{client: c, about: about, priority: PriorityOf(ctx), span: span}
}

// read makes a call that changes nothing. It returns at the deadline even if the plugin ignores its context.
//
// A read that the cloud refuses for its quota goes back to the queue: nothing has happened, and its caller could do nothing
// else. Waiting does not count against the deadline.
func read[T any](ctx context.Context, c *client, about subject, method func(context.Context) (T, error)) (T, error) {
	ctx, call := c.call(ctx, about)
	for {
		value, err := once(ctx, call, method)
		if !call.again(ctx, err) {
			call.end(err)
			return value, err
		}
	}
}

// write makes a call that changes something in the cloud. It waits for the plugin even if its caller gives up, because to come
// back while the change is still under way would let a retry run beside it; at the deadline it returns all the same, and the
// object stays locked for writes until the plugin does, see StillRunningError. A write that the cloud refuses is not
// repeated here: it consists of several calls of the plugin, and some of them may have been accepted.
func write[T any](ctx context.Context, c *client, about subject, method func(context.Context) (T, error)) (T, error) {
	ctx, call := c.call(ctx, about)
	value, err := once(ctx, call, method)
	call.end(err)
	return value, err
}

// once makes one attempt. What a method returns that comes back too late is dropped.
func once[T any](ctx context.Context, c *call, method func(context.Context) (T, error)) (T, error) {
	var zero T
	w, err := c.enter(ctx)
	if err != nil {
		return zero, err
	}
	value := new(T)
	a := c.begin(ctx, w, func(ctx context.Context) (err error) {
		*value, err = method(ctx)
		return err
	})
	if !c.about.write {
		a.repeat = func(ctx context.Context) error { _, err := method(ctx); return err }
	}
	a.run()
	err, back := a.wait()
	err = c.finish(a.ctx, a.began, err)
	a.cancel(nil)
	if !back {
		return zero, err
	}
	return *value, err
}

// enter waits until an attempt may be made.
func (c *call) enter(ctx context.Context) (*waiter, error) {
	start := time.Now()
	if c.refusals > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, c.refused.Add(patience), c.refusal)
		defer cancel()
	}
	err := c.closed()
	if err == nil && c.about.write {
		err = c.afterOthers(ctx)
	}
	var w *waiter
	if err == nil {
		w, err = c.queue.enter(ctx, c.about, c.arrival)
	}
	if err == nil {
		if err = c.closed(); err != nil { // while it waited
			c.queue.leave(w, outcome{err: err, label: outcomeCanceled})
		}
	}
	waited := time.Since(start)
	c.waited += waited
	c.priority = PriorityOf(ctx)
	c.metrics.queued.WithLabelValues(c.about.group, c.priority.String()).Observe(waited.Seconds())
	if err != nil {
		return nil, fmt.Errorf("waiting to call the cloud for %s: %w", c.about.name, err)
	}
	c.arrival, c.admitted = w.arrival, w.admitted
	w.request.asks(w.admitted)
	c.attempts++
	return w, nil
}

// afterOthers waits until a write may begin beside what an earlier leader had begun.
func (c *call) afterOthers(ctx context.Context) error {
	if c.writesFrom == nil {
		return nil
	}
	wait := time.Until(c.writesFrom())
	if wait <= 0 {
		return nil
	}
	if wait >= noticeAfter {
		requestOf(ctx).waits("the leader before this one has crashed, and what it had the cloud do may still be under way for " + wait.Round(time.Second).String())
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// again reports whether an attempt that returned err is to be repeated, after it has waited for as long as the cloud asks for.
func (c *call) again(ctx context.Context, err error) bool {
	refusal, refused := throttled(err)
	if !refused {
		return false
	}
	now := time.Now()
	if c.refusals++; c.refusals == 1 {
		c.refused = now
	}
	c.refusal = err
	requestOf(ctx).refused(c.admitted)
	left := patience - now.Sub(c.refused)
	if c.refusals >= mostRefusals || left <= 0 || refusal.RetryAfter >= left {
		return false
	}
	if refusal.RetryAfter <= 0 {
		return true
	}
	c.waited += refusal.RetryAfter
	timer := time.NewTimer(refusal.RetryAfter)
	defer timer.Stop()
	if refusal.RetryAfter >= noticeAfter {
		requestOf(ctx).waits(fmt.Sprintf("the cloud refused %s for %s and asks to wait for %s", c.about.name, c.about.key(), refusal.RetryAfter))
	}
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// finish counts an attempt and gives its error the type by which controllers decide.
func (c *call) finish(ctx context.Context, began time.Time, err error) error {
	label, err := labeled(ctx, err)
	c.metrics.observe(c.about.name, label, time.Since(began))
	c.logPanic(ctx, err)
	return err
}

// logPanic logs a panic of the plugin with its stack: the error that goes on has one line.
func (c *call) logPanic(ctx context.Context, err error) {
	var panicked *PanicError
	if !errors.As(err, &panicked) {
		return
	}
	c.metrics.panics.WithLabelValues(c.about.name).Inc()
	logr.FromContextOrDiscard(ctx).Error(err, "The cloud provider panicked; the call fails and the process goes on",
		"operation", c.about.name, "object", c.about.object, "stack", string(panicked.Stack))
}

// labeled names what became of a call, and gives its error the type by which controllers decide.
func labeled(ctx context.Context, err error) (string, error) {
	if err != nil && errors.Is(context.Cause(ctx), ErrDeadline) && !errors.Is(err, ErrDeadline) {
		err = fmt.Errorf("%w: %w", ErrDeadline, err) // the plugin's own words for a context that we ended
	}
	var panicked *PanicError
	if errors.As(err, &panicked) || errors.Is(err, errExited) {
		return outcomePanic, err
	}
	err = classify(err)
	label := outcomeOf(err)
	if label == outcomeError && errors.Is(ctx.Err(), context.Canceled) {
		label = outcomeCanceled // whatever the caller gave as the cause
	}
	return label, err
}

// end ends the span of the call.
func (c *call) end(err error) {
	outcome := outcomeOf(err)
	if c.span.IsRecording() {
		c.span.SetAttributes(
			attribute.String("cloud.operation", c.about.name),
			attribute.String("cloud.object", c.about.object),
			attribute.String("cloud.priority", c.priority.String()),
			attribute.String("cloud.outcome", outcome),
			attribute.Int("cloud.attempts", c.attempts),
			attribute.Float64("cloud.waited_seconds", c.waited.Seconds()),
		)
	}
	switch outcome {
	case outcomeOK, outcomeNotFound, outcomeNotImplemented, outcomeRetry:
	default:
		c.span.SetStatus(codes.Error, err.Error())
	}
	c.span.End()
}

// throttled returns the refusal that an error is or wraps.
func throttled(err error) (*provider.ThrottledError, bool) {
	var refusal *provider.ThrottledError
	ok := errors.As(err, &refusal)
	return refusal, ok
}
