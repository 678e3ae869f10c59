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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

// undeletable is a plugin that does not delete the load balancer of one Service while it is told so.
type undeletable struct {
	*memoryCloud
	uid types.UID
	// takes is how long each of its deletions takes.
	takes     time.Duration
	mended    bool
	deletions int
}

func (p *undeletable) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	p.mu.Lock()
	fails := service.UID == p.uid && !p.mended
	if fails {
		p.deletions++
	}
	p.mu.Unlock()
	if fails {
		time.Sleep(p.takes)
		return errors.New("it is in use")
	}
	return p.memoryCloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
}

func (p *undeletable) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mended = true
}

// tried returns how often the deletion was tried.
func (p *undeletable) tried() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deletions
}

// strip removes a Service whatever finalizers it has, as a user does who takes them away by force.
func (e *engine) strip(service *corev1.Service) {
	e.cluster.mu.Lock()
	delete(e.cluster.services, keyOf(service))
	e.cluster.mu.Unlock()
	e.watcher.gone(e.queue, service)
}

func withUID(uid types.UID) func(*corev1.Service) { return func(s *corev1.Service) { s.UID = uid } }

// startReplaced starts an engine in which the deletion of "web" has failed for a while, a user has removed its finalizer by force, and has
// created it again. Lists says that the cloud can list load balancers.
func startReplaced(t *testing.T, lists bool, takes time.Duration) (e *engine, plugin *undeletable, old, again *corev1.Service) {
	t.Helper()
	e = startEngine(t, 1, func(e *engine) {
		if lists {
			e.cloud.list = func(context.Context, string) ([]provider.LoadBalancer, error) { return nil, errors.New("not now") }
		}
	})
	plugin = &undeletable{memoryCloud: e.cloud, uid: "uid-old", takes: takes}
	e.core.reconciler.applier.balancer = plugin
	e.changeNode("a", nodeWith("a"))
	time.Sleep(time.Minute)
	old = serviceWith(named("web"), withUID("uid-old"))
	e.addService(old)
	e.addService(serviceWith(named("healthy")))
	time.Sleep(time.Minute)
	e.end(old)
	time.Sleep(time.Hour)
	e.strip(old)
	time.Sleep(time.Minute)
	again = serviceWith(named("web"), withUID("uid-again"))
	e.recorded()
	e.addService(again)
	return e, plugin, old, again
}

// A Service that was created again under its name has its load balancer at once though its predecessor's cannot be deleted, where
// the provider tells them apart. The deletion goes on to be tried after pauses of its own, and no other Service notices.
func TestAPredecessorDoesNotHoldItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin, old, again := startReplaced(t, true, 0)
		defer e.stop()
		time.Sleep(time.Second)
		served := e.service(keyOf(again))
		if condition := conditionOf(served); condition == nil || condition.Reason != ReasonProvided || !hasFinalizer(served) {
			t.Errorf("condition %+v, finalizers %v", condition, served.Finalizers)
		}
		before := plugin.tried()
		for i := range 6 {
			name := fmt.Sprintf("n%d", i)
			e.changeNode(name, nodeWith(name))
			if took := e.follow(t, []*corev1.Service{again, serviceWith(named("healthy"))}, name); took > 10*time.Second {
				t.Errorf("a node was a target after %s", took)
			}
			time.Sleep(10 * time.Minute)
		}
		if n := plugin.tried() - before; n < 28 || n > 33 {
			t.Errorf("%d deletions in an hour", n)
		}
		if ensured := e.cloud.count("ensure"); ensured != 3 {
			t.Errorf("%d calls to ensure, want one for each Service", ensured)
		}
		if failed := e.recorded(EventSyncFailed); len(failed) > 0 {
			t.Errorf("the Service got %q", failed)
		}
		if uids := e.core.states.madeFor(); len(uids) != 3 {
			t.Errorf("made for %v: the orphan check would take the predecessor's for an orphan", uids)
		}
		plugin.mend()
		time.Sleep(kit.LongestRetry)
		if e.cloud.has(old.UID, "a") || !e.cloud.has(again.UID, "a") {
			t.Error("want the load balancer of the old Service deleted, and one of the new Service")
		}
		if _, found := e.core.states.get(uidKey(old)); found {
			t.Error("the predecessor is not forgotten")
		}
	})
}

// A plugin that may go by the name of the Service gets no new one for it before the old load balancer is deleted: to delete it later could
// hit the new one. The Service says why it waits, can be deleted, and has its load balancer once the old one is gone.
func TestAServiceSaysThatItWaitsForItsPredecessor(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprint(deletes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plugin, old, again := startReplaced(t, false, 0)
				defer e.stop()
				time.Sleep(time.Hour)
				waiting := e.service(keyOf(again))
				condition := conditionOf(waiting)
				if condition == nil || condition.Reason != ReasonCloudError || !strings.Contains(condition.Message, "had this name before") ||
					!hasFinalizer(waiting) {
					t.Errorf("condition %+v, finalizers %v", condition, waiting.Finalizers)
				}
				if failed := e.recorded(EventSyncFailed); len(failed) < 1 || len(failed) > 7 {
					t.Errorf("%d events in an hour", len(failed))
				}
				if e.cloud.count("ensure") != 2 {
					t.Error("it was ensured while its predecessor has its load balancer")
				}
				if deletes {
					e.end(waiting)
					time.Sleep(time.Second)
					if e.service(keyOf(again)) != nil {
						t.Error("it cannot be deleted")
					}
				}
				plugin.mend()
				time.Sleep(kit.LongestRetry)
				if e.cloud.has(old.UID, "a") || e.cloud.has(again.UID, "a") == deletes {
					t.Error("the load balancers are not as they should be")
				}
				if _, has := e.core.states.get(uidKey(again)); has == deletes {
					t.Errorf("something is remembered: %t", has)
				}
			})
		})
	}
}

// Where writes for other Services wait all the time, a deletion that always takes minutes does not use up the turns of the Service that
// has the name now.
func TestAPredecessorTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin, _, again := startReplaced(t, true, time.Minute)
		defer e.stop()
		e.cloud.setChance(func(string) (time.Duration, error) { return time.Minute, nil })
		for i := range 20 {
			e.addService(serviceWith(named(fmt.Sprint("early-", i))))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var creating sync.WaitGroup
		defer creating.Wait()
		defer cancel()
		creating.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				e.addService(serviceWith(named(fmt.Sprint("other-", i))))
				time.Sleep(90 * time.Second)
			}
		})
		began := time.Now()
		for !e.cloud.has(again.UID, "a") && time.Since(began) < 24*time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 25*time.Minute {
			t.Errorf("it had its load balancer after %s", took)
		}
		tried, made := plugin.tried(), e.cloud.count("ensure")
		time.Sleep(3 * time.Hour)
		if plugin.tried() == tried {
			t.Error("the deletion was not tried again in three hours")
		}
		if n := e.cloud.count("ensure") - made; n < 100 {
			t.Errorf("%d Services were written in three hours", n)
		}
	})
}
