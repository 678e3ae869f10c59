package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// message is the message of the condition LoadBalancerReady.
func message(s *corev1.Service) string {
	for _, condition := range s.Status.Conditions {
		if condition.Type == service.ConditionReady {
			return condition.Message
		}
	}
	return ""
}

// Whatever the cloud fails with, the Service says why it has no address, and has one when the cloud is well again. Its condition says so
// when the next pass fails too, and of a refusal at once.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault  api.Fault
		reason string
		says   string
		times  int
		silent bool
	}{
		"error":     {api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultStatus, Status: 500}, service.ReasonCloudError, "500", 2, false},
		"quota":     {api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultStatus, Status: 429}, service.ReasonThrottled, "throttled", 2, false},
		"forbidden": {api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultStatus, Status: 403}, service.ReasonRefused, "403", 1, false},
		"lost":      {api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultTruncate}, service.ReasonCloudError, "reading it", 1, true},
		"malformed": {api.Fault{Operation: api.OpGetLoadBalancer, Mode: api.FaultMalformed}, service.ReasonCloudError, "invalid character", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			running, plugin := simulate(t, 1, api.Knobs{})
			joinNodes(t, 1)
			test.fault.Count = test.times
			must.NoError(t, running.Service.AddFault(test.fault))
			m := startManager(t, cluster, plugin, func(o *service.Options) { o.FirstRetry = 500 * time.Millisecond })
			created := createService(t, name)
			writes := 2
			if !test.silent {
				writes = 3
				if found := sawReady(t, created, "False "+test.reason); !strings.Contains(message(found), test.says) {
					t.Errorf("the condition says %q, want %q in it", message(found), test.says)
				}
			}
			waitReady(t, name, "True Provided")
			waitEvents(t, name, "Normal EnsuringLoadBalancer", "Warning SyncLoadBalancerFailed", "Normal EnsuredLoadBalancer")
			if n := len(balancers(t, running)); n != 1 {
				t.Errorf("%d load balancers", n)
			}
			if got := m.Metric(t, "mooring_service_failures_total", "reason", test.reason); got != float64(test.times) {
				t.Errorf("%v failures were counted", got)
			}
			if got := m.writesOf(t, name); len(got) != writes {
				t.Errorf("writes %v, want %d: the finalizer, a failure that is shown and the address", got, writes)
			}
		})
	}
}

// What the cloud refuses is asked for again after the pause of any failure, whatever else happens, but at once when the Service changes.
func TestARefusalIsNotRepeated(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	m := startManager(t, cluster, plugin, func(o *service.Options) { o.FirstRetry, o.LongestRetry = time.Hour, time.Hour })
	const name = "refused"
	createService(t, name, func(s *corev1.Service) { s.Annotations = map[string]string{sim.AnnotationAddressing: "pigeon"} })
	waitReady(t, name, "False Refused")
	asked := running.Service.Counts().Received()
	joinNodes(t) // other things happen
	changeService(t, name, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
	createService(t, "not-refused")
	waitReady(t, "not-refused", "True Provided")
	if now := running.Service.Counts(); now.Received()-asked != 2 { // the other's get and creation
		t.Errorf("the cloud was called %d times since: %+v", now.Received()-asked, now.Operations)
	}
	changeService(t, name, func(s *corev1.Service) { s.Annotations = nil })
	waitReady(t, name, "True Provided")
	if writes := m.writesOf(t, name); len(writes) != 3 {
		t.Errorf("writes %v, want the finalizer, the refusal and the address", writes)
	}
}

// A creation that fails in the cloud is seen, reported and made good.
func TestAFailedCreation(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	must.NoError(t, running.Service.AddFault(api.Fault{Operation: api.OpCreateLoadBalancer, Mode: api.FaultAsync, Count: 1}))
	startManager(t, cluster, plugin)
	createService(t, "async")
	waitReady(t, "async", "True Provided")
	if n := running.Service.Counts().Received(api.OpCreateLoadBalancer); n != 2 {
		t.Errorf("%d creations, want the one that failed and one more", n)
	}
}

// TestAThrottledCloudIsLeftAlone: all Services share the quota. After one refusal, the controller makes no call for another Service until the cloud
// accepts calls again.
func TestAThrottledCloudIsLeftAlone(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	must.NoError(t, running.Service.AddFault(api.Fault{
		Operation: api.OpCreateLoadBalancer, Mode: api.FaultStatus, Status: 429, RetryAfter: metav1.Duration{Duration: 2 * time.Second}, Count: 1,
	}))
	startManager(t, cluster, plugin, func(o *service.Options) { o.Writes = 1 })
	const services = 5
	for i := range services {
		createService(t, fmt.Sprintf("throttled-%d", i))
	}
	for i := range services {
		waitReady(t, fmt.Sprintf("throttled-%d", i), "True Provided")
	}
	if n := running.Service.Counts().Received(api.OpCreateLoadBalancer); n != services+1 {
		t.Errorf("%d creations for %d Services after one refusal", n, services)
	}
}

// TestGoneAlready: a load balancer that no longer exists does not block the deletion of its Service. The controller needs one pass, and only the
// calls that show its absence.
func TestGoneAlready(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	startManager(t, cluster, plugin)
	const name = "gone"
	createService(t, name)
	waitReady(t, name, "True Provided")
	must.NoError(t, running.Client.DeleteLoadBalancer(t.Context(), balancers(t, running)[name].Name, 0))
	before := running.Service.Counts()
	deleteService(t, name)
	waitGone(t, name)
	after := running.Service.Counts()
	got := map[api.Operation]int64{}
	for operation, count := range after.Operations {
		if n := count.Received - before.Operations[operation].Received; n > 0 && operation != api.OpListLoadBalancers {
			got[operation] = n
		}
	}
	if diff := cmp.Diff(map[api.Operation]int64{api.OpGetLoadBalancer: 1}, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A deletion that fails is reported, and tried until it has worked; until then the Service stays.
func TestAFailedDeletion(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	startManager(t, cluster, plugin, func(o *service.Options) { o.FirstRetry = 500 * time.Millisecond })
	const name = "undead"
	createService(t, name)
	provided := waitReady(t, name, "True Provided")
	must.NoError(t, running.Service.AddFault(api.Fault{Operation: api.OpDeleteLoadBalancer, Mode: api.FaultStatus, Status: 500, Count: 2}))
	deleteService(t, name)
	sawReady(t, provided, "False CloudError")
	waitGone(t, name)
	waitEvents(t, name, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer", "Normal DeletingLoadBalancer",
		"Warning SyncLoadBalancerFailed", "Normal DeletedLoadBalancer")
	if left := balancers(t, running); len(left) != 0 {
		t.Errorf("left in the cloud: %v", left)
	}
}

// A Service in trouble does not hold up another: the pause after a failure is its own.
func TestTroubleIsNotShared(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	startManager(t, cluster, plugin, func(o *service.Options) { o.Writes = 1 })
	createService(t, "trouble", func(s *corev1.Service) { s.Annotations = map[string]string{sim.AnnotationAddressing: "pigeon"} })
	waitReady(t, "trouble", "False Refused")
	createService(t, "no-trouble")
	waitReady(t, "no-trouble", "True Provided")
	if n := running.Service.Counts().Received(api.OpCreateLoadBalancer); n > 5 {
		t.Errorf("%d creations", n)
	}
}
