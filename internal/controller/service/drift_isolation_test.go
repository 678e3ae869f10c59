package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/provider"
)

// hangTime is how long a read hangs.
const hangTime = time.Minute

// troubledReads is a plugin that finds no load balancer of Services whose names begin with "bad": GetLoadBalancer hangs for them or fails.
type troubledReads struct {
	*memoryCloud
	t     *testing.T
	hangs bool
}

func (p *troubledReads) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if !strings.HasPrefix(service.Name, "bad") {
		return p.memoryCloud.GetLoadBalancer(ctx, cluster, service)
	}
	if admission.PriorityOf(ctx) != admission.PriorityRefresh {
		p.t.Error("a look for what may be gone has another priority than a comparison")
	}
	if p.hangs {
		time.Sleep(hangTime)
	}
	return nil, false, errors.New("no answer")
}

// drop removes the load balancer of a Service from the cloud behind our back.
func (e *engine) drop(service *corev1.Service) {
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	delete(e.cloud.balancer, service.UID)
}

// exists reports whether the cloud has a load balancer.
func (e *engine) exists(uid types.UID) bool {
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	_, found := e.cloud.balancer[uid]
	return found
}

// Load balancers that are missing from the list, and that the cloud says nothing of forever, keep no other from being looked for, compared
// and repaired, and no orphan from being deleted.
func TestALookThatFailsKeepsNoOtherFromBeingCompared(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs %t", hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const bad = 20
				looks := bad * (time.Minute + hangTime) // one a minute, and each may hang
				e := startEngine(t, 1, listingAll)
				defer e.stop()
				e.core.reconciler.applier.balancer = &troubledReads{memoryCloud: e.cloud, t: t, hangs: hangs}
				e.core.options.CollectOrphans, e.core.options.LiveReader = true, e.cluster
				e.changeNode("a", nodeWith("a"))
				time.Sleep(time.Minute)
				healthy := healthyServices(3)
				for _, service := range healthy {
					e.addService(service)
				}
				var troubled []*corev1.Service
				for i := range bad {
					troubled = append(troubled, serviceWith(named(fmt.Sprintf("bad-%d", i))))
					e.addService(troubled[i])
				}
				time.Sleep(time.Minute)
				for _, service := range troubled {
					e.drop(service)
				}
				defer e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)()
				for round := range 5 {
					orphan := types.UID(fmt.Sprint("orphan-", round))
					e.drop(healthy[0])
					e.cloud.mu.Lock()
					e.cloud.balancer[orphan] = map[string]string{}
					e.cloud.mu.Unlock()
					time.Sleep(DefaultDriftCheckPeriod + looks + 2*DefaultAbsenceTime)
					if !e.exists(healthy[0].UID) {
						t.Errorf("round %d: the load balancer that was deleted is not there again", round)
					}
					time.Sleep(DefaultDriftCheckPeriod + hangTime)
					if e.exists(orphan) {
						t.Errorf("round %d: the orphan is still there", round)
					}
					time.Sleep(time.Hour)
				}
			})
		})
	}
}

// hangingDeletions is a plugin whose deletions hang until their deadline for Services without a name, as orphans are here, but for the UID
// "good".
type hangingDeletions struct{ *memoryCloud }

func (p *hangingDeletions) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	if service.Name == "" && service.UID != "good" {
		time.Sleep(slowWrite)
		return errors.New("no answer in time")
	}
	return p.memoryCloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
}

// Orphans whose deletion hangs forever hold up neither the drift check, which has load balancers made anew within a period, nor, once they
// have failed, an orphan that can be deleted.
func TestOrphansThatHangDoNotDelayTheDriftCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stuck = 5
		e := startEngine(t, 2, listingAll)
		defer e.stop()
		e.core.reconciler.applier.balancer = &hangingDeletions{e.cloud}
		e.core.options.CollectOrphans, e.core.options.LiveReader = true, e.cluster
		e.changeNode("a", nodeWith("a"))
		time.Sleep(time.Minute)
		healthy := healthyServices(3)
		for _, service := range healthy {
			e.addService(service)
		}
		plant := func(uid types.UID) {
			e.cloud.mu.Lock()
			defer e.cloud.mu.Unlock()
			e.cloud.balancer[uid] = map[string]string{}
		}
		for i := range stuck {
			plant(types.UID(fmt.Sprint("stuck-", i)))
		}
		time.Sleep(time.Minute)
		defer e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)()
		time.Sleep(2*DefaultDriftCheckPeriod + stuck*slowWrite) // until each has failed
		for round := range 24 {
			e.drop(healthy[0])
			plant("good")
			time.Sleep(DefaultDriftCheckPeriod + DefaultAbsenceTime + 2*time.Minute)
			if !e.exists(healthy[0].UID) {
				t.Errorf("round %d: the load balancer that was deleted is not there again", round)
			}
			time.Sleep(DefaultDriftCheckPeriod + slowWrite)
			if e.exists("good") {
				t.Errorf("round %d: the other orphan is still there", round)
			}
			time.Sleep(time.Hour)
		}
	})
}

// absentByError is a plugin that says by an error that there is no load balancer.
type absentByError struct {
	*memoryCloud
	err error
}

func (p *absentByError) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	status, exists, err := p.memoryCloud.GetLoadBalancer(ctx, cluster, service)
	if err == nil && !exists {
		return nil, false, p.err
	}
	return status, exists, err
}

// A load balancer that another program has deleted is made anew whichever way the plugin says that it is gone, with a list and without. An error that
// says nothing of it makes none.
func TestWhatIsGoneByAnErrorIsMadeAnew(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"not found":             {fmt.Errorf("load balancer: %w", cloudprovider.InstanceNotFound), true},
		"implemented elsewhere": {cloudprovider.ImplementedElsewhere, true},
		"of another kind":       {errors.New("no rights"), false},
	} {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lists %t", name, lists), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := startEngine(t, 1, func(e *engine) {
						if lists {
							e.cloud.list = func(context.Context, string) ([]provider.LoadBalancer, error) { return e.listed(), nil }
						}
					})
					defer e.stop()
					e.core.options.LiveReader = e.cluster
					e.core.reconciler.applier.balancer = &absentByError{memoryCloud: e.cloud, err: test.err}
					e.changeNode("a", nodeWith("a"))
					time.Sleep(time.Minute)
					services := healthyServices(2)
					for _, service := range services {
						e.addService(service)
					}
					time.Sleep(time.Minute)
					e.drop(services[0])
					defer e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)()
					time.Sleep(3 * DefaultDriftCheckPeriod)
					if has := e.exists(services[0].UID); has != test.want {
						t.Errorf("there is a load balancer again: %t, want %t", has, test.want)
					}
					ensures := len(services)
					if test.want {
						ensures++
					}
					if n := e.cloud.count("ensure"); n != ensures {
						t.Errorf("%d Ensures, want %d", n, ensures)
					}
				})
			})
		}
	}
}

// listingAll has the cloud of an engine list all its load balancers, as those of this cluster.
func listingAll(e *engine) {
	e.cloud.list = func(context.Context, string) ([]provider.LoadBalancer, error) {
		listed := e.listed()
		for i := range listed {
			listed[i].ClusterUID = "me"
		}
		return listed, nil
	}
}

// listed are the load balancers as a cloud lists them that has put all nodes behind them by itself.
func (e *engine) listed() (listed []provider.LoadBalancer) {
	must, _ := e.expected()
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	for uid := range e.cloud.balancer {
		listed = append(listed, provider.LoadBalancer{ServiceUID: uid, Status: *memoryStatus(), Targets: namesIn(must)})
	}
	return listed
}
