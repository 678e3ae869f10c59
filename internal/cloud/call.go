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

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/mooring-ccm/mooring/internal/cloud"

// noSpan is the span of calls that are not traced. As a variable it costs no allocation.
var noSpan trace.Span = noop.Span{}

// tracerOf returns nil for nil.
func tracerOf(provider trace.TracerProvider) trace.Tracer {
	if provider == nil {
		return nil
	}
	return provider.Tracer(tracerName)
}

// call is one call of a controller. It has a span.
type call struct {
	*client
	about    subject
	waited   time.Duration
	priority Priority // when it was let in
	span     trace.Span
}

func (c *client) call(ctx context.Context, about subject) (context.Context, *call) {
	span := noSpan
	if c.tracer != nil {
		ctx, span = c.tracer.Start(ctx, "cloud."+about.name, trace.WithSpanKind(trace.SpanKindClient))
	}
	return ctx, &call{client: c, about: about, priority: PriorityOf(ctx), span: span}
}

// once makes a call. The caller of a read may give up, and what the method returns then is dropped; a write is waited for, but not for ever:
// see StillRunningError.
//
// A call that fails is not repeated here, whatever the cloud has said: its controller does that, which has a backoff for each object.
func once[T any](ctx context.Context, of *client, about subject, method func(context.Context) (T, error)) (T, error) {
	var zero T
	ctx, c := of.call(ctx, about)
	w, err := c.enter(ctx)
	if err != nil {
		c.end(err)
		return zero, err
	}
	value := new(T)
	a := c.begin(ctx, w, func(ctx context.Context) (err error) {
		*value, err = method(ctx)
		return err
	})
	a.run()
	err, back := a.wait()
	err = c.finish(a.ctx, a.began, err)
	a.release(back)
	c.end(err)
	if !back {
		return zero, err
	}
	return *value, err
}

// enter waits until an attempt may be made.
func (c *call) enter(ctx context.Context) (*waiter, error) {
	start := time.Now()
	err := c.closed()
	if err == nil && c.about.write {
		err = c.afterOthers(ctx)
	}
	var w *waiter
	if err == nil {
		w, err = c.queue.enter(ctx, c.about, c.timeout())
	}
	if err == nil {
		if err = c.closed(); err != nil { // while it waited
			c.queue.leave(w, outcome{err: err, label: classify.OutcomeCanceled, notMade: true})
		}
	}
	waited := time.Since(start)
	c.waited += waited
	c.priority = PriorityOf(ctx)
	c.metrics.queued.WithLabelValues(c.about.group, c.priority.String()).Observe(waited.Seconds())
	if err != nil {
		return nil, fmt.Errorf("waiting to call the cloud for %s: %w", c.about.name, err)
	}
	w.request.asks(w.admitted)
	return w, nil
}

// afterOthers waits until a write may begin beside what an earlier leader had begun.
func (c *call) afterOthers(ctx context.Context) error {
	if c.writesFrom == nil || c.balancersEnd && c.about.group == GroupLoadBalancers {
		return nil
	}
	if !sleep.For(ctx, time.Until(c.writesFrom())) {
		return context.Cause(ctx)
	}
	return nil
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
	if err != nil && errors.Is(context.Cause(ctx), classify.ErrDeadline) && !errors.Is(err, classify.ErrDeadline) {
		err = fmt.Errorf("%w: %w", classify.ErrDeadline, err) // the plugin's own words for a context that we ended
	}
	var panicked *PanicError
	if errors.As(err, &panicked) || errors.Is(err, errExited) {
		return classify.OutcomePanic, err
	}
	err = classify.Error(err)
	label := classify.OutcomeOf(err)
	if label == classify.OutcomeError && errors.Is(ctx.Err(), context.Canceled) {
		label = classify.OutcomeCanceled // whatever the caller gave as the cause
	}
	return label, err
}

// end ends the span of the call.
func (c *call) end(err error) {
	outcome := classify.OutcomeOf(err)
	if c.span.IsRecording() {
		c.span.SetAttributes(
			attribute.String("cloud.operation", c.about.name),
			attribute.String("cloud.object", c.about.object),
			attribute.String("cloud.priority", c.priority.String()),
			attribute.String("cloud.outcome", outcome),
			attribute.Float64("cloud.waited_seconds", c.waited.Seconds()),
		)
	}
	if names.IsCallFailure(outcome) {
		c.span.SetStatus(codes.Error, err.Error())
	}
	c.span.End()
}
