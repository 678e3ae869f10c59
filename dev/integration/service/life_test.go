package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// The life of a load balancer, with every call to the cloud and every write to the Service counted.
func TestLife(t *testing.T) {
	running, plugin := simulate(t, 3, api.Knobs{})
	joinNodes(t, 1, 2)
	m := startManager(t, cluster, plugin)
	const name = "life"
	createService(t, name)

	found := waitReady(t, name, "True Provided")
	if !slices.Contains(found.Finalizers, service.Finalizer) {
		t.Errorf("finalizers %v", found.Finalizers)
	}
	balancer := balancers(t, running)[name]
	want := []corev1.LoadBalancerIngress{{IP: balancer.Addresses[0], IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	if diff := cmp.Diff(want, found.Status.LoadBalancer.Ingress); diff != "" {
		t.Errorf("ingress (-want +got):\n%s", diff)
	}
	if listener := balancer.Listeners[0]; listener.Port != 80 || listener.TargetPort != found.Spec.Ports[0].NodePort {
		t.Errorf("listener %+v, want port 80 to the node port %d", listener, found.Spec.Ports[0].NodePort)
	}
	waitTargets(t, running, name, 1, 2)
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")
	if diff := cmp.Diff([]string{"patch status 200", "patch status 200"}, m.writesOf(t, name)); diff != "" {
		t.Errorf("writes to make it (-want +got):\n%s", diff)
	}
	if n := running.Service.Counts().Received(writeOps...); n != 1 {
		t.Errorf("%d writes to the cloud to make it, want 1", n)
	}

	changeService(t, name, func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
	poll.Until(t, "the port changes", func(context.Context) error {
		if got := balancers(t, running)[name].Listeners[0].Port; got != 8080 {
			return fmt.Errorf("it is %d", got)
		}
		return nil
	})
	changeService(t, name, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }) // which is nothing to us
	deleteService(t, name)
	waitGone(t, name)
	if left := balancers(t, running); len(left) != 0 {
		t.Errorf("left in the cloud: %v", left)
	}
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer", "Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer")
	if diff := cmp.Diff([]string{"patch status 200", "patch status 200", "patch status 200"}, m.writesOf(t, name)); diff != "" {
		t.Errorf("all writes (-want +got):\n%s", diff)
	}
	if n := running.Service.Counts().Received(writeOps...); n != 3 {
		t.Errorf("%d writes to the cloud, want the creation, the change and the deletion", n)
	}
	if got := m.Metric(t, "mooring_service_time_to_address_seconds"); got != 1 {
		t.Errorf("%v first addresses were timed, want 1", got)
	}
}

// What the provider says of addresses reaches the status as it is.
func TestStatusForms(t *testing.T) {
	_, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	startManager(t, cluster, plugin)
	annotated := func(key, value string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Annotations = map[string]string{key: value} }
	}
	createService(t, "forms-vip")
	createService(t, "forms-proxy", annotated(sim.AnnotationIPMode, "Proxy"))
	createService(t, "forms-host", annotated(sim.AnnotationAddressing, "hostname"))
	if found := waitReady(t, "forms-vip", "True Provided"); *found.Status.LoadBalancer.Ingress[0].IPMode != corev1.LoadBalancerIPModeVIP {
		t.Errorf("a VIP: %+v", found.Status.LoadBalancer)
	}
	if found := waitReady(t, "forms-proxy", "True Provided"); *found.Status.LoadBalancer.Ingress[0].IPMode != corev1.LoadBalancerIPModeProxy {
		t.Errorf("a proxy: %+v", found.Status.LoadBalancer)
	}
	if shown := waitReady(t, "forms-host", "True Provided").Status.LoadBalancer.Ingress[0]; shown.Hostname == "" || shown.IP != "" {
		t.Errorf("a host name: %+v", shown)
	}
	// A change of the form replaces the address.
	changeService(t, "forms-vip", annotated(sim.AnnotationAddressing, "hostname"))
	waitService(t, "forms-vip", "has a host name", func(s *corev1.Service) error {
		if got := s.Status.LoadBalancer.Ingress; len(got) != 1 || got[0].Hostname == "" || got[0].IP != "" {
			return fmt.Errorf("it has %+v", got)
		}
		return nil
	})
}

// A Service that becomes one of another type loses its load balancer, the finalizer and the condition; it gets new ones when it
// changes its mind.
func TestTypeChange(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	m := startManager(t, cluster, plugin)
	const name = "type"
	createService(t, name, func(s *corev1.Service) { s.Finalizers = []string{"example.com/keep"} })
	waitReady(t, name, "True Provided")
	changeService(t, name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	found := waitService(t, name, "has no load balancer", func(s *corev1.Service) error {
		if slices.Contains(s.Finalizers, service.Finalizer) {
			return fmt.Errorf("the finalizer is there")
		}
		return nil
	})
	if len(found.Status.LoadBalancer.Ingress) > 0 || len(found.Status.Conditions) > 0 || !slices.Equal(found.Finalizers, []string{"example.com/keep"}) {
		t.Errorf("status %+v, finalizers %v", found.Status, found.Finalizers)
	}
	if left := balancers(t, running); len(left) != 0 {
		t.Errorf("left in the cloud: %v", left)
	}
	changeService(t, name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
	waitReady(t, name, "True Provided")
	deleteService(t, name)
	waitService(t, name, "is held by the other finalizer only", func(s *corev1.Service) error {
		if !slices.Equal(s.Finalizers, []string{"example.com/keep"}) || len(s.Status.LoadBalancer.Ingress) > 0 {
			return fmt.Errorf("finalizers %v, status %+v", s.Finalizers, s.Status)
		}
		return nil
	})
	if left := balancers(t, running); len(left) != 0 {
		t.Errorf("left in the cloud: %v", left)
	}
	if writes := m.writesOf(t, name); len(writes) != 6 {
		t.Errorf("writes %v, want two to make and one to unmake, twice", writes)
	}
}

// Which Services are ours is said by class; those of others get no write and cost no call, whatever finalizer they have.
func TestClasses(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	class := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name }
	}
	createService(t, "class-none")
	createService(t, "class-ours", class(ours))
	createService(t, "class-other", class("example.com/other"), func(s *corev1.Service) { s.Finalizers = []string{service.Finalizer} })
	m := startManager(t, cluster, plugin, func(o *service.Options) { o.Classes = service.Classes{Names: []string{ours}} })
	waitReady(t, "class-ours", "True Provided")
	deleteService(t, "class-other")
	m.Stop()
	if got := balancers(t, running); len(got) != 1 || len(m.writesOf(t, "class-none"))+len(m.writesOf(t, "class-other")) > 0 {
		t.Errorf("load balancers %v, writes to others %v", got, m.writesOf(t, ""))
	}
	m = startManager(t, cluster, plugin) // as the reference: those without a class
	waitReady(t, "class-none", "True Provided")
	deleteService(t, "class-ours") // taken on by the one before, and not lost
	waitGone(t, "class-ours")
	m.Stop()
	if got := balancers(t, running); len(got) != 1 || len(m.writesOf(t, "class-other")) > 0 {
		t.Errorf("load balancers %v, writes to others %v", got, m.writesOf(t, "class-other"))
	}
	if found := getService(t, "class-other"); !slices.Equal(found.Finalizers, []string{service.Finalizer}) {
		t.Errorf("the finalizers of another controller's Service are %v", found.Finalizers)
	}
}

// The cloud takes its time: the Service says so, is asked for at the pace that the provider sets, and gets its address.
func TestPending(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{LoadBalancerDelay: metav1.Duration{Duration: 5 * time.Second}})
	joinNodes(t, 1)
	m := startManager(t, cluster, plugin)
	const name = "pending"
	began := time.Now()
	createService(t, name)
	waitReady(t, name, "False Pending")
	waitReady(t, name, "True Provided")
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal PendingLoadBalancer", "Normal EnsuredLoadBalancer")
	counts := running.Service.Counts()
	if created := counts.Received(api.OpCreateLoadBalancer); created != 1 {
		t.Errorf("%d creations", created)
	}
	if asked, took := counts.Received(api.OpGetLoadBalancer), time.Since(began); asked > int64(took.Seconds())+2 { // one before the creation, then one a second
		t.Errorf("the cloud was asked %d times in %s", asked, took)
	}
	want := []string{"patch status 200", "patch status 200", "patch status 200"}
	if diff := cmp.Diff(want, m.writesOf(t, name)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// A restart costs no write, neither to the cloud nor to Services.
func TestARestartWritesNothing(t *testing.T) {
	running, plugin := simulate(t, 2, api.Knobs{})
	joinNodes(t, 1, 2)
	const services = 10
	for i := range services {
		createService(t, fmt.Sprintf("restart-%d", i))
	}
	m := startManager(t, cluster, plugin)
	for i := range services {
		name := fmt.Sprintf("restart-%d", i)
		waitReady(t, name, "True Provided")
		waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")
	}
	m.Stop()
	before := running.Service.Counts()
	m = startManager(t, cluster, plugin)
	poll.Until(t, "all have been looked after", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_load_balancers", "state", "provided"); got != services {
			return fmt.Errorf("%v have", got)
		}
		return nil
	})
	m.Stop()
	after := running.Service.Counts()
	if n := after.Received(writeOps...) - before.Received(writeOps...); n != 0 {
		t.Errorf("%d writes to the cloud", n)
	}
	if writes := m.writesOf(t, ""); len(writes) != 0 {
		t.Errorf("writes to Services: %v", writes)
	}
	if writes := m.writesTo(t, "events", ""); len(writes) != 0 {
		t.Errorf("writes of events: %v", writes)
	}
}

// TestAnotherServiceOfTheSameName: a Service is deleted and created again with the same name, and no controller sees that. It is another Service.
func TestAnotherServiceOfTheSameName(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	startManager(t, cluster, plugin)
	const name = "again"
	first := createService(t, name)
	waitReady(t, name, "True Provided")
	strip(t, name) // a user removes the finalizer by force
	second := createService(t, name)
	waitReady(t, name, "True Provided")
	poll.Until(t, "only the second has a load balancer", func(context.Context) error {
		for _, balancer := range balancers(t, running) {
			if uid := balancer.Tags[sim.TagServiceUID]; uid != string(second.UID) {
				return fmt.Errorf("there is one of %s; the first was %s, the second is %s", uid, first.UID, second.UID)
			}
		}
		return nil
	})
	strip(t, name)
	poll.Until(t, "the load balancer of a Service that vanished is gone", func(context.Context) error {
		if left := balancers(t, running); len(left) != 0 {
			return fmt.Errorf("%v are there", left)
		}
		return nil
	})
}

// TestRefusalsOfTheAPIServer shows two refusals of the API server. They tell the controller that a Service has changed: a patch for another Service
// of the same name, and a finalizer for a Service that is being deleted.
func TestRefusalsOfTheAPIServer(t *testing.T) {
	createService(t, "refusals", func(s *corev1.Service) {
		s.Spec.Type, s.Finalizers = corev1.ServiceTypeClusterIP, []string{"example.com/keep"}
	})
	deleteService(t, "refusals")
	for field, patch := range map[string]string{
		"metadata.uid":        `{"metadata":{"uid":"another"}}`,
		"metadata.finalizers": `{"metadata":{"finalizers":["` + service.Finalizer + `"]}}`,
	} {
		_, err := admin.CoreV1().Services(namespace).Patch(t.Context(), "refusals", types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}, "status")
		var status apierrors.APIStatus
		if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details.Causes[0].Field != field {
			t.Errorf("the patch %s ended with %v, want one that is invalid in %s", patch, err, field)
		}
	}
}
