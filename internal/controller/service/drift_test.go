package service

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What the drift check finds in Services that a user, or another controller, has changed what we have written to.
func TestCheckStatus(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		forget func(*state)
		want   bool
	}{
		"nothing":                {},
		"an address":             {change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "192.0.2.77" }, want: true},
		"all addresses":          {change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil }, want: true},
		"the condition":          {change: func(s *corev1.Service) { s.Status.Conditions = nil }, want: true},
		"the finalizer":          {change: func(s *corev1.Service) { s.Finalizers = nil }, want: true},
		"a finalizer of its own": {change: func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/keep") }},
		"a condition of its own": {change: func(s *corev1.Service) {
			s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "Other"})
		}},
		"the type, which is known": {change: func(s *corev1.Service) { s.Spec.Type, s.Status.Conditions = corev1.ServiceTypeClusterIP, nil }},
		"its end, which is known":  {change: func(s *corev1.Service) { deleted(s); s.Status.Conditions = nil }},
		"its UID, which is known":  {change: func(s *corev1.Service) { s.UID, s.Status.Conditions = "another", nil }},
		"what has failed anyway": {
			change: func(s *corev1.Service) { s.Status.Conditions = nil },
			forget: func(known *state) { known.failure = &failure{reason: ReasonCloudError} },
		},
		"what is not made yet": {
			change: func(s *corev1.Service) { s.Status.Conditions = nil },
			forget: func(known *state) { known.made = nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := serviceWith()
			service.Finalizers = []string{Finalizer}
			known := state{made: &made{service: service.DeepCopy(), inputs: inputsOf(service), ensured: true,
				targets: map[string]string{"a": ""}, status: memoryStatus(), unpublished: true}}
			shown := publicationFor(service, known.made, now)
			known.made.unpublished = false
			service.Status.LoadBalancer.Ingress, service.Status.Conditions = shown.ingress, []metav1.Condition{*shown.ready}
			if test.change != nil {
				test.change(service)
			}
			if test.forget != nil {
				test.forget(&known)
			}
			cluster := newCluster()
			cluster.put(service)
			queued := map[types.NamespacedName]int{}
			d := &driftCheck{reader: cluster, classes: Classes{Default: true}, states: newStates(),
				enqueue: func(key types.NamespacedName, priority int) { queued[key] = priority }}
			d.states.change(keyOf(service), func(now *state) { *now = known })
			if err := d.checkStatus(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			want := map[types.NamespacedName]int{}
			if test.want {
				want[keyOf(service)] = priorityRepair
			}
			if diff := cmp.Diff(want, queued); diff != "" {
				t.Errorf("queued (-want +got):\n%s", diff)
			}
		})
	}
}
