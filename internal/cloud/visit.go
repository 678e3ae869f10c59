package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
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

// visit is one call of a controller, which may take several attempts. It has a span.
type visit struct {
	*caller
	about    subject
	arrival  uint64 // its place in the queue, from its first attempt
	attempts int
	refusals int
	refused  time.Time // for the first time
	refusal  error     // the newest
	waited   time.Duration
	priority Priority // when it was let in last
	span     trace.Span
}

func (c *caller) visit(ctx context.Context, about subject) (context.Context, *visit) {
	span := noSpan
	if c.tracer != nil {
		ctx, span = c.tracer.Start(ctx, "cloud."+about.operation, trace.WithSpanKind(trace.SpanKindClient))
	}
	return ctx, &visit{caller: c, about: about, priority: PriorityOf(ctx), span: span}
}

// enter waits until an attempt may be made.
func (v *visit) enter(ctx context.Context) (*waiter, error) {
	start := time.Now()
	if v.refusals > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, v.refused.Add(patience), v.refusal)
		defer cancel()
	}
	err := v.guard.enter(ctx, v.about.group)
	var w *waiter
	if err == nil {
		w, err = v.gate.enter(ctx, v.arrival)
	}
	waited := time.Since(start)
	v.waited += waited
	v.priority = PriorityOf(ctx)
	v.metrics.queued.WithLabelValues(v.priority.String()).Observe(waited.Seconds())
	if err != nil {
		return nil, fmt.Errorf("waiting to call the cloud for %s: %w", v.about.operation, err)
	}
	v.arrival = w.arrival
	v.attempts++
	return w, nil
}

// again reports whether an attempt that returned err is to be repeated.
func (v *visit) again(err error) bool {
	if _, refused := throttled(err); !refused {
		return false
	}
	if v.refusals++; v.refusals == 1 {
		v.refused = time.Now()
	}
	v.refusal = err
	return v.refusals < mostRefusals && time.Since(v.refused) < patience
}

// finish counts an attempt and gives its error the type by which controllers decide.
func (v *visit) finish(ctx context.Context, start time.Time, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrDeadline) && !errors.Is(err, ErrDeadline) {
		err = fmt.Errorf("%w: %w", ErrDeadline, err) // the plugin's own words for a context that we ended
	}
	err = classify(err)
	outcome := outcomeOf(err)
	if outcome == outcomeError && errors.Is(ctx.Err(), context.Canceled) {
		outcome = outcomeCanceled // whatever the caller gave as the cause
	}
	v.metrics.observe(v.about.operation, outcome, time.Since(start))
	v.guard.leave(ctx, v.about, outcome, err)
	return err
}

// end ends the span of the call.
func (v *visit) end(err error) {
	outcome := outcomeOf(err)
	if v.span.IsRecording() {
		v.span.SetAttributes(
			attribute.String("cloud.operation", v.about.operation),
			attribute.String("cloud.object", v.about.object),
			attribute.String("cloud.priority", v.priority.String()),
			attribute.String("cloud.outcome", outcome),
			attribute.Int("cloud.attempts", v.attempts),
			attribute.Float64("cloud.waited_seconds", v.waited.Seconds()),
		)
	}
	switch outcome {
	case outcomeOK, outcomeNotFound, outcomeNotImplemented, outcomeRetry:
	default:
		v.span.SetStatus(codes.Error, err.Error())
	}
	v.span.End()
}
