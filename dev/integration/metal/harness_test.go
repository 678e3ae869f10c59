package metal_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam"
)

const namespace = "default"

// plugin is a provider with nothing but the addresses of the bare-metal one.
type plugin struct {
	cloudprovider.Interface // nil: a call that is not expected here ends the test
	*ipam.Allocator
}

func (p plugin) ProviderName() string                                              { return "metal" }
func (p plugin) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return p.Allocator, true }
func (p plugin) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (p plugin) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return nil, false }
func (p plugin) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (p plugin) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (p plugin) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (p plugin) HasClusterID() bool                                                { return true }
func (p plugin) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (p plugin) Capabilities() provider.Capabilities {
	return provider.Capabilities{
		LoadBalancerWrites: ipam.Writes, ListLoadBalancers: p.ListLoadBalancers, RetryLoadBalancers: p.RetryLoadBalancers,
	}
}

// leading runs a provider's addresses beside the service controller, as a leader does.
type leading struct {
	*service.Controller
	plugin  plugin
	watches informers.SharedInformerFactory
}

func (l leading) Start(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer l.watches.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.watches.Start(ctx.Done())
	running.Go(func() { _ = l.plugin.Run(ctx) })
	return l.Controller.Start(ctx)
}

// startManager runs a manager with some pools until the test ends. Retries are an hour apart: a Service that is served sooner was retried
// because something changed.
func startManager(t *testing.T, pools []config.Pool) (*harness.Manager, *ipam.Allocator) {
	t.Helper()
	var addresses *ipam.Allocator
	build := func(parts harness.Parts) (manager.Runnable, error) {
		watches := informers.NewSharedInformerFactory(parts.Clients, 0)
		var err error
		if addresses, err = ipam.New(pools, parts.Registry); err != nil {
			return nil, err
		}
		if err := addresses.Lead(ipam.Sources{
			Client: parts.Clients, Services: watches.Core().V1().Services().Informer(), Recorder: parts.Recorder,
		}); err != nil {
			return nil, err
		}
		unwrapped := plugin{Allocator: addresses}
		decorated := cloud.Decorate(unwrapped, cloud.Options{Registerer: parts.Registry})
		controller, err := service.New(service.Options{
			Client: parts.GetClient(), LiveReader: parts.GetAPIReader(), Cache: parts.GetCache(), Recorder: parts.Recorder,
			Cloud: decorated, ClusterName: "kubernetes",
			Owners: ownership.Rules{ProviderName: "metal"}, Classes: service.Classes{Default: true},
			Registerer: parts.Registry, Logger: parts.Logger, TargetQuiet: 50 * time.Millisecond,
			FirstRetry: time.Hour, LongestRetry: time.Hour, DriftCheckPeriod: 300 * time.Millisecond, CollectOrphans: true,
		})
		return leading{controller, unwrapped, watches}, err
	}
	started := harness.Start(t, harness.Options{Cluster: cluster, Component: service.Name, Build: build})
	return started, addresses
}

// joinNode creates an initialized node for as long as the test runs.
func joinNode(t *testing.T) {
	t.Helper()
	_, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "m1"}, Spec: corev1.NodeSpec{ProviderID: "metal://m1"},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		if err := admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), "m1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// create creates a Service of type LoadBalancer, and sees to it that it is gone when the test ends.
func create(t *testing.T, name string, edits ...func(*corev1.Service)) {
	t.Helper()
	wanted := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, edit := range edits {
		edit(wanted)
	}
	_, err := admin.CoreV1().Services(namespace).Create(t.Context(), wanted, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() { strip(t, name) })
}

// strip deletes a Service that a test has left, whatever finalizer it has.
func strip(t *testing.T, name string) {
	t.Helper()
	harness.StripService(t, admin, namespace, name)
}

func remove(t *testing.T, name string) {
	t.Helper()
	must.NoError(t, admin.CoreV1().Services(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func change(t *testing.T, name string, edit func(*corev1.Service)) {
	t.Helper()
	harness.ChangeService(t, admin, namespace, name, edit)
}

// shows waits until a Service shows its condition and addresses, as "True Provided 192.0.2.1", or has a condition whose message
// begins so.
func shows(t *testing.T, name, want string) {
	t.Helper()
	poll.Until(t, "service "+name+" shows "+want, func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := shown(found); !strings.HasPrefix(got, want) {
			return fmt.Errorf("it shows %q", got)
		}
		return nil
	})
}

func shown(s *corev1.Service) string {
	var parts []string
	at := slices.IndexFunc(s.Status.Conditions, func(c metav1.Condition) bool { return c.Type == service.ConditionReady })
	if at >= 0 {
		parts = append(parts, string(s.Status.Conditions[at].Status), s.Status.Conditions[at].Reason)
	}
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		parts = append(parts, ingress.IP)
	}
	if at >= 0 && s.Status.Conditions[at].Status == metav1.ConditionFalse {
		parts = append(parts, s.Status.Conditions[at].Message)
	}
	return strings.Join(parts, " ")
}

// wantEvent waits for an event on a Service whose message holds a text.
func wantEvent(t *testing.T, name, reason, text string) {
	t.Helper()
	poll.Until(t, "service "+name+" has an event "+reason, func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + name + ",reason=" + reason,
		})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("its events are %+v", events.Items)
	})
}
