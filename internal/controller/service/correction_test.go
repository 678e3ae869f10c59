package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func (e *engine) annotate(service *corev1.Service, value string) {
	e.edit(keyOf(service), func(s *corev1.Service) { s.Annotations = map[string]string{"stamp": value} })
}

// TestCorrectionsAreTriedAtOnce: the controller retries a corrected Service at once, again and again, except for corrections within minutes.
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

// A mistyped annotation of ours is told on the Service, which has its load balancer all the same.
func TestAMistypedAnnotationOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		service := serviceWith(func(s *corev1.Service) { s.Annotations = map[string]string{"metal.mooring.dev/adress-pool": "a"} })
		e.addService(service)
		time.Sleep(time.Hour)
		events := e.recorded(EventInvalidAnnotation)
		if len(events) != 1 || !strings.Contains(events[0], "did you mean metal.mooring.dev/address-pool?") {
			t.Errorf("events %q", events)
		}
		if !e.cloud.has(service.UID, "a") {
			t.Error("it has no load balancer")
		}
	})
}
