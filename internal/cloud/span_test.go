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
	traced "go.opentelemetry.io/otel/trace"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
)

// TestWithoutATracer no span is made.
func TestWithoutATracer(t *testing.T) {
	cloud := Decorate(&plugin{metadata: func(ctx context.Context, _ *v1.Node) (*cloudprovider.InstanceMetadata, error) {
		if span := traced.SpanFromContext(ctx); span.IsRecording() || span.SpanContext().IsValid() {
			t.Errorf("the call has the span %v", span.SpanContext())
		}
		return nil, nil
	}}, Options{})
	_, _ = metadataOf(t, cloud, t.Context())
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
		ctx := admission.WithPriority(t.Context(), admission.PriorityNewNode)
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
