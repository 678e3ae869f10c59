package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/instances"
)

// created is when the node of these tests was, by the API server's clock.
var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func bornThen(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(created) }

func withReady(n *corev1.Node) {
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
}

// recorded returns traces, and what has ended of them.
func recorded() (*traces, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return newTraces(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))), spans
}

func spanNames(spans *tracetest.SpanRecorder) string {
	var ended []string
	for _, span := range spans.Ended() {
		ended = append(ended, span.Name())
	}
	return strings.Join(ended, " ")
}

// namedSpan returns the span of a name that has ended.
func namedSpan(t *testing.T, spans *tracetest.SpanRecorder, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	ended := spans.Ended()
	at := slices.IndexFunc(ended, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
	if at < 0 {
		t.Fatalf("there is no span %s: %s", name, spanNames(spans))
	}
	return ended[at]
}

func TestTraceOfANodeFromItsCreationToItsReadiness(t *testing.T) {
	traces, spans := recorded()
	node := newNode(bornThen, withTaints(cloudTaint))
	traces.observe(node, true, created.Add(time.Second))
	ctx := traces.pass(t.Context(), node, created.Add(3*time.Second))
	_, end := traces.step(ctx, spanLookUp)
	end(&instances.Observation{Status: instances.Found}, nil)
	traces.failed(node, ReasonWriteFailed, errors.New("webhook is down"))
	ctx = traces.pass(t.Context(), node, created.Add(4*time.Second))
	_, end = traces.step(ctx, writeSpans[targetAddresses])
	end(nil, nil)
	traces.initialized(ctx, node, "sim://1")
	traces.observe(newNode(bornThen), false, time.Now())
	if got, want := spanNames(spans), "node.notice node.queue node.look_up node.write_addresses node.initialize"; got != want {
		t.Fatalf("before the node is ready these have ended: %s; want %s", got, want)
	}
	traces.observe(newNode(bornThen, withReady), false, time.Now())

	root := namedSpan(t, spans, spanInitialize)
	if root.Parent().IsValid() || !root.StartTime().Equal(created) || root.Status().Code == codes.Error {
		t.Errorf("the root has the parent %v, begins at %v and has the status %v",
			root.Parent().SpanID(), root.StartTime(), root.Status())
	}
	if events := root.Events(); len(events) != 1 || events[0].Name != "failed" {
		t.Errorf("events of the root: %v", events)
	}
	if queue := namedSpan(t, spans, spanQueue); queue.EndTime().Sub(queue.StartTime()) != 2*time.Second {
		t.Errorf("%s took %s, want 2s", spanQueue, queue.EndTime().Sub(queue.StartTime()))
	}
	ready := namedSpan(t, spans, spanBecomeReady)
	if ready.StartTime().Before(root.EndTime()) {
		t.Errorf("%s begins at %v, before the root ends at %v", spanBecomeReady, ready.StartTime(), root.EndTime())
	}
	for _, span := range spans.Ended() {
		if span.SpanContext().TraceID() != root.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", span.Name())
		}
	}
	if len(traces.nodes) != 0 {
		t.Errorf("%d traces are kept", len(traces.nodes))
	}
}

func TestANodeThatIsReadyFirstHasNothingToWaitFor(t *testing.T) {
	traces, spans := recorded()
	node := newNode(bornThen, withTaints(cloudTaint))
	traces.observe(node, true, created)
	ctx := traces.pass(t.Context(), node, created)
	// The watch reports the readiness while the pass still has the node as it was.
	traces.observe(newNode(bornThen, withTaints(cloudTaint), withReady), true, created)
	traces.initialized(ctx, node, "sim://1")
	if got, want := spanNames(spans), "node.notice node.queue node.initialize"; got != want || len(traces.nodes) != 0 {
		t.Errorf("ended: %s, want %s; %d traces are kept", got, want, len(traces.nodes))
	}
}

func TestTracesThatComeToNothing(t *testing.T) {
	for name, end := range map[string]func(*traces, *corev1.Node){
		"the node is deleted":            func(traces *traces, node *corev1.Node) { traces.forget(node.UID, "deleted") },
		"another manager initializes it": func(traces *traces, node *corev1.Node) { traces.overtaken(node) },
		"the process ends":               func(traces *traces, _ *corev1.Node) { traces.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			traces, spans := recorded()
			node := newNode(bornThen, withTaints(cloudTaint))
			traces.observe(node, true, created)
			traces.pass(t.Context(), node, created)
			end(traces, node)
			if status := namedSpan(t, spans, spanInitialize).Status(); status.Code != codes.Error || status.Description == "" {
				t.Errorf("status %+v, want an error that says why", status)
			}
		})
	}
	t.Run("a standby makes no span", func(t *testing.T) {
		traces, spans := recorded()
		traces.observe(newNode(bornThen, withTaints(cloudTaint)), true, created)
		traces.observe(newNode(bornThen), false, created)
		if started := spans.Started(); len(started) != 0 || len(traces.nodes) != 0 {
			t.Errorf("%d spans, %d traces are kept", len(started), len(traces.nodes))
		}
	})
}
