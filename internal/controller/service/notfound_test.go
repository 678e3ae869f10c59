package service

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
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
				time.Sleep(kit.LongestRetry)
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

// hiding is a plugin whose cloud does not find the load balancers for a while.
type hiding struct {
	*memoryCloud
	// fails says that it cannot be asked, either.
	hides, fails atomic.Bool
}

func (h *hiding) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, exists, err := h.memoryCloud.GetLoadBalancer(ctx, cluster, service)
	if h.fails.Load() {
		return nil, false, errTransient
	}
	return status, exists && !h.hides.Load(), err
}

func (h *hiding) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if h.hides.Load() {
		_ = h.call("update")
		return errTransient
	}
	return h.memoryCloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

// A load balancer that the cloud does not find for a while is not made again: a second one has another address. The Service says so, and its
// targets follow once it is found. One that is not found for ten minutes is made again.
func TestNoSecondLoadBalancerForADenialThatPasses(t *testing.T) {
	for _, lists := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			plugin := &hiding{}
			e := startEngine(t, 1, func(e *engine) {
				if lists {
					e.cloud.list = func(context.Context, string) ([]provider.LoadBalancer, error) {
						if plugin.hides.Load() {
							return nil, nil
						}
						return e.listed(), nil
					}
				}
			})
			defer e.stop()
			plugin.memoryCloud = e.cloud
			e.core.reconciler.applier.balancer = plugin
			e.core.options.LiveReader = e.cluster
			e.changeNode("a", nodeWith("a"))
			service := serviceWith()
			e.addService(service)
			time.Sleep(time.Minute)
			defer e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)()
			e.recorded()
			reason := func() string { return conditionOf(e.service(keyOf(service))).Reason }

			plugin.hides.Store(true)
			e.changeNode("b", nodeWith("b"))
			time.Sleep(5 * time.Minute)
			if n := e.cloud.count("ensure"); n != 1 {
				t.Errorf("lists %t: %d Ensures while the load balancer is not found", lists, n)
			}
			if told := e.recorded(EventDrifted); len(told) != 1 || reason() != ReasonNotFound {
				t.Errorf("lists %t: events %q, condition %s", lists, told, reason())
			}
			gets, updates := e.cloud.count("get"), e.cloud.count("update")
			if gets > 15 || updates > 8 {
				t.Errorf("lists %t: %d look-ups and %d updates in five minutes", lists, gets, updates)
			}
			plugin.hides.Store(false)
			time.Sleep(2 * time.Minute)
			if !e.cloud.has(service.UID, "b") || reason() != ReasonProvided || e.cloud.count("ensure") != 1 {
				t.Errorf("lists %t: after it was found: node b %t, condition %s, %d Ensures", lists, e.cloud.has(service.UID, "b"), reason(), e.cloud.count("ensure"))
			}

			plugin.hides.Store(true)
			time.Sleep(DefaultAbsenceTime - time.Second)
			early := e.cloud.count("ensure")
			time.Sleep(DefaultDriftCheckPeriod + 5*time.Minute)
			if n := e.cloud.count("ensure"); early != 1 || n != 2 {
				t.Errorf("lists %t: %d and then %d Ensures, want it made again after ten minutes", lists, early, n)
			}
			if told := strings.Join(e.recorded(EventDrifted), "; "); !strings.Contains(told, driftGone) {
				t.Errorf("lists %t: events %q", lists, told)
			}
		})
	}
}

// A question that fails after the cloud did not find the load balancer proves nothing new: no Ensure makes a second one.
func TestNoSecondLoadBalancerForAQuestionThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &hiding{}
		e := startEngine(t, 1)
		defer e.stop()
		plugin.memoryCloud = e.cloud
		e.core.reconciler.applier.balancer = plugin
		e.changeNode("a", nodeWith("a"))
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Minute)

		plugin.hides.Store(true)
		e.changeNode("b", nodeWith("b"))
		time.Sleep(10 * time.Second)
		plugin.fails.Store(true)
		time.Sleep(5 * time.Minute)
		if n := e.cloud.count("ensure"); n != 1 {
			t.Errorf("%d Ensures while the load balancer is not found", n)
		}
		plugin.fails.Store(false)
		plugin.hides.Store(false)
		time.Sleep(kit.LongestRetry + time.Second)
		if n := e.cloud.count("ensure"); !e.cloud.has(service.UID, "b") || n != 1 {
			t.Errorf("after it was found: node b %t, %d Ensures", e.cloud.has(service.UID, "b"), n)
		}
	})
}

// Lists that come oftener than single looks are allowed keep no load balancer that was deleted from being made again.
func TestFrequentListsLeaveTimeForLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1, listingAll)
		defer e.stop()
		e.core.options.LiveReader = e.cluster
		e.changeNode("a", nodeWith("a"))
		service := serviceWith()
		e.addService(service)
		time.Sleep(time.Minute)
		defer e.checkDrift(30*time.Second, DefaultDriftCheckCalls)()
		e.drop(service)
		time.Sleep(DefaultAbsenceTime + 5*time.Minute)
		if looks := e.cloud.count("get"); looks < provenAnswers || looks > 20 || !e.exists(service.UID) {
			t.Errorf("%d looks, made again: %t", looks, e.exists(service.UID))
		}
	})
}
