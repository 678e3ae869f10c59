package metal_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/health"
)

// optimist is a prober to which every node is healthy.
type optimist struct {
	mu      sync.Mutex
	targets map[model.Probe]netip.Addr
	changed chan struct{}
}

func (o *optimist) Run(ctx context.Context)  { <-ctx.Done() }
func (o *optimist) Configure(config.Health)  {}
func (o *optimist) Changed() <-chan struct{} { return o.changed }

func (o *optimist) SetTargets(targets map[model.Probe]netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.targets = targets
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *optimist) Snapshot() health.Snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := health.Snapshot{Ready: true, Health: map[model.Probe]model.Health{}}
	for probe := range o.targets {
		seen.Health[probe] = model.Healthy
	}
	return seen
}

// noEvents discards events.
type noEvents struct{}

func (noEvents) Event(runtime.Object, string, string, string) {}

// startConditionWriter announces to no sink, and writes the conditions of Services, until the test ends.
func startConditionWriter(t *testing.T) {
	t.Helper()
	watches := informers.NewSharedInformerFactory(admin, 0)
	announcer, err := announce.New(announce.Options{
		Informers: watches, Prober: &optimist{changed: make(chan struct{}, 1)}, Config: config.Announcement{}.WithDefaults(),
		PoolOf: func(netip.Addr) string { return "rack" }, Registerer: prometheus.NewRegistry(),
	})
	must.NoError(t, err)
	writer := &announce.ConditionWriter{
		Announcer: announcer, Client: admin, Services: watches.Core().V1().Services().Lister(), Recorder: noEvents{},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	watches.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { _ = announcer.Run(ctx) })
	running.Go(func() { writer.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		watches.Shutdown()
	})
}

// announced waits until a Service has the condition of its announcement, as "False NoNextHop" and a message that holds a text, or
// has none if status is empty.
func announced(t *testing.T, name, status, text string) {
	t.Helper()
	poll.Until(t, "the announcement of "+name+" is "+status, func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := ""
		for _, condition := range found.Status.Conditions {
			if condition.Type == announce.ConditionAnnounced {
				got = fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
			}
		}
		if !strings.HasPrefix(got, status) || !strings.Contains(got, text) || (status == "") != (got == "") {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// TestTwoWritersOfConditions has the service controller and the condition writer write to the same Services: each its own condition.
func TestTwoWritersOfConditions(t *testing.T) {
	startManager(t, []config.Pool{{Name: "rack", Addresses: []string{"192.0.2.0/30"}}})
	joinNode(t)
	startConditionWriter(t)
	create(t, "web")
	shows(t, "web", "True Provided 192.0.2.")
	announced(t, "web", "False NoEndpoints", "no endpoint of this family")

	node := "m1"
	slices := admin.DiscoveryV1().EndpointSlices(namespace)
	_, err := slices.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}, NodeName: &node}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		must.NoError(t, slices.Delete(context.WithoutCancel(t.Context()), "web-1", metav1.DeleteOptions{}))
	})
	announced(t, "web", "False NoNextHop", "1 node without an InternalIP")

	_, err = admin.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType,
		[]byte(`{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`), metav1.PatchOptions{}, "status")
	must.NoError(t, err)
	announced(t, "web", "True Announced", "is announced with 1 next hop")
	shows(t, "web", "True Provided 192.0.2.")

	change(t, "web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	announced(t, "web", "", "")
}
