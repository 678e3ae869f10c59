package service

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A proxy in front of the API server that answers writes to a Service by its own 404 proves nothing: the load balancer stays, and what was to be
// written is written once the proxy is gone. The Service is deleted when the watch says so.
func TestAProxysAnswerDeletesNothing(t *testing.T) {
	proxy := apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", corev1.Resource("services"), "web", "default backend - 404", 0, true)
	gone := apierrors.NewNotFound(corev1.Resource("services"), "web")
	for name, refusal := range map[string]error{"of a proxy": proxy, "of the API server": gone} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, 1)
				defer e.stop()
				e.changeNode("a", nodeWith("a"))
				service := serviceWith()
				e.addService(service)
				time.Sleep(time.Minute)
				e.cluster.refuse(refusal, func(*corev1.Service) bool { return true })
				e.edit(keyOf(service), func(s *corev1.Service) { s.Status.Conditions, s.Spec.Ports[0].Port = nil, 8080 })
				time.Sleep(10 * time.Minute)
				if e.cloud.count("delete") > 0 || !e.cloud.has(service.UID, "a") {
					t.Fatalf("%d deletions of the load balancer of a live Service", e.cloud.count("delete"))
				}
				e.cluster.refuse(nil, nil)
				time.Sleep(DefaultLongestRetry)
				if condition := conditionOf(e.service(keyOf(service))); condition == nil || condition.Reason != ReasonProvided {
					t.Errorf("condition %+v after the proxy was gone", condition)
				}
				e.end(e.service(keyOf(service)))
				time.Sleep(time.Second)
				if e.cloud.has(service.UID, "a") || e.service(keyOf(service)) != nil {
					t.Error("the Service was not deleted")
				}
			})
		})
	}
}
