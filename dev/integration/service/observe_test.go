package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// waitService polls a Service until problem returns none, and returns it.
func waitService(t testing.TB, name, what string, problem func(*corev1.Service) error) *corev1.Service {
	t.Helper()
	var found *corev1.Service
	poll.Until(t, "service "+name+" "+what, func(ctx context.Context) (err error) {
		if found, err = admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return problem(found)
	})
	return found
}

// waitReady polls a Service until its condition has a status and a reason, "True Provided", and returns it.
func waitReady(t testing.TB, name, want string) *corev1.Service {
	t.Helper()
	return waitService(t, name, "is "+want, func(s *corev1.Service) error {
		if got := readiness(s); got != want {
			return fmt.Errorf("it is %q: %+v", got, s.Status)
		}
		return nil
	})
}

// sawReady waits until a Service has had a condition since an earlier version of it, and returns it as it was then. Unlike waitReady it misses
// nothing that lasts for a moment only.
func sawReady(t testing.TB, since *corev1.Service, want string) *corev1.Service {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), poll.Deadline)
	defer cancel()
	watching, err := admin.CoreV1().Services(namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + since.Name, ResourceVersion: since.ResourceVersion,
	})
	must.NoError(t, err)
	defer watching.Stop()
	had := []string{readiness(since)}
	for event := range watching.ResultChan() {
		found, is := event.Object.(*corev1.Service)
		if !is {
			t.Fatalf("the watch of service %s ended with %+v", since.Name, event.Object)
		}
		if had = append(had, readiness(found)); had[len(had)-1] == want {
			return found
		}
	}
	t.Fatalf("service %s was never %s: it was %q", since.Name, want, had)
	return nil
}

// readiness is the condition LoadBalancerReady of a Service as "True Provided", or empty if it has no such condition.
func readiness(s *corev1.Service) string {
	for _, condition := range s.Status.Conditions {
		if condition.Type == service.ConditionReady {
			return string(condition.Status) + " " + condition.Reason
		}
	}
	return ""
}

// waitGone polls until a Service no longer exists.
func waitGone(t testing.TB, name string) {
	t.Helper()
	poll.Until(t, "service "+name+" is gone", func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is there: finalizers %v, %+v", found.Finalizers, found.Status))
	})
}

// balancers returns the load balancers in the cloud by the name of their Service, and fails if two are for one.
func balancers(t testing.TB, running *simtest.Cloud) map[string]api.LoadBalancer {
	t.Helper()
	found := map[string]api.LoadBalancer{}
	must.NoError(t, running.Client.ListLoadBalancers(t.Context(), nil, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			key := strings.TrimPrefix(balancer.Tags[sim.TagService], namespace+"/")
			if _, twice := found[key]; twice {
				return fmt.Errorf("there are two load balancers for %q", key)
			}
			found[key] = balancer
		}
		return nil
	}))
	return found
}

// waitTargets polls until the load balancer of a Service has exactly these instances as targets.
func waitTargets(t testing.TB, running *simtest.Cloud, name string, numbers ...int) {
	t.Helper()
	want := []string{}
	for _, number := range numbers {
		want = append(want, instanceID(number))
	}
	poll.Until(t, "targets of "+name, func(context.Context) error {
		balancer, found := balancers(t, running)[name]
		if !found || !slices.Equal(balancer.Targets, want) {
			return fmt.Errorf("found %t, targets %v, want %v", found, balancer.Targets, want)
		}
		return nil
	})
}

// writeOps are the operations of the cloud that change load balancers.
var writeOps = []api.Operation{
	api.OpCreateLoadBalancer, api.OpUpdateLoadBalancer, api.OpDeleteLoadBalancer, api.OpChangeTargets,
}

// eventsOf returns the controller's events on the Service that a test has made last under a name, as "Type Reason", each
// once, in the order in which they came first.
func eventsOf(t testing.TB, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
	defer cancel()
	uid, known := serviceUIDs[name]
	if !known {
		t.Fatalf("no test has made service %s", name)
	}
	list, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + name,
	})
	must.NoError(t, err)
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { // the name ends in the time of its creation, in nanoseconds
		return strings.Compare(a.Name, b.Name)
	})
	var events []string
	for _, event := range list.Items {
		if event.Source.Component != service.Name || event.InvolvedObject.UID != uid {
			continue
		}
		if what := event.Type + " " + event.Reason; !slices.Contains(events, what) {
			events = append(events, what)
		}
	}
	return events
}

// waitEvents polls until the Service has had these events, in this order among each other.
func waitEvents(t testing.TB, name string, want ...string) {
	t.Helper()
	poll.Until(t, "events of "+name, func(context.Context) error {
		if got := eventsOf(t, name); !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

// writesOf returns what the manager wrote to a Service, or with an empty name to all, as "patch status 200", in the order of
// the answers.
func (m manager) writesOf(t testing.TB, name string) []string {
	t.Helper()
	return m.writesTo(t, "services", name)
}

// writesTo returns what the manager wrote to an object, or with an empty name to all, of a resource.
func (m manager) writesTo(t testing.TB, resource, name string) []string {
	t.Helper()
	writes := []string{}
	for _, done := range m.Writes(t, resource) {
		if name == "" || done.Name == name {
			writes = append(writes, done.What)
		}
	}
	return writes
}
