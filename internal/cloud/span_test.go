package cloud

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// TestWithoutATracerNothingIsMade: neither a span nor a context that would carry it.
func TestWithoutATracerNothingIsMade(t *testing.T) {
	calls := Decorate(&plugin{}, Options{}).(*decorated).calls
	ctx := t.Context()
	calling, made := calls.call(ctx, calls.about("InstanceMetadata", "a"))
	if calling != ctx || made.span.SpanContext().IsValid() {
		t.Errorf("the call has a context of its own, or the span %v", made.span.SpanContext())
	}
}

// TestEachCallHasASpan that says how long it waited and what came of it.
func TestEachCallHasASpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []error{nil, errors.New("broken")}
		spans := tracetest.NewSpanRecorder()
		cloud := Decorate(&plugin{metadata: func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			answer := answers[0]
			answers = answers[1:]
			return nil, answer
		}}, Options{TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
		ctx := WithPriority(t.Context(), PriorityNewNode)
		_, _ = metadataOf(t, cloud, ctx)
		_, _ = metadataOf(t, cloud, ctx)

		ended := spans.Ended()
		if len(ended) != 2 {
			t.Fatalf("%d spans, want one for each of two calls", len(ended))
		}
		if name := ended[0].Name(); name != "cloud.InstanceMetadata" {
			t.Errorf("name = %q", name)
		}
		first := attribute.NewSet(ended[0].Attributes()...)
		for key, want := range map[attribute.Key]any{
			"cloud.operation": "InstanceMetadata", "cloud.priority": "new_node", "cloud.outcome": "ok", "cloud.waited_seconds": 0.0,
		} {
			if got, _ := first.Value(key); got.AsInterface() != want {
				t.Errorf("%s = %v, want %v", key, got.AsInterface(), want)
			}
		}
		if status := ended[1].Status(); status.Code != codes.Error || status.Description != "broken" {
			t.Errorf("status of the call that failed = %+v", status)
		}
	})
}
