package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

// selective is a plugin some of whose Services are in trouble; the others are served at once.
type selective struct {
	*memoryCloud
	// trouble returns how long a write for a Service takes and its error. It is called with the number of the write for it.
	trouble func(name string, number int) (time.Duration, error)

	mu     sync.Mutex
	writes map[string][]time.Time
}

// troubled has the plugin of an engine write as trouble says.
func (e *engine) troubled(trouble func(name string, number int) (time.Duration, error)) *selective {
	plugin := &selective{memoryCloud: e.cloud, trouble: trouble, writes: map[string][]time.Time{}}
	e.core.reconciler.applier.balancer = plugin
	return plugin
}

func (s *selective) write(service *corev1.Service) error {
	s.mu.Lock()
	s.writes[service.Name] = append(s.writes[service.Name], time.Now())
	number := len(s.writes[service.Name])
	s.mu.Unlock()
	took, err := s.trouble(service.Name, number)
	time.Sleep(took)
	return err
}

// written returns when writes for a Service began.
func (s *selective) written(name string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes[name])
}

// last returns when the last write began.
func (s *selective) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last time.Time
	for _, writes := range s.writes {
		if began := writes[len(writes)-1]; began.After(last) {
			last = began
		}
	}
	return last
}

func (s *selective) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	if err := s.write(service); err != nil {
		return nil, err
	}
	return s.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (s *selective) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if err := s.write(service); err != nil {
		return err
	}
	return s.memoryCloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

const slowWrite = 5 * time.Minute

// failSlowly fails after a long time for all Services but those whose names begin with "web".
func failSlowly(name string, _ int) (time.Duration, error) {
	if strings.HasPrefix(name, "web") {
		return 0, nil
	}
	return slowWrite, errors.New("no address in time")
}

// follow waits until the load balancers of some Services have followed a change of the nodes, and returns how long the last of them took.
func (e *engine) follow(t *testing.T, services []*corev1.Service, node string) time.Duration {
	t.Helper()
	began := time.Now()
	for _, service := range services {
		for !e.cloud.has(service.UID, node) {
			if time.Since(began) > 48*time.Hour {
				t.Fatalf("%s has not followed %s after %s", service.Name, node, time.Since(began))
			}
			time.Sleep(time.Second)
		}
	}
	return time.Since(began)
}

// healthyServices returns Services that have their load balancers from before a restart.
func healthyServices(number int) []*corev1.Service {
	var services []*corev1.Service
	for i := range number {
		services = append(services, serviceWith(named(fmt.Sprintf("web-%d", i)), protected, reached("192.0.2.1")))
	}
	return services
}

// New Services that fail after minutes, forever, keep no other from hearing of the nodes: changes of targets have places of their own.
func TestSlowFailuresDoNotStarveTargets(t *testing.T) {
	for _, bad := range []int{1, 3, 20} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, 1)
				defer e.stop()
				plugin := e.troubled(failSlowly)
				healthy := healthyServices(3)
				for _, service := range healthy {
					e.addService(service)
				}
				e.changeNode("node-0", nodeWith("node-0"))
				time.Sleep(time.Minute)
				for i := range bad {
					e.addService(serviceWith(named(fmt.Sprintf("bad-%d", i))))
				}
				for round := 1; round <= 48; round++ {
					name := fmt.Sprintf("node-%d", round)
					e.changeNode(name, nodeWith(name))
					e.changeNode(fmt.Sprintf("node-%d", round-1), nil)
					bound := DefaultTargetQuiet + time.Second
					if took := e.follow(t, healthy, name); took > bound {
						t.Errorf("round %d: %s until all load balancers had a node, want at most %s", round, took, bound)
					}
					time.Sleep(time.Hour)
				}
				for i := range bad {
					if n := len(plugin.written(fmt.Sprintf("bad-%d", i))); n < 48*60/5/(bad+1)/2 {
						t.Errorf("a Service that fails was tried %d times in two days", n)
					}
				}
			})
		})
	}
}

// After a restart all Services are new to the process. Failing ones do not keep it from working ones, whether the
// condition shows that they failed before or not.
func TestSlowFailuresDoNotStarveARestart(t *testing.T) {
	failedBefore := func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: ConditionReady, Status: metav1.ConditionFalse, Reason: ReasonCloudError}}
	}
	unknown := func(*corev1.Service) {}
	for name, test := range map[string]struct {
		edit  func(*corev1.Service)
		bound time.Duration
	}{
		"without an address": {unknown, 3 * slowWrite},
		"with an address":    {reached("192.0.2.2"), 3 * slowWrite},
		"they failed before": {failedBefore, slowWrite},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, 1)
				defer e.stop()
				plugin := e.troubled(failSlowly)
				e.changeNode("node", nodeWith("node"))
				time.Sleep(time.Minute)
				began := time.Now()
				for i := range 3 {
					e.addService(serviceWith(named(fmt.Sprintf("bad-%d", i)), protected, test.edit))
				}
				synctest.Wait()
				healthy := healthyServices(5)
				for _, service := range healthy {
					e.addService(service)
				}
				time.Sleep(24 * time.Hour)
				for _, service := range healthy {
					written := plugin.written(service.Name)
					if len(written) != 1 || written[0].Sub(began) > test.bound {
						t.Errorf("%s was ensured at %v, want once within %s of %s", service.Name, written, test.bound, began)
					}
				}
			})
		})
	}
}

// Services that are created faster than the cloud makes them do not keep a load balancer from hearing of the nodes.
func TestTargetUpdatesHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		plugin := e.troubled(func(name string, _ int) (time.Duration, error) {
			if strings.HasPrefix(name, "web") {
				return time.Second, nil
			}
			return time.Minute, nil
		})
		healthy := healthyServices(1)
		e.changeNode("a", nodeWith("a"))
		e.addService(healthy[0])
		time.Sleep(time.Minute)
		const waiting = 20
		ctx, cancel := context.WithCancel(t.Context())
		var creating sync.WaitGroup
		defer creating.Wait()
		defer cancel()
		for i := range waiting {
			e.addService(serviceWith(named(fmt.Sprintf("new-%d", i))))
		}
		creating.Go(func() {
			for i := waiting; ctx.Err() == nil; i++ {
				time.Sleep(20 * time.Second)
				e.addService(serviceWith(named(fmt.Sprintf("new-%d", i))))
			}
		})
		e.changeNode("b", nodeWith("b"))
		if took, bound := e.follow(t, healthy, "b"), DefaultTargetQuiet+2*time.Second; took > bound {
			t.Errorf("%s until the load balancer had the node, want at most %s", took, bound)
		}
		time.Sleep(time.Minute)
		created := 0
		for i := range waiting { // any of them may be the first: they were created at one instant
			created += len(plugin.written(fmt.Sprintf("new-%d", i)))
		}
		if created == 0 {
			t.Error("no creation has had its turn")
		}
	})
}

// A place that is reserved does not idle: the pass of a Service that was admitted comes before all others in the queue, even where
// many others are made, each with a slow write to the API server.
func TestAReservedPlaceDoesNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, patch = 10 * time.Second, time.Second
		e := startEngine(t, 1, func(e *engine) { e.cluster.patchTakes = patch })
		defer e.stop()
		plugin := e.troubled(func(string, int) (time.Duration, error) { return first, nil })
		time.Sleep(time.Minute)
		for i := range 2 {
			e.addService(serviceWith(named(fmt.Sprintf("web-%d", i))))
			synctest.Wait()
		}
		time.Sleep(first - patch)
		for i := range 500 {
			e.addService(serviceWith(named(fmt.Sprintf("new-%d", i))))
		}
		time.Sleep(time.Minute)
		began, next := plugin.written("web-0"), plugin.written("web-1")
		if len(began) != 1 || len(next) != 1 || next[0].Sub(began[0]) > first+2*patch {
			t.Errorf("writes began at %v and %v, want the second within %s of the end of the first", began, next, 2*patch)
		}
	})
}

// A load balancer without a Service is deleted although Services fail slowly forever, and who gives up waiting leaves no place
// reserved.
func TestOrphansHaveTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		plugin := e.troubled(failSlowly)
		const bad = 3
		for i := range bad {
			e.addService(serviceWith(named(fmt.Sprintf("bad-%d", i))))
		}
		time.Sleep(time.Hour)
		for last := plugin.last(); plugin.last().Equal(last); { // until a write begins
			time.Sleep(time.Second)
		}
		orphans, applier := e.core.orphans, e.core.reconciler.applier
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := orphans.delete(ctx, applier, serviceWith(named("left")), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		before := len(plugin.written("bad-0"))
		time.Sleep(time.Hour)
		if n := len(plugin.written("bad-0")); n < before+2 {
			t.Errorf("%d writes in an hour after the orphan has given up", n-before)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		began := time.Now()
		if _, err := orphans.delete(ctx, applier, serviceWith(named("left")), 0); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > bad*slowWrite {
			t.Errorf("the deletion waited for %s, want at most %d writes of %s", took, bad, slowWrite)
		}
		if n := e.cloud.count("delete"); n != 1 {
			t.Errorf("%d deletions, want 1", n)
		}
	})
}

// A Service that the cloud throttles waits as long as the cloud asks, and no other does.
func TestAThrottledServiceHoldsNoOther(t *testing.T) {
	for _, writes := range []int{1, 3} {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, writes)
				defer e.stop()
				plugin := e.troubled(func(name string, _ int) (time.Duration, error) {
					if name == "throttled" {
						return time.Second, &provider.ThrottledError{RetryAfter: 10 * time.Minute, Err: errors.New("slow down")}
					}
					return time.Second, nil
				})
				healthy := healthyServices(4)
				e.changeNode("node-0", nodeWith("node-0"))
				for _, service := range healthy {
					e.addService(service)
				}
				time.Sleep(time.Minute)
				e.addService(serviceWith(named("throttled")))
				time.Sleep(3 * time.Second)
				for round := 1; round <= 30; round++ {
					name := fmt.Sprintf("node-%d", round)
					e.changeNode(name, nodeWith(name))
					if took, bound := e.follow(t, healthy, name), DefaultTargetQuiet+6*time.Second; took > bound {
						t.Errorf("round %d: %s until all had a node, want at most %s", round, took, bound)
					}
					time.Sleep(2 * time.Minute)
				}
				calls := plugin.written("throttled")
				for i := range len(calls) - 1 {
					if pause := calls[i+1].Sub(calls[i]); pause < 10*time.Minute {
						t.Errorf("the throttled Service was tried again after %s", pause)
					}
				}
				if len(calls) < 5 {
					t.Errorf("the throttled Service was tried %d times in an hour", len(calls))
				}
			})
		})
	}
}

// A write that never returns ends at its deadline for the controller, and fails at once from then on. Until then it costs one
// place: others wait for it if there is no other, and notice nothing if there is one.
func TestAHungWriteHoldsOnePlace(t *testing.T) {
	const deadline = 10 * time.Minute
	for _, test := range []struct {
		writes int
		bound  time.Duration
	}{
		{1, DefaultTargetDelay + deadline},
		{2, DefaultTargetQuiet + 2*time.Second},
	} {
		t.Run(fmt.Sprint(test.writes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, test.writes)
				defer e.stop()
				plugin := e.troubled(func(name string, number int) (time.Duration, error) {
					switch {
					case name != "hung":
						return 0, nil
					case number == 1:
						return deadline, fmt.Errorf("EnsureLoadBalancer: %w", classify.ErrDeadline)
					default:
						return 0, errors.New("the call before it has not returned")
					}
				})
				healthy := healthyServices(3)
				e.changeNode("node-0", nodeWith("node-0"))
				for _, service := range healthy {
					e.addService(service)
				}
				time.Sleep(time.Minute)
				e.addService(serviceWith(named("hung")))
				time.Sleep(time.Second)
				bound := test.bound
				for round := 1; round <= 20; round++ {
					name := fmt.Sprintf("node-%d", round)
					e.changeNode(name, nodeWith(name))
					if took := e.follow(t, healthy, name); took > bound {
						t.Errorf("round %d: %s until all had a node, want at most %s", round, took, bound)
					}
					time.Sleep(deadline)
					bound = DefaultTargetQuiet + 2*time.Second // the place was given back
				}
				if n := len(plugin.written("hung")); n < 20 {
					t.Errorf("the Service whose write hangs was tried %d times in more than three hours", n)
				}
			})
		})
	}
}

// clientOf is the client of a plugin, which has the calls of each pool wait for each other.
func clientOf(plugin *selective) cloudprovider.LoadBalancer {
	client, _ := cloud.Decorate(through{plugin.memoryCloud, plugin}, cloud.Options{}).LoadBalancer()
	return client
}

// through is a plugin whose load balancers are another's.
type through struct {
	cloudprovider.Interface
	plugin *selective
}

func (t through) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return t.plugin, true }

// A change of a Service that hangs does not delay the lookup after a change of targets that failed, and so no other change of targets: in the
// reference, other workers make them.
func TestAHungChangeOfAServiceDelaysNoTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		const hangs = 9 * time.Minute
		plugin := e.troubled(func(name string, number int) (time.Duration, error) {
			switch {
			case name == "hung":
				return hangs, errors.New("the connection was reset")
			case name == "failing" && number == 2: // the first change of its targets; it is ensured after that, as in the reference
				return time.Second, errors.New("the load balancer is being changed")
			default:
				return time.Second, nil
			}
		})
		e.core.reconciler.applier.balancer = clientOf(plugin)
		healthy := healthyServices(3)
		e.changeNode("node-0", nodeWith("node-0"))
		for _, service := range append(healthy, serviceWith(named("failing"), protected, reached("192.0.2.1"))) {
			e.addService(service)
		}
		time.Sleep(time.Minute)
		e.addService(serviceWith(named("hung")))
		time.Sleep(time.Second)
		e.changeNode("node-1", nodeWith("node-1"))
		for len(plugin.written("failing")) < 2 {
			time.Sleep(time.Second)
		}
		e.changeNode("node-2", nodeWith("node-2"))
		if took, bound := e.follow(t, healthy, "node-2"), time.Minute; took > bound {
			t.Errorf("%s until all had the node, want at most %s", took, bound)
		}
	})
}
