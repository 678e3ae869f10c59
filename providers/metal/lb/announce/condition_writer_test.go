package announce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
	"github.com/mooring-ccm/mooring/providers/metal/lb/health"
)

func condition(status metav1.ConditionStatus, reason model.Reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: ConditionAnnounced, Status: status, Reason: string(reason), Message: message,
		LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))}
}

func TestDecide(t *testing.T) {
	announced := condition(metav1.ConditionTrue, model.Announced, "by 2")
	failing := condition(metav1.ConditionFalse, model.NoEndpoints, "none")
	blind := condition(metav1.ConditionTrue, model.ProbesFail, "blind")
	long := conditionState{failingSince: start.Add(-time.Minute)}
	warned := func(reason model.Reason) conditionState {
		return conditionState{failingSince: long.failingSince, warned: start.Add(-time.Minute), warnedReason: string(reason)}
	}
	another := condition(metav1.ConditionTrue, model.Announced, "by 3")
	recent := conditionState{written: start.Add(-10 * time.Second)}
	for name, test := range map[string]struct {
		current, want *metav1.Condition
		known         conditionState
		write, remove bool
		event         string
		after         time.Duration
	}{
		"good news at once":                {nil, announced, conditionState{}, true, false, EventAnnounced, 0},
		"after bad news too":               {failing, announced, long, true, false, EventAnnounced, 0},
		"nothing new":                      {announced, announced, conditionState{}, false, false, "", 0},
		"bad news have to last":            {announced, failing, conditionState{}, false, false, "", firstWarningAfter},
		"of a new Service too":             {nil, failing, conditionState{}, false, false, "", firstWarningAfter},
		"bad news that lasted":             {announced, failing, long, true, false, EventNotAnnounced, 0},
		"no address yet is said elsewhere": {nil, condition(metav1.ConditionFalse, model.NoAddress, "x"), long, false, false, "", 0},
		"another number is written":        {announced, another, conditionState{}, true, false, "", 0},
		"but not all the time":             {announced, another, recent, false, false, "", 50 * time.Second},
		"a doubt is a warning":             {announced, blind, conditionState{}, true, false, string(model.ProbesFail), 0},
		"the end of a doubt is no event":   {blind, announced, conditionState{}, true, false, "", 0},
		"the same warning within a while":  {announced, failing, warned(model.NoEndpoints), true, false, "", 0},
		"another warning":                  {announced, failing, warned(model.NoNextHop), true, false, EventNotAnnounced, 0},
		"a Service that is no longer ours": {announced, nil, conditionState{}, false, true, "", 0},
		"a Service that never was one":     {nil, nil, conditionState{}, false, false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(test.current, test.want, test.known, start)
			if got.write != test.write || got.remove != test.remove || got.event != test.event || got.after != test.after {
				t.Errorf("write %t, remove %t, event %q, after %s", got.write, got.remove, got.event, got.after)
			}
			if got.write && test.current != nil && test.current.Status == test.want.Status &&
				!got.condition.LastTransitionTime.Equal(&test.current.LastTransitionTime) {
				t.Error("the time of the last transition was changed without one")
			}
		})
	}
}

// recorder remembers events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", object.(*corev1.Service).Name, eventtype, reason, message))
}

func (r *recorder) has(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.events {
		if strings.Contains(event, part) {
			return true
		}
	}
	return false
}

// writeConditions runs a ConditionWriter as the leader does.
func (r *rig) writeConditions(t *testing.T, onSegment func(netip.Addr) (bool, string)) *recorder {
	t.Helper()
	recorder := &recorder{}
	writer := &ConditionWriter{Announcer: r.Announcer, Client: r.client, Services: r.informers.Core().V1().Services().Lister(),
		Recorder: recorder, OnSegment: onSegment}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { writer.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return recorder
}

// written returns the condition that the API server holds; nil for none.
func (r *rig) written(t *testing.T, name string) *metav1.Condition {
	t.Helper()
	service, err := r.client.CoreV1().Services("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !TakenOn(service) {
		t.Fatalf("the condition of the service controller is gone: %v", service.Status.Conditions)
	}
	return conditionOf(service)
}

func TestConditionsAreWritten(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), serviceObject("web", vip), sliceObject("web", "a"), serviceObject("idle", "192.0.2.2"))
	r.run(t)
	recorder := r.writeConditions(t, nil)
	eventually(t, "the good news", func() bool { return r.written(t, "web") != nil })
	const message = vip + " is announced with 1 next hop"
	if got := r.written(t, "web"); got.Status != metav1.ConditionTrue || got.Message != message {
		t.Errorf("%+v", got)
	}
	eventually(t, "the bad news", func() bool { return r.written(t, "idle") != nil })
	if got := r.written(t, "idle"); got.Status != metav1.ConditionFalse || got.Reason != string(model.NoEndpoints) {
		t.Errorf("%+v", got)
	}
	eventually(t, "both events", func() bool {
		return recorder.has("web Normal Announced: "+message+". "+vip+": pool public, next hops 10.0.0.1") && recorder.has("idle Warning NotAnnounced")
	})

	r.oracle.say(func(s *health.Snapshot) { s.Health[model.Probe{Node: "a"}] = model.Unhealthy })
	eventually(t, "the reason", func() bool { return r.written(t, "web").Status == metav1.ConditionFalse })
	if got := r.written(t, "web"); !strings.Contains(got.Message, "1 node whose kube-proxy does not answer") {
		t.Errorf("%+v", got)
	}

	changed := serviceObject("web", vip)
	changed.Spec.Type = corev1.ServiceTypeClusterIP
	changed.Status.Conditions = append(changed.Status.Conditions, *r.written(t, "web"))
	if _, err := r.client.CoreV1().Services("default").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is said of a Service without a load balancer", func() bool { return r.written(t, "web") == nil })
}

func TestFailedWritesAreRetried(t *testing.T) {
	r := newRig(t, nodeObject("a", "10.0.0.1"), serviceObject("web", vip), sliceObject("web", "a"))
	var mu sync.Mutex
	refusals := 0
	r.client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		refusals++
		return refusals == 1, nil, errors.New("etcd is busy")
	})
	r.run(t)
	recorder := r.writeConditions(t, nil)
	eventually(t, "it is written in the end", func() bool { return r.written(t, "web") != nil })
	eventually(t, "and said", func() bool { return recorder.has("web Normal Announced") })
	mu.Lock()
	defer mu.Unlock()
	if refusals != 2 {
		t.Errorf("it took %d writes", refusals)
	}
}
