package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// checked has load balancers compared with the cloud all the time.
func checked(o *service.Options) {
	o.DriftCheckPeriod, o.DriftCheckCalls, o.AbsenceTime = 300*time.Millisecond, 240, time.Second
}

// tamper changes a load balancer in the cloud, like an operator in its console.
func tamper(t *testing.T, running *simtest.Cloud, name string, change func(*api.LoadBalancerSpec)) {
	t.Helper()
	balancer := balancers(t, running)[name]
	spec := balancer.LoadBalancerSpec
	change(&spec)
	_, err := running.Client.UpdateLoadBalancer(t.Context(), spec, balancer.Generation)
	must.NoError(t, err)
}

// driftChecks returns how many drift checks there have been.
func driftChecks(t *testing.T, m manager) float64 {
	return m.Metric(t, "mooring_service_drift_checks_total", "result", "success")
}

// waitAudits waits for a number of further comparisons.
func waitAudits(t *testing.T, m manager, count float64) {
	t.Helper()
	before := driftChecks(t, m)
	poll.Until(t, "comparisons with the cloud", func(context.Context) error {
		if now := driftChecks(t, m); now < before+count {
			return fmt.Errorf("%v more", now-before)
		}
		return nil
	})
}

// What is changed or deleted in the cloud is repaired, reported and counted; what is as it was is left alone.
func TestDrift(t *testing.T) {
	running, plugin := simulate(t, 2, api.Knobs{})
	joinNodes(t, 1, 2)
	m := startManager(t, cluster, plugin, checked)
	for _, name := range []string{"drift", "still"} {
		createService(t, name)
		waitReady(t, name, "True Provided")
	}
	waitAudits(t, m, 2)
	if n := running.Service.Counts().Received(writeOps...); n != 2 {
		t.Fatalf("%d writes although nothing has drifted", n)
	}
	address := balancers(t, running)["drift"].Addresses[0]
	nodePort := balancers(t, running)["drift"].Listeners[0].TargetPort

	tamper(t, running, "drift", func(spec *api.LoadBalancerSpec) { spec.Targets = spec.Targets[1:] })
	waitTargets(t, running, "drift", 1, 2)
	waitAudits(t, m, 2)
	tamper(t, running, "drift", func(spec *api.LoadBalancerSpec) { spec.Listeners[0].TargetPort = 1 })
	poll.Until(t, "the listener is put right", func(context.Context) error {
		if got := balancers(t, running)["drift"].Listeners[0].TargetPort; got != nodePort {
			return fmt.Errorf("its target port is %d", got)
		}
		return nil
	})
	waitAudits(t, m, 2)
	must.NoError(t, running.Client.DeleteLoadBalancer(t.Context(), balancers(t, running)["drift"].Name, 0))
	poll.Until(t, "the Service has the address of the new load balancer", func(context.Context) error {
		balancer, found := balancers(t, running)["drift"]
		shown := getService(t, "drift").Status.LoadBalancer.Ingress
		if !found || balancer.Addresses[0] == address || len(shown) != 1 || shown[0].IP != balancer.Addresses[0] {
			return fmt.Errorf("found %t, %v instead of %s, shown %v", found, balancer.Addresses, address, shown)
		}
		return nil
	})
	waitReady(t, "drift", "True Provided")
	waitEvents(t, "drift", "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer", "Warning LoadBalancerDrifted")
	waitEvents(t, "still", "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer")
	drifted := func(kind string) float64 { return m.Metric(t, "mooring_service_drift_total", "kind", kind) }
	if gone, changed := drifted("gone"), drifted("changed"); gone != 1 || changed != 2 {
		t.Errorf("%v were counted as gone and %v as changed, want 1 and 2", gone, changed)
	}
	if n := len(m.writesOf(t, "still")); n != 2 {
		t.Errorf("%d writes to the Service that did not drift", n)
	}
}

// A status that others have written stays, as with the reference, until something has the plugin ensure the Service.
func TestStatusOfOthers(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	m := startManager(t, cluster, plugin, checked)
	const name = "overwritten"
	createService(t, name)
	shown := waitReady(t, name, "True Provided").Status.LoadBalancer
	poll.Until(t, "the pass that has published is over", func(context.Context) error {
		if got := m.Metric(t, "mooring_service_time_to_address_seconds"); got != 1 {
			return fmt.Errorf("%v addresses were timed", got)
		}
		return nil
	})
	waitAudits(t, m, 2) // the manager's own write may have caused one more pass, which would write over what others wrote
	writes := running.Service.Counts().Received(writeOps...)
	_, err := admin.CoreV1().Services(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.77"}]},"conditions":null}}`), metav1.PatchOptions{}, "status")
	must.NoError(t, err)
	waitAudits(t, m, 2)
	if now := running.Service.Counts().Received(writeOps...); now != writes || len(m.writesOf(t, name)) != 2 {
		t.Errorf("%d changes of the load balancer, writes to the Service %v", now-writes, m.writesOf(t, name))
	}
	changeService(t, name, func(s *corev1.Service) { s.Spec.Ports[0].Port++ })
	waitService(t, name, "shows its address again", func(s *corev1.Service) error {
		if readiness(s) != "True Provided" || !slices.EqualFunc(shown.Ingress, s.Status.LoadBalancer.Ingress,
			func(a, b corev1.LoadBalancerIngress) bool { return a.IP == b.IP }) {
			return fmt.Errorf("it shows %+v", s.Status)
		}
		return nil
	})
}

// A list that lags behind makes no load balancer look gone, and a list that fails or is cut short nothing at all.
func TestListsThatLieAreNotBelieved(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	m := startManager(t, cluster, plugin, checked)
	createService(t, "lied-about")
	waitReady(t, "lied-about", "True Provided")
	must.NoError(t, running.Service.AddFault(api.Fault{Operation: api.OpListLoadBalancers, Mode: api.FaultEmpty, Count: 1}))
	must.NoError(t, running.Service.AddFault(api.Fault{Operation: api.OpListLoadBalancers, Mode: api.FaultMalformed, Skip: 1, Count: 1}))
	// Both lists have lied once one has failed: a number of comparisons would not say so, as a list was perhaps on its way already.
	failed := func() float64 { return m.Metric(t, "mooring_service_drift_checks_total", "result", "error") }
	poll.Until(t, "a list that cannot be read", func(context.Context) error {
		if failed() == 0 {
			return errors.New("none has failed")
		}
		return nil
	})
	waitAudits(t, m, 2)
	if n := running.Service.Counts().Received(writeOps...); n != 1 {
		t.Errorf("%d writes, want the creation only", n)
	}
	if got := m.Metric(t, "mooring_service_drift_total"); got != 0 {
		t.Errorf("%v drifts were counted", got)
	}
	if got := failed(); got != 1 {
		t.Errorf("%v failed comparisons were counted, want 1", got)
	}
}

// few offers no lists of load balancers.
type few struct{ *sim.Cloud }

func (f few) Capabilities() provider.Capabilities {
	offered := f.Cloud.Capabilities()
	offered.ListLoadBalancers, offered.LoadBalancerWrites = nil, 0
	return offered
}

// Where the cloud cannot list, load balancers are looked at one after the other, within a budget of calls.
func TestDriftWithoutLists(t *testing.T) {
	running, plugin := simulate(t, 1, api.Knobs{})
	joinNodes(t, 1)
	m := startManager(t, cluster, few{plugin}, checked)
	const services = 4
	for i := range services {
		createService(t, fmt.Sprintf("checked-%d", i))
	}
	for i := range services {
		waitReady(t, fmt.Sprintf("checked-%d", i), "True Provided")
	}
	// The time is taken around the counts: the test may be held up between them, and the manager is not.
	began := time.Now()
	before := running.Service.Counts().Received(api.OpGetLoadBalancer)
	waitAudits(t, m, services+2)
	calls := running.Service.Counts().Received(api.OpGetLoadBalancer) - before
	took := time.Since(began)
	if most := int64(took/(250*time.Millisecond)) + 2; calls > most {
		t.Errorf("%d calls in %s, want at most %d", calls, took, most)
	}
	must.NoError(t, running.Client.DeleteLoadBalancer(t.Context(), balancers(t, running)["checked-2"].Name, 0))
	poll.Until(t, "it is made anew", func(context.Context) error {
		if _, found := balancers(t, running)["checked-2"]; !found {
			return fmt.Errorf("it is not there")
		}
		return nil
	})
	waitEvents(t, "checked-2", "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer", "Warning LoadBalancerDrifted")
	if n := running.Service.Counts().Received(writeOps...); n != services+2 { // the deletion by hand is one
		t.Errorf("%d writes", n)
	}
}
