package node

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/mooring-ccm/mooring/internal/controller/node"

// The spans of a node's trace. docs/reference/traces.md says what each covers.
const (
	spanInitialize     = "node.initialize"
	spanNotice         = "node.notice"
	spanQueue          = "node.queue"
	spanLookUp         = "node.look_up"
	spanWriteAddresses = "node.write_addresses"
	spanWriteNode      = "node.write_node"
	spanBecomeReady    = "node.become_ready"
)

// traces are the traces of nodes, each from the node's creation to its readiness. Where tracing is off, or a trace is not sampled, only the
// nodeTrace is kept.
type traces struct {
	tracer trace.Tracer

	mu    sync.Mutex
	nodes map[types.UID]*nodeTrace
}

// nodeTrace is how far a node has come.
type nodeTrace struct {
	// seen is when this process first saw the node wait for its initialization.
	seen time.Time
	// ready is what the kubelet last said.
	ready  bool
	passes int
	// initialize is the root of the trace, nil before the first pass: a standby sees nodes too, and never passes over them.
	initialize trace.Span
	// becomeReady follows the root, nil until that has ended.
	becomeReady trace.Span
}

// newTraces returns traces that go to a provider. Nil: they go nowhere.
func newTraces(provider trace.TracerProvider) *traces {
	provider = cmp.Or[trace.TracerProvider](provider, noop.NewTracerProvider())
	return &traces{tracer: provider.Tracer(tracerName), nodes: map[types.UID]*nodeTrace{}}
}

// observe takes in what the watch says of a node. Waits says that it waits for its initialization, and is not foreign.
func (t *traces) observe(node *corev1.Node, waits bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.nodes[node.UID]
	switch {
	case known == nil && !waits:
		return
	case known == nil:
		known = &nodeTrace{seen: now}
		t.nodes[node.UID] = known
	}
	known.ready = ownership.Ready(node)
	switch {
	case known.becomeReady != nil && known.ready:
		known.becomeReady.End()
		delete(t.nodes, node.UID)
	case known.initialize == nil && !waits: // another writer was faster
		delete(t.nodes, node.UID)
	}
}

// pass begins a pass over a node that waits for its initialization. The first one begins the trace: at the node's creation,
// which is when its user began to wait, and which the API server stores in whole seconds.
func (t *traces) pass(ctx context.Context, node *corev1.Node, now time.Time) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.nodes[node.UID]
	if known == nil || known.becomeReady != nil {
		t.drop(node.UID, "it waits for its initialization again")
		known = &nodeTrace{seen: now, ready: ownership.Ready(node)}
		t.nodes[node.UID] = known
	}
	known.passes++
	if known.initialize != nil {
		return trace.ContextWithSpan(ctx, known.initialize)
	}
	created := node.CreationTimestamp.Time
	if created.After(known.seen) { // by the API server's clock
		created = known.seen
	}
	ctx, known.initialize = t.tracer.Start(ctx, spanInitialize, trace.WithNewRoot(), trace.WithTimestamp(created),
		trace.WithAttributes(attribute.String("k8s.node.name", node.Name), attribute.String("k8s.node.uid", string(node.UID))))
	if known.initialize.IsRecording() {
		t.between(ctx, spanNotice, created, known.seen)
		t.between(ctx, spanQueue, known.seen, now)
	}
	return ctx
}

// between records what has been.
func (t *traces) between(ctx context.Context, name string, from, to time.Time) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}

// writeSpans names the span of a write.
var writeSpans = map[target]string{targetAddresses: spanWriteAddresses, targetNode: spanWriteNode}

// step begins a step of a pass, and returns what ends it, with what the cloud said if that was asked. Outside of a pass over a node that joins
// nothing is recorded.
func (t *traces) step(ctx context.Context, name string) (context.Context, func(*instances.Observation, error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(*instances.Observation, error) {}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, func(said *instances.Observation, err error) {
		switch {
		case err != nil:
			span.SetStatus(codes.Error, err.Error())
		case said != nil && span.IsRecording():
			span.SetAttributes(attribute.String("node.answer", said.Status.String()), attribute.Float64("node.answer_age_seconds", time.Since(said.At).Seconds()))
		}
		span.End()
	}
}

// failed notes on the trace why a pass has not initialized the node.
func (t *traces) failed(node *corev1.Node, reason string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.nodes[node.UID]; known != nil && known.initialize != nil && known.becomeReady == nil {
		known.initialize.AddEvent("failed", trace.WithAttributes(
			attribute.String("reason", reason), attribute.String("error", err.Error())))
	}
}

// initialized ends the root of the trace: the node has been written. If its kubelet has yet to say that it is ready, the trace
// goes on until it does.
func (t *traces) initialized(ctx context.Context, node *corev1.Node, providerID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.nodes[node.UID]
	if known == nil || known.initialize == nil {
		return
	}
	known.initialize.SetAttributes(attribute.String("node.provider_id", providerID),
		attribute.Int("node.passes", known.passes), attribute.Bool("node.ready", known.ready))
	known.initialize.End()
	if known.ready {
		delete(t.nodes, node.UID)
		return
	}
	_, known.becomeReady = t.tracer.Start(trace.ContextWithSpan(ctx, known.initialize), spanBecomeReady)
}

// overtaken ends the trace of a node that another writer has initialized after our first pass over it.
func (t *traces) overtaken(node *corev1.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.nodes[node.UID]; known != nil && known.initialize != nil && known.becomeReady == nil {
		t.drop(node.UID, "another writer removed the node's taint")
	}
}

// forget ends the trace of a node that no longer concerns us.
func (t *traces) forget(uid types.UID, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(uid, why)
}

// stop ends what has begun, so it is not lost.
func (t *traces) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid := range t.nodes {
		t.drop(uid, "this process has ended before")
	}
}

// drop ends what is under way of a trace, which has come to nothing. The lock is held.
func (t *traces) drop(uid types.UID, why string) {
	known := t.nodes[uid]
	delete(t.nodes, uid)
	switch {
	case known == nil || known.initialize == nil:
	case known.becomeReady != nil:
		known.becomeReady.SetStatus(codes.Error, why)
		known.becomeReady.End()
	default:
		known.initialize.SetAttributes(attribute.Int("node.passes", known.passes))
		known.initialize.SetStatus(codes.Error, why)
		known.initialize.End()
	}
}
