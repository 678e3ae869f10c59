package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// eventsOf returns the events that were recorded so far and have a reason.
func (e *engine) eventsOf(reason string) []string {
	var found []string
	for range len(e.events.Events) {
		if event := <-e.events.Events; strings.Contains(event, " "+reason+" ") {
			found = append(found, event)
		}
	}
	return found
}

// A call for a new Service is as urgent as one, though it also says what it waits for.
func TestANewServiceIsUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.addService(serviceWith(named("new")))
		time.Sleep(time.Second)
		e.cloud.mu.Lock()
		defer e.cloud.mu.Unlock()
		if got := e.cloud.urgency; got != admission.PriorityNewObject {
			t.Errorf("the call has priority %s, want %s", got, admission.PriorityNewObject)
		}
	})
}

// A Service that was created, changed or deleted and waits for another write for more than a second says so once, and for what.
// What is merely refreshed says nothing.
func TestAWaitIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.troubled(func(name string, _ int) (time.Duration, error) {
			if name == "slow" {
				return slowWrite, errors.New("no address in time")
			}
			return 0, nil
		})
		e.addService(serviceWith(named("slow")))
		time.Sleep(time.Second)
		healthy := healthyServices(10)
		for _, service := range healthy {
			e.addService(service)
		}
		e.addService(serviceWith(named("new")))
		time.Sleep(kit.Moment - 1)
		if got := e.eventsOf(EventWaiting); len(got) != 0 {
			t.Errorf("events %q before %s are over", got, kit.Moment)
		}
		for range 10 { // passes that are made meanwhile are the same wait
			e.addService(serviceWith(named("new")))
			time.Sleep(10 * time.Second)
		}
		got := e.eventsOf(EventWaiting)
		if len(got) != 1 {
			t.Fatalf("events %q, want one for the new Service", got)
		}
		for _, want := range []string{"Normal " + EventWaiting, " shop/slow since 2000-01-01T00:00:00Z", "Others that wait: 10"} {
			if !strings.Contains(got[0], want) {
				t.Errorf("event %q, want %q in it", got[0], want)
			}
		}
		time.Sleep(slowWrite)
		if n := e.cloud.count("ensure"); n != len(healthy)+1 {
			t.Errorf("%d load balancers were ensured, want %d", n, len(healthy)+1)
		}
		if again := e.eventsOf(EventWaiting); len(again) != 0 {
			t.Errorf("events %q after the waits were over", again)
		}
	})
}

// Services that wait for each other again and again say so no more often than events on an object may come.
func TestWaitsAreToldSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		plugin := e.troubled(func(string, int) (time.Duration, error) {
			return 20 * time.Second, cloudproviderapi.NewRetryError("still at it", 10*time.Second)
		})
		const services, hours = 3, 6
		for i := range services {
			e.addService(serviceWith(named(fmt.Sprintf("pending-%d", i))))
		}
		time.Sleep(hours * time.Hour)
		if n := len(plugin.written("pending-0")); n < 60*hours/2 {
			t.Errorf("%d writes, and each time others waited, in %d hours", n, hours)
		}
		if got, most := len(e.eventsOf(EventWaiting)), services*int(hours*time.Hour/kit.EventInterval); got < services || got > most {
			t.Errorf("%d events, want at most %d", got, most)
		}
	})
}

// What the plugin says in many lines, as a panic does, is one line in events and the condition.
func TestMessagesAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.troubled(func(string, int) (time.Duration, error) {
			return 0, errors.New("the plugin panicked: nil map\n\ngoroutine 7 [running]:\n\tmain.f()\r\n" + strings.Repeat("\t/src/é.go:1\n", 500))
		})
		e.addService(serviceWith())
		time.Sleep(time.Minute)
		const want = "the plugin panicked: nil map goroutine 7 [running]: main.f() /src/é.go:1 "
		got := e.eventsOf(EventSyncFailed)
		if len(got) != 1 || !strings.Contains(got[0], want) || strings.ContainsAny(got[0], "\n\r\t\uFFFD") {
			t.Errorf("events %q, want one with %q", got, want)
		}
		e.cluster.mu.Lock()
		defer e.cluster.mu.Unlock()
		for _, service := range e.cluster.services {
			condition := conditionOf(service)
			if condition == nil || condition.Reason != ReasonCloudError || !strings.Contains(condition.Message, want) || len(condition.Message) > kit.MaxMessage {
				t.Errorf("condition %v, want reason %s and %q", condition, ReasonCloudError, want)
			}
		}
	})
}
