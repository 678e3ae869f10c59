package service

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// endingElsewhere is a Service that is being deleted and was taken on by a manager of this program, of a class that is not ours.
func endingElsewhere(name string) *corev1.Service {
	class, now := "example.com/other", metav1.Now()
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Finalizers: []string{Finalizer}, DeletionTimestamp: &now},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class},
		Status:     corev1.ServiceStatus{Conditions: []metav1.Condition{{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonProvided}}},
	}
}

// Two managers of this program write the same finalizer and the same condition. Neither lets the Services of the other go.
func TestServicesOfAnotherManagerKeepTheirFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.cloud.balancer["made-here"] = map[string]string{}
		failing := errors.New("credentials have expired")
		e.cloud.setChance(func(operation string) (time.Duration, error) {
			if operation == "get" {
				return 0, failing
			}
			return 0, nil
		})
		elsewhere, here := endingElsewhere("made-elsewhere"), endingElsewhere("made-here")
		e.addService(elsewhere)
		e.addService(here)
		time.Sleep(time.Hour)
		if e.service(keyOf(elsewhere)) == nil || e.service(keyOf(here)) == nil || e.cloud.count("delete") != 0 {
			t.Fatalf("while the cloud fails, a Service was let go, or %d load balancers deleted", e.cloud.count("delete"))
		}
		if len(e.events.Events) > 0 || e.cluster.patches > 0 {
			t.Errorf("%d events and %d writes for Services that may be another's", len(e.events.Events), e.cluster.patches)
		}

		healthy := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "healthy", UID: "healthy"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		e.addService(healthy)
		synctest.Wait()
		if shown := e.shown(healthy); len(shown) != 1 {
			t.Errorf("the healthy Service shows %q meanwhile", shown)
		}

		e.cloud.setChance(nil)
		time.Sleep(2 * kit.LongestRetry)
		if e.service(keyOf(elsewhere)) == nil {
			t.Error("a Service whose load balancer is not here was let go")
		}
		if left := e.service(keyOf(here)); left != nil {
			t.Errorf("a Service whose load balancer is here is kept: %v", left.Finalizers)
		}
		if count := e.cloud.count("delete"); count != 1 {
			t.Errorf("%d load balancers were deleted, want the one that is here", count)
		}
		if got := fmt.Sprint(e.service(keyOf(elsewhere)).Finalizers); got != fmt.Sprint([]string{Finalizer}) {
			t.Errorf("the finalizers of the other's Service are %s", got)
		}
	})
}

// A deletion that has begun is finished, also if it fails after the load balancer has gone: that it is no longer here does not make
// its Service another's.
func TestADeletionThatBeganIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		e.cloud.balancer["made-here"] = map[string]string{}
		e.cloud.setChance(func(operation string) (time.Duration, error) {
			if operation == "delete" {
				return 0, errLost
			}
			return 0, nil
		})
		here, elsewhere := endingElsewhere("made-here"), endingElsewhere("made-elsewhere")
		e.addService(here)
		e.addService(elsewhere)
		time.Sleep(time.Hour)
		if left := e.service(keyOf(here)); left != nil {
			t.Errorf("its Service is kept: %v, %d deletions were tried", left.Finalizers, e.cloud.count("delete"))
		}
		if e.service(keyOf(elsewhere)) == nil {
			t.Error("the other's Service was let go")
		}
	})
}
