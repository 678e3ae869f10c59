package ipam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one is a pool with the addresses 192.0.2.0 to 192.0.2.1, and one IPv6 address.
var one = []config.Pool{{Name: "one", Addresses: []string{"192.0.2.0/31", "2001:db8::1"}}}

// newLeader begins to lead with caches that are up to date.
func newLeader(t *testing.T, api *apiServer, pools []config.Pool) *leader {
	t.Helper()
	last := len(api.versions) - 1
	l, err := lead(api, pools, last, last)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// finish does all that the controller has to do for a Service, with a cache that is up to date, and returns what it shows.
func (l *leader) finish(t *testing.T, name string) string {
	t.Helper()
	for range 10 {
		l.cache.follow(len(l.api.versions) - 1)
		did, err := l.step(name)
		if err != nil {
			return err.Error()
		}
		if !did {
			break
		}
	}
	if l.api.now[name] == nil {
		return "gone"
	}
	return fmt.Sprint(shownBy(l.api.now[name]))
}

func annotate(keysAndValues ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for pair := range slices.Chunk(keysAndValues, 2) {
			s.Annotations[pair[0]] = pair[1]
		}
	}
}

// events returns the events that were recorded since it was last called.
func (l *leader) events() []string {
	var recorded []string
	for {
		select {
		case event := <-l.recorder.Events:
			recorded = append(recorded, event)
		default:
			return recorded
		}
	}
}

func wantEvents(t *testing.T, l *leader, want ...string) {
	t.Helper()
	l.handleChanges()
	if got := l.events(); !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An address that a deleted Service may still show, though no watch has said so, goes to no other Service until the API server no longer
// shows it.
func TestReleasedAddressWaitsForTheAPIServer(t *testing.T) {
	for name, giveUp := range map[string]func(l *leader){
		"by deletion": func(l *leader) { l.api.delete("a") },
		"by a change": func(l *leader) { l.api.change("a", annotate(AnnotationAddresses, "192.0.2.1")) },
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer()
			l := newLeader(t, api, one)
			api.create("a")
			if got := l.finish(t, "a"); got != "[192.0.2.0]" {
				t.Fatal(got)
			}
			giveUp(l)
			l.cache.follow(len(api.versions) - 1)
			if did, err := l.step("a"); !did || err != nil { // it gives the address up; its status still shows it
				t.Fatal(did, err)
			}
			api.create("b", annotate(AnnotationAddresses, "192.0.2.0"))
			if got := l.finish(t, "b"); !strings.HasPrefix(got, "Conflict: 192.0.2.0 is held by the Service default/a") {
				t.Errorf("another Service got %s, which the API server shows as the address of a Service", got)
			}
			l.finish(t, "a")
			l.watch.catchUp()
			if got := l.finish(t, "b"); got != "[192.0.2.0]" {
				t.Errorf("once the API server no longer shows it, another Service gets %s", got)
			}
		})
	}
}

// A change of mind between a grant and its publication leaves nothing behind.
func TestGrantThatWasNeverShown(t *testing.T) {
	api := newAPIServer()
	l := newLeader(t, api, one)
	api.create("a")
	for range 2 { // the finalizer, and the grant
		l.cache.follow(len(api.versions) - 1)
		if did, err := l.step("a"); !did || err != nil {
			t.Fatal(did, err)
		}
	}
	api.change("a", annotate(AnnotationAddresses, "192.0.2.1"))
	if got := l.finish(t, "a"); got != "[192.0.2.1]" {
		t.Fatal(got)
	}
	api.create("b", annotate(AnnotationAddresses, "192.0.2.0"))
	if got := l.finish(t, "b"); got != "[192.0.2.0]" {
		t.Errorf("the address that was granted and never shown: %s", got)
	}
}

// What Services ask for by our annotations, by the annotations of MetalLB, and by field.
func TestRequests(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.Service)
		want string
	}{
		"ours":        {annotate(AnnotationAddresses, "192.0.2.1"), "[192.0.2.1]"},
		"ours first":  {annotate(AnnotationAddresses, "192.0.2.1", "metallb.io/loadBalancerIPs", "192.0.2.0"), "[192.0.2.1]"},
		"metallb":     {annotate("metallb.io/loadBalancerIPs", "192.0.2.1"), "[192.0.2.1]"},
		"old metallb": {annotate("metallb.universe.tf/loadBalancerIPs", "192.0.2.1"), "[192.0.2.1]"},
		"the field":   {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }, "[192.0.2.1]"},
		"a pool":      {annotate("metallb.io/address-pool", "none"), "UnknownPool: there is no pool none; in annotation metallb.io/address-pool, name one of the pools one, or remove it"},
		"an address of no pool": {annotate(AnnotationAddresses, "192.0.2.99"), "OutsidePools: 192.0.2.99 is in no pool; in annotation " +
			"metal.mooring.dev/load-balancer-ips, ask for an address of one of the pools one (192.0.2.0/31, 2001:db8::1), or remove it"},
		"a field of no pool": {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.99" }, "OutsidePools: 192.0.2.99 is in no pool; in spec.loadBalancerIP, ask"},
		"another pool's":     {annotate(AnnotationPool, "two", AnnotationAddresses, "192.0.2.1"), "OutsidePools: 192.0.2.1 is in pool"},
		"no address": {annotate(AnnotationAddresses, "x,192.0.2.1, y"),
			"Invalid: annotation metal.mooring.dev/load-balancer-ips: \"x\" is no address"},
		"field against all": {func(s *corev1.Service) {
			s.Spec.LoadBalancerIP = "192.0.2.1"
			annotate(AnnotationAddresses, "192.0.2.0")(s)
		}, "Invalid: the Service asks for"},
		"one of each family": {func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			annotate(AnnotationAddresses, "192.0.2.1, 2001:db8::1")(s)
		}, "[2001:db8::1 192.0.2.1]"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newAPIServer()
			l := newLeader(t, api, one)
			api.create("a", test.edit)
			if got := l.finish(t, "a"); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Services whose addresses depend on the labels of their namespace get them by those.
func TestNamespaceSelector(t *testing.T) {
	of := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
	}
	pools := []config.Pool{
		{Name: "theirs", Addresses: []string{"192.0.2.0"}, NamespaceSelector: of("other")},
		{Name: "ours", Addresses: []string{"192.0.2.1"}, NamespaceSelector: of("default")},
	}
	api := newAPIServer()
	l := newLeader(t, api, pools)
	api.create("a")
	if got := l.finish(t, "a"); got != "[192.0.2.1]" {
		t.Error(got)
	}
}

// A status says the address, how it behaves and the ports, and is the same by every call.
func TestStatus(t *testing.T) {
	api := newAPIServer()
	l := newLeader(t, api, one)
	service := api.create("a")
	status, err := l.EnsureLoadBalancer(t.Context(), "", service, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := status.Ingress[0]
	if len(status.Ingress) != 1 || got.IP != "192.0.2.0" || *got.IPMode != corev1.LoadBalancerIPModeVIP ||
		!slices.Equal(got.Ports, []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}) {
		t.Errorf("%+v", status)
	}
	if err := l.UpdateLoadBalancer(t.Context(), "", service, nil); err != nil {
		t.Error(err)
	}
	if name := l.GetLoadBalancerName(t.Context(), "", service); name == "" {
		t.Error("no name")
	}
}

// Refusals are terminal, and say why in a type. A Service that was refused is looked at again when it would be granted an address: one
// Service for each address, the oldest first.
func TestRefusedServicesAreRetried(t *testing.T) {
	api := newAPIServer()
	l := newLeader(t, api, one[:1])
	for _, name := range []string{"a", "b", "c", "d"} {
		api.create(name)
		l.finish(t, name)
	}
	_, err := l.EnsureLoadBalancer(t.Context(), "", api.now["c"], nil)
	if refused := Refusal(err); refused == nil || refused.Reason != pool.Exhausted || !provider.IsTerminal(err) {
		t.Errorf("%v", err)
	}
	if l.handleChanges(); len(l.retried) != 0 {
		t.Errorf("retried %v, and nothing has changed", l.retried)
	}
	api.delete("a")
	l.finish(t, "a")
	l.watch.catchUp()
	if l.handleChanges(); fmt.Sprint(l.retried) != "[default/c]" {
		t.Errorf("one address has become free, retried %v", l.retried)
	}
	if got := l.finish(t, "c"); got == "[]" { // the controller's part: the Service is queued again
		t.Error(got)
	}
	must.NoError(t, l.SetPools(append(slices.Clone(one), config.Pool{Name: "more", Addresses: []string{"198.51.100.0/31"}})))
	if l.handleChanges(); fmt.Sprint(l.retried) != "[default/c default/d]" {
		t.Errorf("there are more pools, retried %v", l.retried)
	}
}

// A Service that is refused because of its labels is looked at again when they change, which the controller itself does not.
func TestLabelsOfARefusedService(t *testing.T) {
	api := newAPIServer()
	l := newLeader(t, api, []config.Pool{{Name: "chosen", Addresses: []string{"192.0.2.0"},
		ServiceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}})
	api.create("a")
	if got := l.finish(t, "a"); !strings.HasPrefix(got, "Forbidden: pool chosen is not for the Service default/a") {
		t.Fatal(got)
	}
	api.change("a", func(s *corev1.Service) { s.Labels = map[string]string{"tier": "gold"} })
	l.watch.catchUp()
	if l.handleChanges(); fmt.Sprint(l.retried) != "[default/a]" {
		t.Errorf("retried %v", l.retried)
	}
}

// Services hear what they get, once, and what is to be known of it.
func TestEvents(t *testing.T) {
	api := newAPIServer()
	l := newLeader(t, api, one)
	prefer := corev1.IPFamilyPolicyPreferDualStack
	api.create("a", func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &prefer, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	l.finish(t, "a")
	wantEvents(t, l, "Normal AddressAssigned Assigned 192.0.2.0 from pool one and 2001:db8::1 from pool one")

	must.NoError(t, l.SetPools([]config.Pool{{Name: "two", Addresses: []string{"198.51.100.0/31"}}}))
	wantEvents(t, l, "Warning AddressOutsidePools The Service keeps 192.0.2.0, which is no longer in a pool",
		"Warning AddressOutsidePools The Service keeps 2001:db8::1, which is no longer in a pool")
	l.made = map[string]*madeFor{} // the controller ensures again
	if got := l.finish(t, "a"); got != "[192.0.2.0 2001:db8::1]" {
		t.Errorf("after a change of the pools: %s", got)
	}
	wantEvents(t, l)

	l = newLeader(t, api, []config.Pool{{Name: "two", Addresses: []string{"198.51.100.0/31"}}})
	if got := l.finish(t, "a"); got != "[192.0.2.0 2001:db8::1]" {
		t.Errorf("by the next leader: %s", got)
	}
	wantEvents(t, l, "Warning AddressOutsidePools The Service keeps 192.0.2.0, which is no longer in a pool",
		"Warning AddressOutsidePools The Service keeps 2001:db8::1, which is no longer in a pool")
	api.create("b", func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &prefer, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	l.finish(t, "b")
	wantEvents(t, l, "Normal AddressAssigned Assigned 198.51.100.0 from pool two",
		"Warning DualStackDegraded The Service prefers dual stack and has no IPv6 address: "+
			"no pool that assigns addresses by itself has IPv6 addresses")

	l.sources.Announced = func() bool { return true }
	api.create("c")
	l.finish(t, "c")
	wantEvents(t, l)
}

// Of two Services that show one address when a leader begins, the older keeps it, the other hears why it is refused, and gets
// another one when it asks.
func TestConflictsOnRecord(t *testing.T) {
	api := newAPIServer()
	shown := func(s *corev1.Service) {
		s.Status.LoadBalancer = *statusOf(parse("192.0.2.0"), s.Spec.Ports)
	}
	api.create("old", shown)
	api.create("young", shown)
	l := newLeader(t, api, one)
	wantEvents(t, l, "Warning AddressConflict 192.0.2.0 is also the address of the Service default/old, which is older and keeps it: "+
		"it does not share; ask for another address, or have both share it")
	if got := l.finish(t, "young"); !strings.HasPrefix(got, "Conflict: 192.0.2.0 is also the address of the Service default/old") {
		t.Error(got)
	}
	if got := l.finish(t, "old"); got != "[192.0.2.0]" {
		t.Error(got)
	}
	api.change("young", annotate(AnnotationAddresses, "192.0.2.1"))
	if got := l.finish(t, "young"); got != "[192.0.2.1]" {
		t.Error(got)
	}
}

// A Service of another controller that shows an address of a pool keeps it from ours.
func TestAddressesOfOthers(t *testing.T) {
	api := newAPIServer()
	class := "example.com/other"
	api.create("theirs", func(s *corev1.Service) {
		s.Spec.LoadBalancerClass = &class
		s.Status.LoadBalancer = *statusOf(parse("192.0.2.0"), s.Spec.Ports)
	})
	l := newLeader(t, api, one)
	api.create("ours")
	if got := l.finish(t, "ours"); got != "[192.0.2.1]" {
		t.Error(got)
	}
}

// A Service that has become one of another type still shows its address. The Service that has the address keeps it, and no new one gets it.
func TestAddressOfAServiceOfAnotherType(t *testing.T) {
	api := newAPIServer()
	shown := func(s *corev1.Service) { s.Status.LoadBalancer = *statusOf(parse("192.0.2.0"), s.Spec.Ports) }
	api.create("was", shown, func(s *corev1.Service) { s.Spec.Type, s.Finalizers = corev1.ServiceTypeClusterIP, []string{"x"} })
	api.create("is", shown)
	l := newLeader(t, api, one)
	wantEvents(t, l)
	if got := l.finish(t, "is"); got != "[192.0.2.0]" {
		t.Error(got)
	}
	api.delete("is")
	l.finish(t, "is")
	api.create("late", annotate(AnnotationAddresses, "192.0.2.0"))
	if got := l.finish(t, "late"); !strings.HasPrefix(got, "Conflict: ") {
		t.Errorf("an address that a Service still shows was given to another: %s", got)
	}
}

// Nothing is answered before the allocations are complete, nor by a replica that does not lead. Then a call returns by its deadline.
func TestCallsWaitForTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPIServer()
		service := api.create("a")
		client := api.client()
		refused := errors.New("connection refused")
		var broken atomic.Bool
		client.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			return broken.Load(), nil, refused
		})
		b, err := newLeading(one, nil, Sources{
			Client: client, Services: informer{reader: &reader{api: api}}, Recorder: record.NewFakeRecorder(10),
		})
		must.NoError(t, err)
		call := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := b.EnsureLoadBalancer(ctx, "", service, nil)
			return err
		}
		if err := call(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before it leads: %v", err)
		}
		for range 2 { // it may lead twice
			broken.Store(true)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- b.Run(ctx) }()
			if err := call(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, refused) {
				t.Errorf("while the Services cannot be read: %v", err)
			}
			broken.Store(false)
			if err := call(); err != nil {
				t.Error(err)
			}
			stop()
			must.NoError(t, <-ended)
			if err := call(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after it led: %v", err)
			}
		}
	})
}
