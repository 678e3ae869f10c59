package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/provider"
)

// TestErrorsRepeatNoCredential: of no kind of call, nor do their spans. What an error means is read from it as it is.
func TestErrorsRepeatNoCredential(t *testing.T) {
	const password = "hunter2hunter2"
	refused := fmt.Errorf("429 Too Many Requests: POST /login?password=%s: %w", password, errors.New("slow down"))
	for name, answer := range map[string]func() error{
		"an error":          func() error { return fmt.Errorf("login as a:%s failed", password) },
		"a refusal":         func() error { return refused },
		"a type of its own": func() error { return &provider.ThrottledError{RetryAfter: time.Hour, Err: refused} },
		"not found":         func() error { return fmt.Errorf("%s: %w", password, cloudprovider.InstanceNotFound) },
		"a panic":           func() error { panic(password) },
		"a long one": func() error {
			return errors.New(strings.Repeat("x", MaxErrorText-10) + password + strings.Repeat("x", MaxErrorText))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spans := tracetest.NewSpanRecorder()
				known := secrets.New([]string{"A_PASSWORD=" + password})
				options := Options{Secrets: known, TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(spans))}
				behind := Decorate(&plugin{
					metadata: func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) { return nil, answer() },
				}, options)
				_, err := metadataOf(t, behind, t.Context())
				made := provider.CapabilitiesOf(Decorate(&declared{capabilities: provider.Capabilities{
					ChangeRoutes: func(context.Context, string, []provider.RouteChange) ([]error, error) {
						return []error{nil, answer()}, nil
					},
				}}, options)).ChangeRoutes
				route := provider.RouteChange{New: &cloudprovider.Route{DestinationCIDR: "10.0.0.0/24"}}
				other := provider.RouteChange{New: &cloudprovider.Route{DestinationCIDR: "10.0.1.0/24"}}
				results, batch := made(t.Context(), "c", []provider.RouteChange{route, other})

				for _, said := range append(results, err, batch) {
					if said != nil && (strings.Contains(said.Error(), password[:5]) || len(said.Error()) > MaxErrorText) {
						t.Errorf("it says %q", said)
					}
				}
				if err == nil || batch == nil && (len(results) != 2 || results[1] == nil) {
					t.Errorf("the errors are lost: %v, %v, %v", err, results, batch)
				}
				if throttled, want := provider.IsThrottled(err), strings.Contains(name, "refusal") || strings.Contains(name, "own"); throttled != want {
					t.Errorf("throttled: %t, want %t", throttled, want)
				}
				if name == "not found" && !errors.Is(err, cloudprovider.InstanceNotFound) {
					t.Errorf("it is no longer upstream's: %v", err)
				}
				for _, span := range spans.Ended() {
					if text := span.Status().Description; strings.Contains(text, password[:5]) || len(text) > MaxErrorText {
						t.Errorf("the span of %s says %q", span.Name(), text)
					}
				}
			})
		})
	}
}
