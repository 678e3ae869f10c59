package service

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// An agent writes the address while the plugin is called, or while the condition is written.
func TestAnAddressThatComesDuringAPass(t *testing.T) {
	for name, at := range map[string]time.Duration{"during the protect": 5 * time.Second, "during the Ensure": 15 * time.Second, "during the publish": 25 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEcho(t, func(e *engine) { e.cluster.patchTakes = 10 * time.Second })
				defer e.stop()
				e.cloud.setChance(func(string) (time.Duration, error) { return 10 * time.Second, nil })
				agent := serviceWith(named("agent"))
				e.addService(agent)
				time.Sleep(at)
				e.edit(keyOf(agent), fill("10.1.2.3"))
				time.Sleep(time.Hour)
				if condition := conditionOf(e.service(keyOf(agent))); condition == nil || condition.Reason != ReasonProvided {
					t.Errorf("condition %+v although the agent has written an address", condition)
				}
			})
		})
	}
}

// The agent takes the address back after the Service was ensured anew with it.
func TestAnAddressThatIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEcho(t)
		defer e.stop()
		agent := serviceWith(named("agent"))
		e.addService(agent)
		time.Sleep(time.Minute)
		e.edit(keyOf(agent), fill("10.1.2.3"))
		time.Sleep(time.Minute)
		e.edit(keyOf(agent), func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "other"} })
		time.Sleep(time.Minute)
		e.edit(keyOf(agent), fill())
		time.Sleep(time.Hour)
		if condition := conditionOf(e.service(keyOf(agent))); condition == nil || condition.Reason != ReasonNoAddress {
			t.Errorf("condition %+v although the agent has taken the address back", condition)
		}
	})
}

// A burst of changes that undoes itself: the settled set is what it was, and a load balancer was made from the set in between.
func TestABurstThatUndoesItself(t *testing.T) {
	for name, there := range map[string]func(*engine){
		"a node came and went": func(e *engine) { e.changeNode("c", nodeWith("c")) },
		"a node went and came": func(e *engine) { e.changeNode("b", nodeWith("b", excluded)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, 1)
				defer e.stop()
				e.changeNode("a", nodeWith("a"))
				e.changeNode("b", nodeWith("b"))
				time.Sleep(time.Minute)
				there(e)
				e.addService(serviceWith())
				time.Sleep(kit.Moment / 2)
				if e.cloud.count("ensure") != 1 {
					t.Fatal("not ensured")
				}
				if e.cloud.has("uid-1", "c") {
					e.changeNode("c", nil)
				} else {
					e.changeNode("b", nodeWith("b"))
				}
				time.Sleep(time.Hour)
				if err := e.mismatch(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A leader that ends while it takes the finalizer away leaves no record of the load balancer that it has deleted.
func TestTheRecordNamesNothingThatIsBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := keyOf(serviceWith(named("s0")))
		l := startLeaders(t, true)
		time.Sleep(time.Minute)
		l.cluster.mu.Lock()
		l.cluster.patchTakes = 10 * time.Second
		l.cluster.mu.Unlock()
		// the last write of the first leader never arrives
		l.cluster.refuse(errors.New("the API server is away"), func(s *corev1.Service) bool { return !hasFinalizer(s) })
		l.edit(key, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(5 * time.Second)
		if l.cloud.count("delete") != 1 {
			t.Fatal("it is not deleted")
		}
		l.core.record.mu.Lock()
		if _, found := l.core.record.stored.Services["uid-s0"]; found {
			t.Error("the record names a load balancer that was deleted")
		}
		l.core.record.mu.Unlock()
		l.stop()
		l.cluster.refuse(nil, nil)
		l.cluster.patchTakes = 0
		l.edit(key, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		l.begin(t)
		defer l.stop()
		if err := l.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

// Nodes come all the time while changes of the targets are slow.
func TestNodesThatComeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.cloud.setChance(func(operation string) (time.Duration, error) { return 20 * time.Second, nil })
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		service := serviceWith()
		e.addService(service)
		var shown time.Duration
		for i := range 60 {
			name := fmt.Sprintf("n%d", i)
			e.changeNode(name, nodeWith(name))
			time.Sleep(10 * time.Second)
			if shown == 0 && len(e.shown(service)) > 0 {
				shown = time.Duration(i+1) * 10 * time.Second
			}
		}
		if failed := e.recorded(EventSyncFailed, EventUpdateFailed); len(failed) > 0 {
			t.Errorf("%d events of failures though no call has failed, the first %s", len(failed), failed[0])
		}
		if shown == 0 || shown > time.Minute {
			t.Errorf("its address was shown after %s (0: never in ten minutes); its Ensure took 20s", shown)
		}
		if condition := conditionOf(e.service(keyOf(service))); condition.Reason != ReasonProvided {
			t.Errorf("condition %+v", condition)
		}
	})
}

// The Ensure of a Service fails while the change of another one's targets hangs, and its own targets wait for that place.
func TestARetryWaitsForNoTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin, services := startStrict(t)
		defer e.stop()
		plugin.setUpdate(func() error { time.Sleep(time.Hour); return nil })
		e.changeNode("b", nodeWith("b")) // one of the updates hangs, the other Service waits for its place
		time.Sleep(DefaultTargetQuiet + time.Second)
		if _, updates := plugin.tried(); updates != 1 {
			t.Fatalf("%d updates", updates)
		}
		for _, service := range services {
			e.edit(keyOf(service), bad)
		}
		time.Sleep(50 * time.Minute)
		if ensures, _ := plugin.tried(); ensures < 10 {
			t.Errorf("%d Ensures in 50 minutes of the Service whose targets wait, want one after each pause", ensures)
		}
	})
}

// The provider asks for a Service to be ensured again while the API server takes no addresses.
func TestARequestOfTheProviderIsNotLostToAWriteThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.cluster.refuse(errors.New("the API server is away"), func(s *corev1.Service) bool { return len(s.Status.LoadBalancer.Ingress) > 0 })
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Minute)
		e.core.retry(keyOf(service))
		time.Sleep(time.Minute)
		e.cluster.refuse(nil, nil)
		time.Sleep(time.Hour)
		if got := e.cloud.count("ensure"); got != 2 {
			t.Errorf("%d Ensures, want one more after the provider has asked for it", got)
		}
	})
}

// What the provider has reported waits for its place when the leader ends.
func TestTheRecordNamesNothingThatIsToBeEnsuredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startLeaders(t, true)
		time.Sleep(time.Minute)
		l.cloud.setChance(func(string) (time.Duration, error) { return time.Hour, nil })
		before := l.cloud.count("ensure")
		l.addService(serviceWith(named("slow")))
		time.Sleep(time.Second)
		l.core.retry(keyOf(serviceWith(named("s0"))))
		time.Sleep(10 * time.Minute)
		if ensures := l.cloud.count("ensure") - before; ensures != 1 {
			t.Fatalf("%d Ensures, want only the one that takes an hour", ensures)
		}
		l.core.record.mu.Lock()
		if _, found := l.core.record.stored.Services["uid-s0"]; found {
			t.Error("the record names a load balancer that is to be ensured again")
		}
		l.core.record.mu.Unlock()
		l.stop()
	})
}

// A deletion has failed, and may have taken effect in part, when the Service wants its load balancer again.
func TestADeletionThatHasFailedLeavesLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Minute)
		e.cloud.setChance(func(operation string) (time.Duration, error) {
			return 0, map[string]error{"delete": errLost}[operation]
		})
		e.edit(keyOf(service), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		time.Sleep(time.Second)
		e.edit(keyOf(service), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })
		time.Sleep(time.Hour)
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

// observer is a plugin that looks at the nodes of each call.
type observer struct {
	*memoryCloud
	look func(call string, nodes []*corev1.Node)
}

func (o *observer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	o.look("Ensure", nodes)
	return o.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (o *observer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	o.look("Update", nodes)
	return o.memoryCloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

// Nodes are excluded while a call is planned and the Service is written before it. No call gets them: a plugin that looks would leave them out, and
// the row would say that they were written.
func TestNodesChangeBetweenAPlanAndItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1, func(e *engine) { e.cluster.patchTakes = 10 * time.Second })
		defer e.stop()
		calls := map[string]int{}
		e.core.reconciler.applier.balancer = &observer{e.cloud, func(call string, nodes []*corev1.Node) {
			calls[call]++
			for _, node := range nodes {
				if roleOf(node) != member {
					t.Errorf("%s gets %s, which is excluded", call, node.Name)
				}
			}
		}}
		e.cloud.setChance(func(string) (time.Duration, error) { return 5 * time.Second, nil })
		e.changeNode("a", nodeWith("a"))
		e.changeNode("b", nodeWith("b"))
		synctest.Wait()
		began := time.Now()
		e.addService(serviceWith()) // the finalizer is written until 10 s, the plugin called until 15 s, and the address written until 25 s
		for _, step := range []struct {
			at     time.Duration
			change func()
		}{
			{5 * time.Second, func() { e.changeNode("b", nodeWith("b", excluded)) }},
			{12 * time.Second, func() { e.changeNode("c", nodeWith("c")) }},
			{20 * time.Second, func() { e.changeNode("c", nodeWith("c", excluded)) }},
			{27 * time.Second, func() { e.changeNode("c", nodeWith("c")) }},
		} {
			time.Sleep(time.Until(began.Add(step.at)))
			step.change()
		}
		time.Sleep(time.Minute)
		if err := e.mismatch(); err != nil || calls["Ensure"] != 1 || calls["Update"] == 0 {
			t.Errorf("%v after the calls %v", err, calls)
		}
	})
}
