package instances_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

func TestACallerThatGivesUpEndsNoOtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		inv := instances.New(instances.Options{Cloud: cloud})
		first, giveUp := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := inv.Lookup(first, node("a"), 0); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who gave up got %v", err)
			}
		})
		synctest.Wait()
		waiting.Go(func() { lookup(t, inv, node("a"), time.Second) })
		time.Sleep(500 * time.Millisecond)
		giveUp()
		waiting.Wait()
		if cloud.count() != 1 || cloud.stopped != 0 {
			t.Errorf("%d listings, %d stopped; want 1 and none", cloud.count(), cloud.stopped)
		}
	})
}

func TestAListingWithoutWaitersIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		inv := instances.New(instances.Options{Cloud: cloud})
		ctx, cancel := context.WithTimeout(t.Context(), instances.DefaultWindow/2)
		defer cancel()
		if _, err := inv.Lookup(ctx, node("a"), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		time.Sleep(time.Minute)
		if got := cloud.count(); got != 0 {
			t.Errorf("%d listings, want none", got)
		}
		lookup(t, inv, node("a"), 0)
	})
}

// TestWhoIsServedByAnothersQuestionIsLinkedToIt: by the call under way, and by its answer later.
func TestWhoIsServedByAnothersQuestionIsLinkedToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inv := instances.New(instances.Options{Cloud: newListingCloud("a", "b", "c")})
		spans := tracetest.NewSpanRecorder()
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
		look := func(name string) {
			ctx, span := tracer.Start(t.Context(), name)
			defer span.End()
			if _, err := inv.Lookup(ctx, node(name), time.Minute); err != nil {
				t.Error(err)
			}
		}
		var waiting sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			waiting.Go(func() { look(name) })
			synctest.Wait()
		}
		waiting.Wait()
		look("c")
		ended := map[string]trace.ReadOnlySpan{}
		for _, span := range spans.Ended() {
			ended[span.Name()] = span
		}
		if links := ended["a"].Links(); len(links) != 0 {
			t.Errorf("the one who asked has the links %v", links)
		}
		for _, name := range []string{"b", "c"} {
			links := ended[name].Links()
			if len(links) != 1 || links[0].SpanContext.SpanID() != ended["a"].SpanContext().SpanID() {
				t.Errorf("%s has the links %v, want one to the span of a", name, links)
			}
		}
	})
}

func TestPagesMayBeReusedByTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := instanceFor("a")
		instance.AdditionalLabels = map[string]string{"rack": "1"}
		inv := instances.New(instances.Options{Cloud: &fixedList{listed: []provider.Instance{instance}}})
		lookup(t, inv, node("a"), 0)
		instance.AdditionalLabels["rack"] = "2"
		if observation := lookup(t, inv, node("a"), time.Hour); observation.Metadata.AdditionalLabels["rack"] != "1" {
			t.Error("what was listed has changed with the provider's memory")
		}
	})
}

func TestAListingWithoutWaitersIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newListingCloud("a")
		inv := instances.New(instances.Options{Cloud: cloud})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := inv.Lookup(ctx, node("a"), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
		synctest.Wait()
		if cloud.stopped != 1 {
			t.Errorf("%d listings stopped, want 1", cloud.stopped)
		}
		lookup(t, inv, node("a"), 0) // and the next one is not held up by an error that was our own doing
	})
}

// panicking is a plugin that panics in what it is asked.
type panicking struct {
	cloudprovider.Interface
	capabilities provider.Capabilities
}

func (panicking) ProviderName() string                           { return "sim" }
func (panicking) InstancesV2() (cloudprovider.InstancesV2, bool) { return panickingInstances{}, true }
func (panicking) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (p panicking) Capabilities() provider.Capabilities          { return p.capabilities }

type panickingInstances struct{ cloudprovider.InstancesV2 }

const panicText = "nil pointer in the plugin"

func (panickingInstances) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	panic(panicText)
}
func (panickingInstances) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	panic(panicText)
}

// A panic of the plugin, which its client turns into an error, is an error to each caller that asked, and the next one may ask again.
func TestAPanicOfThePluginIsAnError(t *testing.T) {
	list := func(context.Context, func([]provider.Instance) error) error { panic(panicText) }
	watch := func(context.Context, func(provider.InstanceEvent) error) error { panic(panicText) }
	for name, capabilities := range map[string]provider.Capabilities{
		"InstanceMetadata and InstanceExists": {}, "ListInstances": {ListInstances: list}, "WatchInstances": {WatchInstances: watch},
		"ListInstances and WatchInstances": {ListInstances: list, WatchInstances: watch},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inv := instances.New(instances.Options{Cloud: cloud.Decorate(panicking{capabilities: capabilities}, cloud.Options{})})
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = inv.Start(ctx) })
				for range 3 {
					answers := 0
					count := func(_ *corev1.Node, _ instances.Observation, err error) {
						if answers++; err == nil || !strings.Contains(err.Error(), panicText) {
							t.Errorf("error %v, want the panic's text", err)
						}
					}
					inv.LookupEach(ctx, []*corev1.Node{node("a")}, 0, count)
					inv.StateEach(ctx, []*corev1.Node{node("a")}, 0, count)
					if answers != 2 {
						t.Errorf("%d answers, want 2", answers)
					}
					time.Sleep(time.Minute)
				}
				stop()
				running.Wait()
			})
		})
	}
}
