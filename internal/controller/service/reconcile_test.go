package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// A Service that is refused for quota is left alone as long as the cloud asks, and then costs one call. The others are made
// meanwhile: whether the quota is everybody's is for the client of the cloud to find out.
func TestAThrottledServiceIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 2, func(e *engine) {
			e.cloud.chance = func(operation string) (time.Duration, error) {
				if operation == "ensure" && e.cloud.count("ensure") == 1 {
					return 0, &provider.ThrottledError{RetryAfter: time.Minute, Err: errors.New("slow down")}
				}
				return time.Second, nil
			}
		})
		defer e.stop()
		synctest.Wait() // the set of nodes is known
		const services = 6
		for i := range services {
			e.addService(serviceWith(named(fmt.Sprintf("s%d", i))))
			synctest.Wait()
		}
		time.Sleep(50 * time.Second)
		if n := e.cloud.count("ensure"); n != services {
			t.Errorf("%d calls for %d Services although the cloud asked for a minute, want one for each", n, services)
		}
		time.Sleep(5 * time.Minute)
		if n := e.cloud.count("ensure"); n != services+1 {
			t.Errorf("%d calls for %d Services after one refusal", n, services)
		}
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

// A user may change a Service between the pass's look at it and the write of the finalizer. The one call of the pass then carries the change.
func TestAServiceThatChangesBeforeTheFinalizerIsEnsuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1, func(e *engine) { e.cluster.patchTakes = time.Second })
		defer e.stop()
		synctest.Wait() // the set of nodes is known
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Second / 2)
		e.edit(keyOf(service), func(service *corev1.Service) { service.Annotations = map[string]string{"beat": "1"} })
		time.Sleep(time.Minute)
		if n := e.cloud.count("ensure"); n != 1 {
			t.Errorf("%d calls, want one", n)
		}
		if failed := e.recorded(EventSyncFailed); len(failed) > 0 {
			t.Error(failed)
		}
		if err := e.mismatch(); err != nil {
			t.Error(err)
		}
	})
}

// A Service that goes on failing gets an event the first time, when the reason changes, and now and then; its pause doubles.
func TestFailuresAreToldSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var calls []time.Duration
		e := startEngine(t, 1, func(e *engine) {
			e.cloud.chance = func(string) (time.Duration, error) {
				calls = append(calls, time.Since(began))
				// The message is another one each time, as with clouds that number their requests.
				return 0, fmt.Errorf("request %d failed", len(calls))
			}
		})
		synctest.Wait() // the set of nodes is known
		e.addService(serviceWith())
		time.Sleep(4 * time.Minute)
		want := []time.Duration{0, 5, 15, 35, 75, 155}
		for i := range want {
			want[i] *= time.Second
		}
		e.stop()
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		failed := 0
		for range len(e.events.Events) {
			if strings.Contains(<-e.events.Events, EventSyncFailed) {
				failed++
			}
		}
		if failed != 1 {
			t.Errorf("%d events of the failure, want 1", failed)
		}
		if e.cluster.patches != 2 {
			t.Errorf("%d writes to the Service, want the finalizer and the failure", e.cluster.patches)
		}
	})
}
