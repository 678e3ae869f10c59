package service

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// startEcho starts an engine whose plugin leaves the addresses to an agent, with a node.
func startEcho(t *testing.T, edits ...func(*engine)) *engine {
	t.Helper()
	e := startEngine(t, 1, edits...)
	e.core.reconciler.applier.balancer = echoPlugin{e.cloud}
	e.changeNode("a", nodeWith("a"))
	time.Sleep(time.Minute)
	return e
}

// echoPlugin returns for a Service named "agent" the status that it was given, and leaves it to an agent to fill that in, as the plugins
// of kube-vip and Harvester do, and DigitalOcean's for a load balancer that it is to disown.
type echoPlugin struct{ *memoryCloud }

func (p echoPlugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	status, err := p.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
	if err == nil && service.Name == "agent" {
		status = &service.Status.LoadBalancer
	}
	return status, err
}

func (p echoPlugin) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, exists, err := p.memoryCloud.GetLoadBalancer(ctx, cluster, service)
	if service.Name == "agent" {
		status = &service.Status.LoadBalancer
	}
	return status, exists, err
}

// shown returns the addresses that a Service shows.
func (e *engine) shown(service *corev1.Service) []string {
	var shown []string
	for _, entry := range e.service(keyOf(service)).Status.LoadBalancer.Ingress {
		shown = append(shown, entry.IP)
	}
	return shown
}

// checkDrift runs a drift check beside an engine until the returned function is called.
func (e *engine) checkDrift(period time.Duration, calls int) (stop func()) {
	drift := e.core.newDriftCheck(e.core.reconciler.applier)
	drift.period, drift.orphans.Period, drift.calls = period, period, calls
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { drift.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// fill writes addresses to a Service's status, as an agent does.
func fill(addresses ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = nil
		for _, address := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
		}
	}
}

// The address that an agent has written stays, whatever happens to the nodes, to the Service and to the manager. Beside it, a Service
// whose plugin gives addresses keeps the plugin's.
func TestTheAddressOfAnAgentStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEcho(t)
		defer e.stop()
		defer e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)()
		agent, plain := serviceWith(named("agent")), serviceWith(named("plain"))
		e.addService(agent)
		e.addService(plain)
		time.Sleep(time.Minute)
		want := []string(nil)
		check := func(when string) {
			t.Helper()
			if diff := cmp.Diff(want, e.shown(agent), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: addresses of the agent (-want +got):\n%s", when, diff)
			}
			if diff := cmp.Diff([]string{"192.0.2.1"}, e.shown(plain)); diff != "" {
				t.Errorf("%s: addresses of the plugin (-want +got):\n%s", when, diff)
			}
			if err := e.mismatch(); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		check("made")
		if condition := conditionOf(e.service(keyOf(agent))); condition == nil || condition.Reason != ReasonNoAddress {
			t.Errorf("condition %+v before the agent has written an address", condition)
		}
		step := func(when string, wait time.Duration, change func()) {
			t.Helper()
			change()
			time.Sleep(wait)
			check(when)
		}
		want = []string{"10.1.2.3"}
		step("the agent has written it", time.Second, func() { e.edit(keyOf(agent), fill(want...)) })
		if condition := conditionOf(e.service(keyOf(agent))); condition == nil || condition.Reason != ReasonProvided {
			t.Errorf("condition %+v after the agent has written an address", condition)
		}
		step("a node came", time.Minute, func() { e.changeNode("b", nodeWith("b")) })
		step("compared with the cloud", 3*DefaultDriftCheckPeriod, func() {})
		step("an annotation changed", time.Minute, func() {
			e.edit(keyOf(agent), func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "other"} })
		})
		want = []string{"10.1.2.4", "10.1.2.5"}
		step("the agent has written others", 3*DefaultDriftCheckPeriod, func() { e.edit(keyOf(agent), fill(want...)) })
		step("another process leads", 3*DefaultDriftCheckPeriod, func() {
			for _, service := range []*corev1.Service{agent, plain} {
				e.core.states.end(uidKey(service), state{}, nil)
				e.addService(e.service(keyOf(service)))
			}
		})
		step("a node went after that", time.Minute, func() { e.changeNode("a", nil) })
		want = nil
		step("the agent takes it back", 3*DefaultDriftCheckPeriod, func() { e.edit(keyOf(agent), fill()) })
		step("a node came after that", time.Minute, func() { e.changeNode("c", nodeWith("c")) })
	})
}

// The agent is quicker than the plugin and the cache: the plugin is given an empty status, and when its answer is there the Service
// has an address.
func TestAnAgentThatIsQuicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEcho(t)
		defer e.stop()
		e.cloud.setChance(func(string) (time.Duration, error) { return 10 * time.Second, nil })
		agent := serviceWith(named("agent"))
		e.addService(agent)
		time.Sleep(5 * time.Second)
		e.edit(keyOf(agent), fill("10.1.2.3"))
		time.Sleep(time.Minute)
		e.changeNode("b", nodeWith("b"))
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"10.1.2.3"}, e.shown(agent)); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})
}

// What the plugin returned is published when the API server takes it again, however long that is after the Ensure.
func TestWhatWasReturnedIsPublishedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		service := serviceWith()
		e.cluster.refuse(errors.New("the API server is away"), func(s *corev1.Service) bool { return len(s.Status.LoadBalancer.Ingress) > 0 })
		e.addService(service)
		time.Sleep(time.Hour)
		if shown := e.shown(service); len(shown) != 0 {
			t.Fatalf("it shows %v", shown)
		}
		e.cluster.refuse(nil, nil)
		time.Sleep(kit.LongestRetry)
		if diff := cmp.Diff([]string{"192.0.2.1"}, e.shown(service)); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
		if n := e.cloud.count("ensure"); n != 1 {
			t.Errorf("%d Ensures, want 1", n)
		}
	})
}

// A plugin that fills in the status of the Service that it was given, and returns that, returns a status of its own.
func TestAPluginThatWritesToWhatItWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.core.reconciler.applier.balancer = writingPlugin{e.cloud}
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"192.0.2.1"}, e.shown(service)); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})
}

type writingPlugin struct{ *memoryCloud }

func (p writingPlugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	status, err := p.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
	if err != nil {
		return nil, err
	}
	service.Status.LoadBalancer = *status
	return &service.Status.LoadBalancer, nil
}
