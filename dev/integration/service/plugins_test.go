package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/provider"
)

// plugin is a cloud provider as it might have been written for the reference: nothing but the interface. Its cloud is a map.
type plugin struct {
	cloudprovider.Interface // nil: a call that is not expected here ends the test

	mu      sync.Mutex
	exists  map[types.UID]bool
	calls   []string // "ensure a", in the order in which they began
	inside  int
	most    int
	writes  int              // what Capabilities declares
	answers map[string]error // by "ensure", "update", "delete", "get"
	hold    func(ctx context.Context, operation string, name string)
	without bool // it has no load balancers
}

func newPlugin() *plugin { return &plugin{exists: map[types.UID]bool{}, answers: map[string]error{}} }

func (p *plugin) ProviderName() string                                                { return "plain" }
func (p *plugin) Instances() (cloudprovider.Instances, bool)                          { return nil, false }
func (p *plugin) InstancesV2() (cloudprovider.InstancesV2, bool)                      { return nil, false }
func (p *plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool)                    { return p, !p.without }
func (p *plugin) Routes() (cloudprovider.Routes, bool)                                { return nil, false }
func (p *plugin) GetLoadBalancerName(context.Context, string, *corev1.Service) string { return "x" }

// declaring is a plugin that says how many writes it bears.
type declaring struct{ *plugin }

func (d declaring) Capabilities() provider.Capabilities {
	return provider.Capabilities{LoadBalancerWrites: d.writes}
}

// write is what all calls that change something have in common.
func (p *plugin) write(ctx context.Context, operation, name string) error {
	p.mu.Lock()
	p.calls = append(p.calls, operation+" "+name)
	p.inside++
	p.most = max(p.most, p.inside)
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		hold(ctx, operation, name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside--
	return p.answers[operation]
}

func (p *plugin) GetLoadBalancer(_ context.Context, _ string, s *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, "get "+s.Name)
	return status(), p.exists[s.UID], p.answers["get"]
}

func status() *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}
}

func (p *plugin) EnsureLoadBalancer(ctx context.Context, _ string, s *corev1.Service, _ []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	if err := p.write(ctx, "ensure", s.Name); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exists[s.UID] = true
	return status(), nil
}

func (p *plugin) UpdateLoadBalancer(ctx context.Context, _ string, s *corev1.Service, _ []*corev1.Node) error {
	return p.write(ctx, "update", s.Name)
}

func (p *plugin) EnsureLoadBalancerDeleted(ctx context.Context, _ string, s *corev1.Service) error {
	err := p.write(ctx, "delete", s.Name)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.exists, s.UID)
	}
	return err
}

// said returns the calls so far.
func (p *plugin) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *plugin) answer(operation string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[operation] = err
}

// How many writes the cloud sees at once is what the operator says, or else the provider, or else one.
func TestWrites(t *testing.T) {
	for name, test := range map[string]struct{ declared, flag, want int }{
		"undeclared":        {0, 0, 1},
		"the provider says": {3, 0, 3},
		"it says many":      {8, 0, 8}, // as many as the queue admits before the cloud has answered any call
		"the operator says": {3, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			plain := newPlugin()
			plain.writes = test.declared
			full, release := make(chan struct{}), make(chan struct{})
			plain.hold = func(ctx context.Context, _, _ string) {
				plain.mu.Lock()
				if plain.inside == test.want {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				plain.mu.Unlock()
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			startManager(t, cluster, declaring{plain}, func(o *service.Options) { o.Writes = test.flag })
			services := test.want + 10
			createServices(t, services)
			select {
			case <-full:
			case <-time.After(poll.Deadline):
				t.Errorf("there never were %d writes at once", test.want)
			}
			close(release)
			for i := range services {
				waitReady(t, fmt.Sprintf("many-%d", i), "False NoTargets")
			}
			plain.mu.Lock()
			defer plain.mu.Unlock()
			if plain.most != test.want {
				t.Errorf("%d writes at once, want %d", plain.most, test.want)
			}
		})
	}
}

// publications holds back what is written to Services once their load balancers are made, and lets everything else through.
type publications struct {
	http.RoundTripper
	release <-chan struct{}
}

func (p publications) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && request.GetBody != nil && strings.Contains(request.URL.Path, "/services/") {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(content), service.ReasonNoTargets) {
			select {
			case <-p.release:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
	}
	return p.RoundTripper.RoundTrip(request)
}

// While what was made is written to the API server, the cloud is kept busy: its places are for calls to the cloud only.
func TestASlowAPIServerLeavesNoPlaceEmpty(t *testing.T) {
	plain := newPlugin()
	const writes = 10
	plain.writes = writes
	release := make(chan struct{})
	m := manager{harness.Start(t, harness.Options{
		Cluster: cluster, Component: service.Name, Build: builder(declaring{plain}),
		Transport: func(next http.RoundTripper) http.RoundTripper { return publications{next, release} },
	})}
	createServices(t, 2*writes)
	poll.Until(t, "all load balancers are made", func(context.Context) error {
		if got := len(plain.said()); got != 2*writes {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
	close(release)
	for i := range 2 * writes {
		waitReady(t, fmt.Sprintf("many-%d", i), "False NoTargets")
	}
	m.Stop()
	if got := len(m.writesOf(t, "")); got != 2*2*writes {
		t.Errorf("%d writes to %d Services, want two to each", got, 2*writes)
	}
}

// TestPriorities: waiting work comes first. A deletion and a new Service overtake Services that the controller only checks.
func TestPriorities(t *testing.T) {
	first := newPlugin()
	m := startManager(t, cluster, declaring{first})
	const services = 30
	createServices(t, services)
	for i := range services {
		waitReady(t, fmt.Sprintf("many-%d", i), "False NoTargets")
	}
	m.Stop()

	plain := newPlugin() // a new leader, which looks after all of them, one at a time
	began, release := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(began) })
	plain.hold = func(ctx context.Context, _, _ string) {
		once()
		select {
		case <-release:
		case <-ctx.Done():
		}
	}
	m = startManager(t, cluster, declaring{plain})
	<-began
	doomed := "many-7"
	if plain.said()[0] == "ensure "+doomed { // whose pass is under way cannot pass it
		doomed = "many-8"
	}
	deleteService(t, doomed)
	createService(t, "a-new-one") // a watch that shows this has shown the deletion
	waitService(t, "a-new-one", "is taken on", func(s *corev1.Service) error {
		if readiness(s) != "False Ensuring" {
			return fmt.Errorf("it is %q", readiness(s))
		}
		return nil
	})
	poll.Until(t, "all but one wait", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_writes_waiting"); got != services {
			return fmt.Errorf("%v do", got)
		}
		return nil
	})
	close(release)
	waitGone(t, doomed)
	waitReady(t, "a-new-one", "False NoTargets")
	poll.Until(t, "all are looked after", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_load_balancers", "state", "provided"); got != services {
			return fmt.Errorf("%v are", got)
		}
		return nil
	})
	said := plain.said()
	// The one that was under way when they came, then these two.
	if diff := cmp.Diff([]string{"delete " + doomed, "ensure a-new-one"}, said[1:3]); diff != "" {
		t.Errorf("calls (-want +got):\n%s\nall: %q", diff, said)
	}
}

// A provider that leaves Services to another controller is asked once; the finalizer is ours all the same, and the status is not.
func TestImplementedElsewhere(t *testing.T) {
	plain := newPlugin()
	plain.answer("ensure", fmt.Errorf("not here: %w", cloudprovider.ImplementedElsewhere))
	plain.answer("update", cloudprovider.ImplementedElsewhere)
	m := startManager(t, cluster, plain)
	const name = "elsewhere"
	createService(t, name)
	found := waitReady(t, name, "Unknown ImplementedElsewhere")
	if !slices.Contains(found.Finalizers, service.Finalizer) || len(found.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("finalizers %v, status %+v", found.Finalizers, found.Status)
	}
	createNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: corev1.NodeSpec{ProviderID: "plain://1"}})
	poll.Until(t, "the node is known", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_targets"); got != 1 {
			return fmt.Errorf("%v targets", got)
		}
		return nil
	})
	if diff := cmp.Diff([]string{"ensure elsewhere"}, plain.said()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if writes := m.writesOf(t, name); len(writes) != 2 {
		t.Errorf("writes %v, want two", writes)
	}
	plain.answer("delete", cloudprovider.ImplementedElsewhere)
	deleteService(t, name)
	waitGone(t, name)
}

// Plugins exist whose deletion fails when there is nothing to delete, and others whose deletion fails when parts are left. It is repeated
// while there is something, when the error leaves that open, and otherwise three times.
func TestDeletionErrors(t *testing.T) {
	plain := newPlugin()
	startManager(t, cluster, plain, func(o *service.Options) { o.FirstRetry = 200 * time.Millisecond })
	for _, name := range []string{"del-gone", "del-there", "del-throttled"} {
		createService(t, name)
		waitReady(t, name, "False NoTargets")
	}
	uid := getService(t, "del-gone").UID
	plain.mu.Lock()
	delete(plain.exists, uid)
	plain.mu.Unlock()
	plain.answer("delete", errors.New("no such load balancer"))
	deleteService(t, "del-gone")
	waitGone(t, "del-gone")
	want := slices.Repeat([]string{"delete del-gone", "get del-gone"}, 3)
	if said := plain.said(); !slices.Equal(said[len(said)-len(want):], want) || slices.Index(said, want[0]) != len(said)-len(want) {
		t.Errorf("calls %q, want three deletions and as many looks", said)
	}
	waitEvents(t, "del-gone", "Normal EnsuringLoadBalancer", "Warning UnAvailableLoadBalancer", "Normal EnsuredLoadBalancer",
		"Normal DeletingLoadBalancer", "Warning SyncLoadBalancerFailed", "Warning LoadBalancerDeletionIncomplete", "Normal DeletedLoadBalancer")

	deleteService(t, "del-there")
	waitReady(t, "del-there", "False CloudError")
	plain.answer("delete", nil)
	waitGone(t, "del-there")

	uid = getService(t, "del-throttled").UID
	plain.mu.Lock()
	delete(plain.exists, uid)
	plain.mu.Unlock()
	plain.answer("delete", &provider.ThrottledError{Err: errors.New("slow down")})
	deleteService(t, "del-throttled")
	waitReady(t, "del-throttled", "False Throttled")
	plain.answer("delete", nil)
	waitGone(t, "del-throttled")
}

// A plugin that breaks its contract is reported, and a plugin without load balancers left alone.
func TestPluginsThatOfferNothing(t *testing.T) {
	without := newPlugin()
	without.without = true
	m := startManager(t, cluster, without)
	createService(t, "nothing")
	createService(t, "nothing-else", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	m.Stop()
	if writes := m.writesOf(t, ""); len(writes) != 0 || len(without.said()) != 0 {
		t.Errorf("writes %v, calls %q", writes, without.said())
	}
	_, err := service.New(service.Options{})
	if err == nil {
		t.Error("a controller was built from nothing")
	}
}
