package cloud

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/provider"
)

// usual is how long a call takes of an object that is well.
const usual = 50 * time.Millisecond

// behavior is what a plugin does when it is called for an object.
type behavior func(ctx context.Context) error

func well(ctx context.Context) error { time.Sleep(usual); return nil }

func fails(err error) behavior {
	return func(context.Context) error { time.Sleep(usual); return err }
}

func panics(context.Context) error { time.Sleep(usual); panic("assignment to entry in nil map") }

func exits(context.Context) error { time.Sleep(usual); runtime.Goexit(); return nil }

func slow(takes time.Duration, err error) behavior {
	return func(context.Context) error { time.Sleep(takes); return err }
}

// misbehaving is a plugin whose calls do as is set for each object, and work for all others. What hangs does so until
// the end of the test, whatever its context says.
type misbehaving struct {
	cloudprovider.Interface
	cloud cloudprovider.Interface // as controllers call it
	ctx   context.Context         // until the end of the test

	mu        sync.Mutex
	behaviors map[string]behavior
	calls     map[string]int
	over      chan struct{}
}

func newMisbehaving(options Options) *misbehaving {
	m := &misbehaving{behaviors: map[string]behavior{}, calls: map[string]int{}, over: make(chan struct{})}
	m.cloud = Decorate(m, options)
	return m
}

// many is what a plugin has declared in most of the tests: many calls at the same time.
func many(options Options) Options {
	switch options.MaxInFlight {
	case 0:
		options.MaxInFlight, options.Concurrency.ServiceSyncs = testInFlight, testInFlight
	case -1: // nothing is declared
		options.MaxInFlight = 0
	}
	return options
}

// testInFlight is how many calls at the same time are declared in most of the tests.
const testInFlight = 80

// inVirtualTime runs a test with such a plugin, and ends what hangs after it.
func inVirtualTime(t *testing.T, options Options, test func(t *testing.T, m *misbehaving)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMisbehaving(many(options))
		var cancel context.CancelFunc
		m.ctx, cancel = context.WithCancel(t.Context())
		defer func() {
			cancel()
			close(m.over)
			time.Sleep(2 * time.Hour) // for what is slow
		}()
		test(t, m)
	})
}

// set has the plugin behave so for objects.
func (m *misbehaving) set(b behavior, objects ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, object := range objects {
		m.behaviors[object] = b
	}
}

func (m *misbehaving) hangs(context.Context) error { <-m.over; return errors.New("too late") }

func (m *misbehaving) called(object string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[object]
}

func (m *misbehaving) call(ctx context.Context, object string) error {
	m.mu.Lock()
	m.calls[object]++
	b := m.behaviors[object]
	m.mu.Unlock()
	if b == nil {
		b = well
	}
	return b(ctx)
}

func (m *misbehaving) Instances() (cloudprovider.Instances, bool) { return nil, false }
func (m *misbehaving) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return misbehavingInstances{m}, true
}
func (m *misbehaving) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return misbehavingBalancers{m}, true
}
func (m *misbehaving) Routes() (cloudprovider.Routes, bool) { return misbehavingRoutes{m}, true }
func (m *misbehaving) Capabilities() provider.Capabilities {
	return provider.Capabilities{
		ListInstances: func(ctx context.Context, yield func([]provider.Instance) error) error {
			if err := m.call(ctx, "ListInstances"); err != nil {
				return err
			}
			return yield(nil)
		},
		WatchInstances: func(ctx context.Context, _ func(provider.InstanceEvent) error) error {
			return m.call(ctx, "WatchInstances")
		},
		ListLoadBalancers: func(ctx context.Context, _ string) ([]provider.LoadBalancer, error) {
			return nil, m.call(ctx, "ListLoadBalancers")
		},
	}
}

type misbehavingInstances struct{ m *misbehaving }

func (i misbehavingInstances) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	return true, i.m.call(ctx, node.Name)
}

func (i misbehavingInstances) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	return false, i.m.call(ctx, node.Name)
}

func (i misbehavingInstances) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{}, i.m.call(ctx, node.Name)
}

type misbehavingBalancers struct{ m *misbehaving }

func (b misbehavingBalancers) GetLoadBalancerName(context.Context, string, *v1.Service) string {
	return ""
}

func (b misbehavingBalancers) GetLoadBalancer(ctx context.Context, _ string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	return &v1.LoadBalancerStatus{}, true, b.m.call(ctx, "get "+service.Name)
}

func (b misbehavingBalancers) EnsureLoadBalancer(ctx context.Context, _ string, service *v1.Service, _ []*v1.Node) (*v1.LoadBalancerStatus, error) {
	return &v1.LoadBalancerStatus{}, b.m.call(ctx, service.Name)
}

func (b misbehavingBalancers) UpdateLoadBalancer(ctx context.Context, _ string, service *v1.Service, _ []*v1.Node) error {
	return b.m.call(ctx, service.Name)
}

func (b misbehavingBalancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *v1.Service) error {
	return b.m.call(ctx, service.Name)
}

type misbehavingRoutes struct{ m *misbehaving }

func (r misbehavingRoutes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	return nil, r.m.call(ctx, "ListRoutes")
}

func (r misbehavingRoutes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	return r.m.call(ctx, route.DestinationCIDR)
}

func (r misbehavingRoutes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	return r.m.call(ctx, route.DestinationCIDR)
}

// The calls of controllers, by what they are about.

func (m *misbehaving) node(ctx context.Context, name string) error {
	instances, _ := m.cloud.InstancesV2()
	_, err := instances.InstanceMetadata(ctx, nodeNamed(name))
	return err
}

func (m *misbehaving) exists(ctx context.Context, name string) error {
	instances, _ := m.cloud.InstancesV2()
	_, err := instances.InstanceExists(ctx, nodeNamed(name))
	return err
}

func (m *misbehaving) ensure(ctx context.Context, name string) error {
	balancers, _ := m.cloud.LoadBalancer()
	_, err := balancers.EnsureLoadBalancer(ctx, "c", serviceNamed(name), nil)
	return err
}

func (m *misbehaving) update(ctx context.Context, name string) error {
	balancers, _ := m.cloud.LoadBalancer()
	return balancers.UpdateLoadBalancer(ctx, "c", serviceNamed(name), nil)
}

func (m *misbehaving) get(ctx context.Context, name string) error {
	balancers, _ := m.cloud.LoadBalancer()
	_, _, err := balancers.GetLoadBalancer(ctx, "c", serviceNamed(name))
	return err
}

func (m *misbehaving) route(ctx context.Context, destination string) error {
	routes, _ := m.cloud.Routes()
	return routes.CreateRoute(ctx, "c", "", &cloudprovider.Route{DestinationCIDR: destination})
}

func (m *misbehaving) list(ctx context.Context, _ string) error {
	return provider.CapabilitiesOf(m.cloud).ListInstances(ctx, func([]provider.Instance) error { return nil })
}

func (m *misbehaving) listBalancers(ctx context.Context, _ string) error {
	_, err := provider.CapabilitiesOf(m.cloud).ListLoadBalancers(ctx, "c")
	return err
}

// retried makes a call again and again, as a controller does: after a failure with a pause that doubles. It ends with ctx.
func retried(ctx context.Context, call func(context.Context, string) error, object string, first, longest time.Duration) {
	for pause := first; ctx.Err() == nil; {
		after := first
		if err := call(ctx, object); err != nil {
			after = pause
			if wait, asked := provider.RetryAfter(err); asked {
				after = max(after, wait)
			}
			pause = min(2*pause, longest)
		} else {
			pause = first
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
	}
}

// manyRetry has calls of many objects retried in the background until the end of the test.
func (m *misbehaving) manyRetry(call func(context.Context, string) error, priority admission.Priority, objects ...string) {
	for _, object := range objects {
		go retried(admission.WithPriority(m.ctx, priority), call, object, 5*time.Second, 5*time.Minute)
	}
}

// join makes calls for as many new nodes at once, and returns how long it took until the last was answered.
func (m *misbehaving) join(t *testing.T, nodes int) time.Duration {
	t.Helper()
	var all sync.WaitGroup
	began := time.Now()
	for i := range nodes {
		all.Go(func() {
			if err := m.node(admission.WithPriority(t.Context(), admission.PriorityNewNode), fmt.Sprint("joining-", began.UnixNano(), "-", i)); err != nil {
				t.Errorf("a new node: %v", err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// undisturbed is how long as many nodes take to join where nothing is wrong.
func undisturbed(t *testing.T, nodes int) (took time.Duration) {
	t.Helper()
	inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) { took = m.join(t, nodes) })
	return took
}

func numbered(prefix string, count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}
