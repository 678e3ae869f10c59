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
)

func (e *engine) annotate(service *corev1.Service, value string) {
	e.edit(keyOf(service), func(s *corev1.Service) { s.Annotations = map[string]string{"stamp": value} })
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
