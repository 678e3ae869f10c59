// Package otlp receives what a manager traces, for tests.
package otlp

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Receiver is a collector that speaks OTLP over gRPC and keeps what it is sent. It may be used concurrently.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	endpoint string

	mu     sync.Mutex
	traced []*tracepb.ResourceSpans
}

// Start serves on a port of its own until the test ends.
func Start(t testing.TB) *Receiver {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{endpoint: listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("the collector: %v", err)
		}
	})
	return r
}

// Export implements collector.TraceServiceServer.
func (r *Receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.traced = append(r.traced, request.ResourceSpans...)
	return &collector.ExportTraceServiceResponse{}, nil
}

// ConfigFile writes a file for --tracing-config-file that has everything sent here, and returns its path.
func (r *Receiver) ConfigFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tracing.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\n" +
		"endpoint: " + r.endpoint + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Traced returns what has come, with the resources that it is about.
func (r *Receiver) Traced() []*tracepb.ResourceSpans {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.traced)
}

// Spans returns the spans that have come, in their order.
func (r *Receiver) Spans() (spans []*tracepb.Span) {
	for _, resource := range r.Traced() {
		for _, scope := range resource.ScopeSpans {
			spans = append(spans, scope.Spans...)
		}
	}
	return spans
}
