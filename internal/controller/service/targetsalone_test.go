package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// strictPlugin refuses Services whose annotation "lb" is "bad", when they are ensured and when their targets are changed.
type strictPlugin struct {
	*memoryCloud

	mu sync.Mutex
	// ensureTakes is how long it takes to refuse.
	ensureTakes time.Duration
	// update returns the error of the next update; nil: only bad Services are refused.
	update  func() error
	ensures []time.Time
	updates []time.Time
}

func (s *strictPlugin) check(service *corev1.Service) error {
	if service.Annotations["lb"] == "bad" {
		return errors.New("the annotation lb is invalid")
	}
	return nil
}

// tried returns how many Ensures were refused, and how many updates there were.
func (s *strictPlugin) tried() (ensures, updates int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ensures), len(s.updates)
}

func (s *strictPlugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	if err := s.check(service); err != nil {
		s.mu.Lock()
		s.ensures = append(s.ensures, time.Now())
		took := s.ensureTakes
		s.mu.Unlock()
		time.Sleep(took)
		return nil, err
	}
	return s.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (s *strictPlugin) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	s.mu.Lock()
	s.updates = append(s.updates, time.Now())
	update := s.update
	s.mu.Unlock()
	if update != nil {
		if err := update(); err != nil {
			return err
		}
	}
	if err := s.check(service); err != nil {
		return err
	}
	return s.memoryCloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

// setUpdate has updates end with what a function returns.
func (s *strictPlugin) setUpdate(update func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update = update
}

// pauses returns how long after each other the refused Ensures, or the updates, were since a time.
func (s *strictPlugin) pauses(of *[]time.Time, since time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pauses []time.Duration
	for i := 1; i < len(*of); i++ {
		if !(*of)[i-1].Before(since) {
			pauses = append(pauses, (*of)[i].Sub((*of)[i-1]))
		}
	}
	return pauses
}

func bad(s *corev1.Service) { s.Annotations = map[string]string{"lb": "bad"} }

// startStrict starts an engine with two Services that work, on the node a.
func startStrict(t *testing.T, edits ...func(*engine)) (*engine, *strictPlugin, []*corev1.Service) {
	t.Helper()
	e := startEngine(t, 1, edits...)
	plugin := &strictPlugin{memoryCloud: e.cloud}
	e.core.reconciler.applier.balancer = plugin
	e.changeNode("a", nodeWith("a"))
	time.Sleep(time.Minute)
	services := []*corev1.Service{serviceWith(named("edited")), serviceWith(named("healthy"))}
	for _, service := range services {
		e.addService(service)
	}
	time.Sleep(time.Minute)
	if err := e.mismatch(); err != nil {
		t.Fatal(err)
	}
	return e, plugin, services
}

// While a Service cannot be ensured because of its annotation, its targets follow the nodes, as do those of the others. The Ensure
// keeps its pauses and its condition.
func TestTargetsFollowWhileEnsureFails(t *testing.T) {
	for _, byDifference := range []bool{false, true} {
		t.Run(fmt.Sprintf("by difference %t", byDifference), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plugin, services := startStrict(t, func(e *engine) { e.cloud.byDifference = byDifference })
				defer e.stop()
				key := keyOf(services[0])
				edited := time.Now()
				e.edit(key, bad)
				time.Sleep(10 * time.Second)
				for round := range 24 {
					name, before := fmt.Sprintf("node-%d", round), fmt.Sprintf("node-%d", round-1)
					if round == 0 {
						before = "a"
					}
					e.changeNode(name, nodeWith(name))
					e.changeNode(before, nil)
					if took, bound := e.follow(t, services, name), DefaultTargetQuiet+2*time.Second; took > bound {
						t.Errorf("round %d: %s until both load balancers had a node, want at most %s", round, took, bound)
					}
					if err := e.mismatch(); err != nil {
						t.Errorf("round %d: %v", round, err)
					}
					time.Sleep(time.Hour)
				}
				if pauses := plugin.pauses(&plugin.ensures, edited); len(pauses) < 24*60/5 || pauses[0] != DefaultFirstRetry ||
					pauses[len(pauses)-1] != kit.LongestRetry {
					t.Errorf("%d pauses between the Ensures, the first %v", len(pauses), pauses[:min(len(pauses), 9)])
				}
				if condition := conditionOf(e.service(key)); condition == nil || condition.Reason != ReasonCloudError {
					t.Errorf("condition %+v, want the error of the Ensure", condition)
				}
				e.recorded()
				e.edit(key, func(s *corev1.Service) { s.Annotations["lb"] = "good" })
				time.Sleep(time.Second)
				if condition := conditionOf(e.service(key)); condition == nil || condition.Reason != ReasonProvided {
					t.Errorf("condition %+v after the annotation was corrected", condition)
				}
			})
		})
	}
}

// After a restart, a Service that cannot be ensured and has an address has its targets written too: as it is now, because it is not
// known what it was.
func TestTargetsFollowAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.cloud.setChance(func(operation string) (time.Duration, error) {
			if operation == "ensure" {
				return time.Second, errors.New("the quota of rules is used up")
			}
			return 0, nil
		})
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		exists, is := serviceWith(named("exists"), protected, reached("192.0.2.1")), serviceWith(named("new"))
		e.cloud.mu.Lock()
		e.cloud.balancer[exists.UID] = map[string]string{"old": "sim://old"}
		e.cloud.mu.Unlock()
		e.addService(exists)
		e.addService(is)
		time.Sleep(time.Minute)
		if !e.cloud.has(exists.UID, "a") || e.cloud.has(exists.UID, "old") {
			t.Error("the load balancer has the targets from before the restart")
		}
		e.changeNode("b", nodeWith("b"))
		if took, bound := e.follow(t, []*corev1.Service{exists}, "b"), DefaultTargetQuiet+2*time.Second; took > bound {
			t.Errorf("%s until the load balancer had a node, want at most %s", took, bound)
		}
		if n := e.cloud.count("update"); n != 2 {
			t.Errorf("%d updates, want two: a Service that never had a load balancer has no targets", n)
		}
	})
}

// An update that fails while the Ensure fails has pauses and an event of its own, whether either is slow or not; neither makes the
// other late.
func TestTargetsAndEnsureFailOnTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin, services := startStrict(t)
		defer e.stop()
		key := keyOf(services[0])
		e.edit(key, bad)
		time.Sleep(2 * time.Hour)
		e.recorded()
		plugin.setUpdate(func() error { return errors.New("the pool is locked") })
		began := time.Now()
		e.edit(keyOf(services[1]), bad) // which has not failed so far
		e.changeNode("b", nodeWith("b"))
		time.Sleep(time.Hour)
		if pauses := plugin.pauses(&plugin.updates, began); len(pauses) < 2*60/5 || pauses[len(pauses)-1] > kit.LongestRetry {
			t.Errorf("%d updates of two load balancers in an hour, at the end after %v", len(pauses)+1, pauses[max(0, len(pauses)-3):])
		}
		if pauses := plugin.pauses(&plugin.ensures, began); len(pauses) < 2*25 || len(pauses) > 2*33 {
			t.Errorf("%d Ensures of two Services in an hour", len(pauses)+1)
		}
		for _, service := range services {
			failed := 0
			for _, event := range e.recorded(EventUpdateFailed) {
				if strings.Contains(event, "the pool is locked") {
					failed++
				}
			}
			if service == services[0] && (failed < 2 || failed > 2*7) {
				t.Errorf("%d events of the updates, want one each at first and every ten minutes", failed)
			}
			if condition := conditionOf(e.service(keyOf(service))); condition == nil || !strings.Contains(condition.Message, "annotation") {
				t.Errorf("condition %+v of %s, want the error of the Ensure", condition, service.Name)
			}
		}
		plugin.setUpdate(nil)
		if took := e.follow(t, services, "b"); took > kit.LongestRetry {
			t.Errorf("%s until the load balancers had the node after updates worked again", took)
		}
	})
}

// While a changed Service waits for the place of one whose Ensure hangs, its targets follow the nodes. While it follows them, no place is kept for it
// that others could have, and it keeps its turn.
func TestTargetsFollowWhileTheServiceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		plugin := e.troubled(func(name string, number int) (time.Duration, error) {
			switch {
			case name == "slow":
				return time.Hour, nil
			case name == "changed" && number == 3:
				return 2 * time.Hour, nil
			default:
				return 0, nil
			}
		})
		for _, name := range []string{"a", "b", "c"} {
			e.changeNode(name, nodeWith(name))
		}
		changed := serviceWith(named("changed"))
		e.addService(changed)
		time.Sleep(time.Minute)
		e.addService(serviceWith(named("slow")))
		time.Sleep(time.Second)
		e.edit(keyOf(changed), func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "other"} })
		time.Sleep(time.Minute)
		e.changeNode("a", nil)
		time.Sleep(kit.Moment + time.Second)
		if e.cloud.has(changed.UID, "a") {
			t.Error("the load balancer of a Service that waits for its place has a target that is gone")
		}
		e.changeNode("b", nil) // an update that takes longer than the Ensure that has the place
		time.Sleep(90 * time.Minute)
		e.addService(serviceWith(named("new")))
		time.Sleep(time.Second)
		if got := len(plugin.written("new")); got != 1 {
			t.Errorf("%d writes for a new Service, want one: no other is ensured", got)
		}
		if got := len(plugin.written("changed")); got != 3 {
			t.Errorf("%d writes for the changed Service, want one Ensure and two updates", got)
		}
		time.Sleep(time.Hour)
		if got := len(plugin.written("changed")); got != 4 || e.core.reconciler.limiter.CountWaiting() != 0 {
			t.Errorf("%d writes for the changed Service, want its Ensure after the updates; %d wait", got, e.core.reconciler.limiter.CountWaiting())
		}
	})
}

// A slow Ensure that fails forever keeps the targets waiting for as long as one call takes, and a slow update that fails forever
// does not keep the Ensure from its turn.
func TestSlowFailuresTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin, services := startStrict(t)
		defer e.stop()
		plugin.mu.Lock()
		plugin.ensureTakes = slowWrite
		plugin.mu.Unlock()
		for _, service := range services {
			e.edit(keyOf(service), bad)
		}
		time.Sleep(time.Hour)
		for round := range 12 {
			name := fmt.Sprintf("node-%d", round)
			e.changeNode(name, nodeWith(name))
			if took, bound := e.follow(t, services, name), DefaultTargetDelay+2*slowWrite; took > bound {
				t.Errorf("round %d: %s until both load balancers had a node, want at most %s", round, took, bound)
			}
			time.Sleep(time.Hour)
		}
		began := time.Now()
		plugin.setUpdate(func() error { time.Sleep(slowWrite); return errors.New("no answer") })
		e.changeNode("last", nodeWith("last"))
		time.Sleep(12 * time.Hour)
		updates, ensures := len(plugin.pauses(&plugin.updates, began)), len(plugin.pauses(&plugin.ensures, began))
		if turns := 12 * 60 / 5; updates < turns/4 || ensures < turns/4 {
			t.Errorf("%d updates and %d Ensures of %d turns", updates, ensures, turns)
		}
	})
}

// A Service that is refused for quota has its targets wait too, for as long as the cloud asks.
func TestTargetsWaitForAsLongAsTheCloudAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _, services := startStrict(t)
		defer e.stop()
		e.cloud.setChance(func(operation string) (time.Duration, error) {
			if operation == "ensure" {
				return 0, &provider.ThrottledError{RetryAfter: 10 * time.Minute, Err: errors.New("slow down")}
			}
			return 0, nil
		})
		e.edit(keyOf(services[0]), func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "other"} })
		time.Sleep(time.Second)
		e.changeNode("b", nodeWith("b"))
		if took := e.follow(t, services[1:], "b"); took > DefaultTargetQuiet+time.Second {
			t.Errorf("%s until the load balancer that was not refused had the node", took)
		}
		time.Sleep(9 * time.Minute)
		if e.cloud.has(services[0].UID, "b") {
			t.Error("the targets were changed although the cloud asked to wait")
		}
		time.Sleep(2 * time.Minute)
		if !e.cloud.has(services[0].UID, "b") {
			t.Error("the targets were not changed when the pause was over")
		}
	})
}

// A change of the targets that failed holds these targets, whether the Service is ensured or not. Others are tried at once, as by the reference.
func TestOtherTargetsDoNotWaitForAFailure(t *testing.T) {
	for name, edit := range map[string]func(*corev1.Service){"of a Service that is ensured": nil, "of one that cannot be ensured": bad} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plugin, services := startStrict(t)
				defer e.stop()
				if edit != nil {
					e.edit(keyOf(services[0]), edit)
					time.Sleep(time.Minute)
				}
				plugin.setUpdate(func() error { return cloudproviderapi.NewRetryError("still at it", 10*time.Minute) })
				e.changeNode("b", nodeWith("b"))
				time.Sleep(time.Minute)
				plugin.setUpdate(nil)
				time.Sleep(time.Minute)
				if e.cloud.has(services[0].UID, "b") {
					t.Error("the same targets were written before the pause was over")
				}
				e.changeNode("c", nodeWith("c"))
				if took := e.follow(t, services[:1], "c"); took > DefaultTargetDelay {
					t.Errorf("%s until the load balancer had a node that joined after the failure", took)
				}
			})
		})
	}
}

// What is planned for the targets alone, and for which Service the plugin is called. Planning over what was applied plans nothing.
func TestPlanForTheTargetsAlone(t *testing.T) {
	one, two := targetsOf([]*corev1.Node{nodeWith("a")}), targetsOf([]*corev1.Node{nodeWith("a"), nodeWith("b")})
	accepted, now := serviceWith(provided), serviceWith(provided, bad)
	failing := func(edits ...func(*made)) *made {
		attempt := madeFor(now, one, at("192.0.2.1"))
		attempt.ensured, attempt.failing, attempt.lastEnsured = false, true, accepted
		for _, edit := range edits {
			edit(attempt)
		}
		return attempt
	}
	unknown := func(m *made) { m.lastEnsured, m.status, m.targets = nil, nil, nil }
	for name, test := range map[string]struct {
		made    *made
		service *corev1.Service
		want    *corev1.Service // whom the plugin gets; nil: nothing is planned
	}{
		"nothing made":                           {nil, now, nil},
		"it is being ensured again":              {failing(), now, accepted},
		"it is ensured and cannot be written":    {madeFor(now, one, at("192.0.2.1")), now, now},
		"it has the targets":                     {failing(func(m *made) { m.targets = two.members }), now, nil},
		"which targets it has is not known":      {failing(func(m *made) { m.targets = nil }), now, accepted},
		"after a restart":                        {failing(unknown), now, now},
		"after a restart, it has no address":     {failing(unknown, func(m *made) { m.service = serviceWith(bad) }), now, nil},
		"made elsewhere":                         {failing(func(m *made) { m.status = nil }), now, nil},
		"its last change of targets failed":      {failing(func(m *made) { m.failing = false }), now, nil},
		"it is being deleted":                    {failing(), serviceWith(provided, deleted), nil},
		"its status has changed in the meantime": {failing(), serviceWith(provided, bad, reached("192.0.2.9")), accepted},
	} {
		t.Run(name, func(t *testing.T) {
			seen := observed{service: test.service, made: test.made}
			want := wanting(test.service, true, two)
			plan := planTargets(want, seen, noon)
			if test.want == nil {
				if len(plan) != 0 {
					t.Errorf("planned %v", verbs(plan))
				}
				return
			}
			if len(plan) != 1 || plan[0].verb != verbRetarget || !plan[0].onlyTargets {
				t.Fatalf("planned %v, want a change of the targets alone", verbs(plan))
			}
			given := plan[0].pluginSees()
			if given.Annotations["lb"] != test.want.Annotations["lb"] {
				t.Errorf("the plugin gets annotations %v, want %v", given.Annotations, test.want.Annotations)
			}
			if diff := cmp.Diff(test.service.Status, given.Status); diff != "" {
				t.Errorf("status that the plugin gets (-now +got):\n%s", diff)
			}
			after := *test.made
			after.targets = want.latest.members
			if again := planTargets(want, observed{service: test.service, made: &after}, noon); len(again) != 0 {
				t.Errorf("planned again: %v", verbs(again))
			}
		})
	}
}
