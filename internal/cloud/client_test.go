package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

// plugin is a provider whose InstanceMetadata and ListInstances a test decides.
type plugin struct {
	cloudprovider.Interface
	metadata func(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error)
	ensure   func(ctx context.Context) error
	list     provider.ListInstancesFunc
}

func (p *plugin) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return pluginInstances{plugin: p}, p.metadata != nil
}

func (p *plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return pluginBalancer{plugin: p}, p.ensure != nil
}

func (p *plugin) Instances() (cloudprovider.Instances, bool) { return nil, false }
func (p *plugin) Capabilities() provider.Capabilities {
	return provider.Capabilities{ProviderIDSchemes: []string{"x"}, ListInstances: p.list}
}

type pluginInstances struct {
	cloudprovider.InstancesV2
	plugin *plugin
}

func (i pluginInstances) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return i.plugin.metadata(ctx, node)
}

type pluginBalancer struct {
	cloudprovider.LoadBalancer
	plugin *plugin
}

func (b pluginBalancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, _ *v1.Service) error {
	return b.plugin.ensure(ctx)
}

func metadataOf(t *testing.T, cloud cloudprovider.Interface, ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
	t.Helper()
	instances, offered := cloud.InstancesV2()
	if !offered {
		t.Fatal("InstancesV2 is not offered")
	}
	return instances.InstanceMetadata(ctx, nodeNamed(fmt.Sprint("node-", nodes.Add(1))))
}

// nodes counts the nodes that metadataOf asks for: each time for another.
var nodes atomic.Int64

func nodeNamed(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func serviceNamed(name string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func TestOffersWhatThePluginOffers(t *testing.T) {
	cloud := Decorate(&plugin{}, Options{})
	if _, offered := cloud.InstancesV2(); offered {
		t.Error("InstancesV2 is offered, the plugin does not offer it")
	}
	if _, offered := cloud.Instances(); offered {
		t.Error("Instances is offered, the plugin does not offer it")
	}
	capabilities := provider.CapabilitiesOf(cloud)
	if capabilities.ListInstances != nil {
		t.Error("ListInstances is offered, the plugin does not offer it")
	}
	if diff := cmp.Diff([]string{"x"}, capabilities.ProviderIDSchemes); diff != "" {
		t.Errorf("provider-ID schemes (-want +got):\n%s", diff)
	}
}

func TestReadReturnsAtItsDeadlineAndGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		comeBack, first := make(chan struct{}), atomic.Bool{}
		first.Store(true)
		cloud := Decorate(&plugin{metadata: func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			if first.Swap(false) {
				<-comeBack // ignores its context, as many plugins do
			}
			return &cloudprovider.InstanceMetadata{}, nil
		}}, Options{CallTimeout: 3 * time.Second, MaxInFlight: 1})

		start := time.Now()
		_, err := metadataOf(t, cloud, t.Context())
		if !errors.Is(err, classify.ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error = %v, want ErrDeadline", err)
		}
		if took := time.Since(start); took != 3*time.Second+guard.Grace {
			t.Errorf("returned after %s, want 3s and the guard.Grace", took)
		}
		if _, err := metadataOf(t, cloud, t.Context()); err != nil {
			t.Errorf("second call: %v", err)
		}
		if waited := time.Since(start); waited != 3*time.Second+guard.Grace {
			t.Errorf("the only place was free %s after the first call had begun, want its deadline and the guard.Grace of %s", waited, guard.Grace)
		}
		close(comeBack)
	})
}

func TestAWriteWaitsForThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := Decorate(&plugin{ensure: func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(guard.Grace / 2) // the change is still under way
			return errors.New("interrupted")
		}}, Options{WriteTimeout: time.Minute})
		balancer, _ := cloud.LoadBalancer()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		err := balancer.EnsureLoadBalancerDeleted(ctx, "c", serviceNamed("a"))
		if took := time.Since(start); took != 30*time.Second+guard.Grace/2 || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("returned %v after %s, want the plugin's answer although the caller has given up", err, took)
		}
		start = time.Now()
		err = balancer.EnsureLoadBalancerDeleted(t.Context(), "c", serviceNamed("a"))
		if took := time.Since(start); took != time.Minute+guard.Grace/2 {
			t.Errorf("returned after %s, want to wait for the plugin for a moment after the deadline", took)
		}
		if !errors.Is(err, classify.ErrDeadline) || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("error = %v, want ErrDeadline with the plugin's words", err)
		}
	})
}

func TestInFlightIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, callers = 4, 20
		var inFlight, calls atomic.Int32
		release := make(chan struct{})
		cloud := Decorate(&plugin{metadata: func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			inFlight.Add(1)
			calls.Add(1)
			<-release
			inFlight.Add(-1)
			return nil, nil
		}}, Options{MaxInFlight: bound})
		for range callers {
			go func() { _, _ = metadataOf(t, cloud, t.Context()) }()
		}
		for range callers {
			time.Sleep(time.Second) // all that may call have called
			if got := inFlight.Load(); got > bound || got == 0 {
				t.Fatalf("%d calls in flight, want 1 to %d", got, bound)
			}
			release <- struct{}{}
		}
		synctest.Wait()
		if got := calls.Load(); got != callers {
			t.Errorf("%d calls were made, want %d", got, callers)
		}
	})
}

func TestListingHasADeadlinePerPage(t *testing.T) {
	pages := func(pause time.Duration, n int) provider.ListInstancesFunc {
		return func(ctx context.Context, yield func([]provider.Instance) error) error {
			for range n {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
					return ctx.Err()
				}
				if err := yield(make([]provider.Instance, 2)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		count := func(page []provider.Instance) error { seen += len(page); return nil }
		slow := Decorate(&plugin{list: pages(9*time.Second, 5)}, Options{CallTimeout: 10 * time.Second})
		if err := provider.CapabilitiesOf(slow).ListInstances(t.Context(), count); err != nil || seen != 10 {
			t.Errorf("5 pages of 9 s each under a deadline of 10 s a page: %d instances, error %v; want 10 and none", seen, err)
		}
		hanging := Decorate(&plugin{list: pages(11*time.Second, 1)}, Options{CallTimeout: 10 * time.Second})
		if err := provider.CapabilitiesOf(hanging).ListInstances(t.Context(), count); !errors.Is(err, classify.ErrDeadline) {
			t.Errorf("a page of 11 s under a deadline of 10 s: error = %v, want ErrDeadline", err)
		}
		comeBack, handedOn := make(chan struct{}), false
		ignorant := Decorate(&plugin{list: func(_ context.Context, yield func([]provider.Instance) error) error {
			<-comeBack // ignores its context
			return yield(nil)
		}}, Options{CallTimeout: 10 * time.Second})
		err := provider.CapabilitiesOf(ignorant).ListInstances(t.Context(), func([]provider.Instance) error { handedOn = true; return nil })
		close(comeBack)
		if synctest.Wait(); !errors.Is(err, classify.ErrDeadline) || handedOn {
			t.Errorf("a plugin that ignores its context: error = %v, want ErrDeadline; late page handed on: %v", err, handedOn)
		}
		own := errors.New("own")
		err = provider.CapabilitiesOf(slow).ListInstances(t.Context(), func([]provider.Instance) error { return own })
		if err != own {
			t.Errorf("error = %v, want the error of yield as it is", err)
		}
	})
}

func TestMetricsNameOperationAndOutcome(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	answers := []error{errors.New("429"), nil, cloudprovider.InstanceNotFound, &provider.TerminalError{Err: errors.New("no")}}
	calls := 0
	cloud := Decorate(&plugin{metadata: func(context.Context, *v1.Node) (*cloudprovider.InstanceMetadata, error) {
		calls++
		return nil, answers[calls-1]
	}}, Options{Registerer: registry})
	for range answers {
		_, _ = metadataOf(t, cloud, t.Context())
	}
	want := `
# HELP mooring_cloud_calls_total Calls to the cloud through the plugin, by the plugin's method and by outcome (ok, not_found, not_implemented, throttled, terminal, retry, timeout, canceled, panic, error). A listing counts once.
# TYPE mooring_cloud_calls_total counter
mooring_cloud_calls_total{operation="InstanceMetadata",outcome="not_found"} 1
mooring_cloud_calls_total{operation="InstanceMetadata",outcome="ok"} 1
mooring_cloud_calls_total{operation="InstanceMetadata",outcome="terminal"} 1
mooring_cloud_calls_total{operation="InstanceMetadata",outcome="throttled"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "mooring_cloud_calls_total"); err != nil {
		t.Error(err)
	}
}
