package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// stamping is a plugin that writes an annotation to the Service "stamped" each time that it ensures it, as some agents do.
type stamping struct {
	cloudprovider.LoadBalancer
	e *engine
	// fails says that its Ensures fail after that.
	fails  atomic.Bool
	stamps atomic.Int64
}

func (s *stamping) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	if service.Name == "stamped" {
		stamp := s.stamps.Add(1)
		time.Sleep(100 * time.Millisecond)
		s.e.annotate(service, fmt.Sprint(stamp))
		if s.fails.Load() {
			return nil, errors.New("no")
		}
	}
	return s.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (e *engine) annotate(service *corev1.Service, value string) {
	e.edit(keyOf(service), func(s *corev1.Service) { s.Annotations = map[string]string{"stamp": value} })
}

// A Service whose annotations are changed by each Ensure is ensured after pauses, whether that works or fails, and its targets follow the
// nodes meanwhile. Nobody else notices.
func TestChangesByEachEnsureDoNotLoop(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, 1)
				defer e.stop()
				plugin := &stamping{LoadBalancer: e.cloud, e: e}
				e.core.reconciler.applier.balancer = plugin
				e.changeNode("a", nodeWith("a"))
				time.Sleep(time.Minute)
				stamped, healthy := serviceWith(named("stamped")), serviceWith(named("healthy"))
				e.addService(stamped)
				time.Sleep(time.Second)
				plugin.fails.Store(fails)
				time.Sleep(time.Hour)
				e.recorded()
				before := plugin.stamps.Load()
				e.addService(healthy)
				for i := range 60 {
					name := fmt.Sprintf("n%d", i)
					e.changeNode(name, nodeWith(name))
					if took := e.follow(t, []*corev1.Service{stamped, healthy}, name); took > 5*time.Second {
						t.Errorf("a node was a target after %s", took)
					}
					time.Sleep(time.Minute)
				}
				least, most := int64(115), int64(127) // one in 30 seconds
				if n := plugin.stamps.Load() - before; n < least || n > most {
					t.Errorf("%d Ensures in an hour, want %d to %d", n, least, most)
				}
				if failed := e.recorded(EventSyncFailed); len(failed) > 7 {
					t.Errorf("%d events of failures in an hour", len(failed))
				}
			})
		})
	}
}

// Somebody who corrects a Service is served at once, again and again, unless that is within minutes.
func TestCorrectionsAreTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		plugin := e.troubled(func(name string, number int) (time.Duration, error) {
			if strings.HasPrefix(name, "web") && number%4 != 0 {
				return 0, errors.New("no")
			}
			return 0, nil
		})
		time.Sleep(time.Minute)
		service := serviceWith(named("web"))
		e.addService(service)
		for i := range 20 {
			time.Sleep(2 * time.Second)
			if i%3 == 0 {
				time.Sleep(20 * time.Minute)
			}
			before := len(plugin.written("web"))
			e.annotate(service, fmt.Sprint(i))
			time.Sleep(time.Second)
			if n := len(plugin.written("web")) - before; n < 1 {
				t.Errorf("correction %d was not tried at once", i)
			}
		}
	})
}

// Somebody who takes the finalizer away each time that it is there gets it back at once three times, and then after pauses that double. The
// Service is served meanwhile, and so are others; the finalizer is there before anything is made, and to stay once that somebody ends.
func TestTheFinalizerIsNotFoughtFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		fought, healthy := serviceWith(named("fought")), serviceWith(named("healthy"))
		e.addService(fought)
		time.Sleep(time.Minute)
		var taken atomic.Int64
		fighting, ends := context.WithCancel(t.Context())
		defer ends()
		go func() {
			for fighting.Err() == nil {
				if hasFinalizer(e.service(keyOf(fought))) {
					taken.Add(1)
					e.edit(keyOf(fought), func(s *corev1.Service) { s.Finalizers = nil })
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		if n := taken.Load(); n != 4 { // once what was there before, and each of three
			t.Errorf("the finalizer was taken %d times in the first second, want 4", n)
		}
		time.Sleep(time.Hour)
		before := taken.Load()
		e.addService(healthy)
		for i := range 12 {
			name := fmt.Sprintf("n%d", i)
			e.changeNode(name, nodeWith(name))
			if took := e.follow(t, []*corev1.Service{fought, healthy}, name); took > 5*time.Second {
				t.Errorf("a node was a target after %s", took)
			}
			time.Sleep(5 * time.Minute)
		}
		if n := taken.Load() - before; n < 25 || n > 32 {
			t.Errorf("the finalizer was put back %d times in an hour, want one in two minutes", n)
		}
		before = taken.Load()
		ensured := e.cloud.count("ensure")
		e.annotate(fought, "x")
		time.Sleep(time.Second)
		if taken.Load() != before+1 || e.cloud.count("ensure") != ensured+1 {
			t.Errorf("before an Ensure it was put back %d times, want 1", taken.Load()-before)
		}
		ends()
		time.Sleep(DefaultLongestRetry)
		if !hasFinalizer(e.service(keyOf(fought))) {
			t.Error("the finalizer is not there though nobody takes it any more")
		}
	})
}

// An annotation that another controller writes every few seconds costs one Ensure in 30 seconds, once five were for nothing. What a user wants
// passes at once meanwhile: a port, and an annotation of another key. The newest value arrives.
func TestAHeartbeatHoldsNoOtherChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.changeNode("a", nodeWith("a"))
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Minute)
		beating, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for i := 0; beating.Err() == nil; i++ {
				e.edit(keyOf(service), func(s *corev1.Service) {
					s.Annotations = map[string]string{"beat": fmt.Sprint(i), "other": s.Annotations["other"]}
				})
				time.Sleep(5 * time.Second)
			}
		}()
		before := e.cloud.count("ensure")
		time.Sleep(21 * time.Second)
		if n := e.cloud.count("ensure") - before; n != 5 {
			t.Errorf("the first five changes made %d Ensures", n)
		}
		before = e.cloud.count("ensure")
		time.Sleep(10 * time.Minute)
		if n := e.cloud.count("ensure") - before; n < 19 || n > 21 {
			t.Errorf("%d Ensures in ten minutes, want one in 30 seconds", n)
		}
		for what, change := range map[string]func(*corev1.Service){
			"a port":             func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 },
			"another annotation": func(s *corev1.Service) { s.Annotations["other"] = "x" },
		} {
			before = e.cloud.count("ensure")
			e.edit(keyOf(service), change)
			time.Sleep(time.Second)
			if n := e.cloud.count("ensure") - before; n != 1 {
				t.Errorf("%s made %d Ensures within a second", what, n)
			}
			time.Sleep(5 * time.Minute)
		}
		stop()
		time.Sleep(time.Minute)
		known, _ := e.core.states.get(keyOf(service))
		if got, want := known.made.inputs.annotations["beat"], e.service(keyOf(service)).Annotations["beat"]; got != want {
			t.Errorf("the load balancer was ensured at beat %s, and the last is %s", got, want)
		}
	})
}
