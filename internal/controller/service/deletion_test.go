package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service/orphancheck"
	"github.com/mooring-ccm/mooring/provider"
)

// deletingPlugin has trouble with the deletion of the Service "doomed"; other Services are deleted as ever.
type deletingPlugin struct {
	*memoryCloud

	mu sync.Mutex
	// deleted returns the error of a deletion, by its number. The load balancer is gone after it if gone says so.
	deleted func(number int) error
	gone    bool
	// found is the error of a look-up; nil: it says what there is.
	found     error
	deletions []time.Time
}

func (p *deletingPlugin) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	if service.Name != "doomed" {
		return p.memoryCloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
	}
	p.mu.Lock()
	p.deletions = append(p.deletions, time.Now())
	err, gone := p.deleted(len(p.deletions)), p.gone
	p.mu.Unlock()
	if gone || err == nil {
		if err := p.memoryCloud.EnsureLoadBalancerDeleted(ctx, cluster, service); err != nil {
			return err
		}
	}
	return err
}

func (p *deletingPlugin) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	p.mu.Lock()
	err := p.found
	p.mu.Unlock()
	if service.Name == "doomed" && err != nil {
		return nil, false, err
	}
	return p.memoryCloud.GetLoadBalancer(ctx, cluster, service)
}

// count returns how often the deletion was tried.
func (p *deletingPlugin) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.deletions)
}

// startDeleting starts an engine with the Service "doomed" and another one.
func startDeleting(t *testing.T, plugin *deletingPlugin) (e *engine, doomed, healthy *corev1.Service) {
	t.Helper()
	e = startEngine(t, 1)
	plugin.memoryCloud = e.cloud
	e.core.reconciler.applier.balancer = plugin
	e.changeNode("a", nodeWith("a"))
	time.Sleep(time.Minute)
	doomed, healthy = serviceWith(named("doomed")), serviceWith(named("healthy"))
	e.addService(doomed)
	e.addService(healthy)
	time.Sleep(time.Minute)
	if err := e.mismatch(); err != nil {
		t.Fatal(err)
	}
	return e, doomed, healthy
}

// end deletes a Service, as a user does.
func (e *engine) end(service *corev1.Service) { e.edit(keyOf(service), deleted) }

// The finalizer stays while it cannot be looked up whether there is a load balancer, whatever the error is: the Secret with the plugin's
// credentials may be what was not found.
func TestTheFinalizerStaysWhileNothingIsKnown(t *testing.T) {
	noSecret := fmt.Errorf("reading credentials: %w", apierrors.NewNotFound(corev1.Resource("secrets"), "cloud-credentials"))
	for name, test := range map[string]struct {
		found error
		stays bool
	}{
		"another object is not there":    {noSecret, true},
		"no answer":                      {errors.New("connection refused"), true},
		"there is none":                  {nil, false},
		"there is none, by an error":     {provider.NotFound(errors.New("404")), false},
		"another controller provides it": {cloudprovider.ImplementedElsewhere, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &deletingPlugin{deleted: func(int) error { return noSecret }, found: test.found, gone: !test.stays}
				e, doomed, healthy := startDeleting(t, plugin)
				defer e.stop()
				e.end(doomed)
				e.end(healthy)
				time.Sleep(time.Second)
				if e.service(keyOf(healthy)) != nil {
					t.Error("the other Service was not let go")
				}
				time.Sleep(time.Hour)
				left := e.service(keyOf(doomed))
				if stays := left != nil; stays != test.stays {
					t.Fatalf("the Service is there: %t, want %t", stays, test.stays)
				}
				if !test.stays {
					return
				}
				if condition := conditionOf(left); condition == nil || condition.Reason != ReasonCloudError {
					t.Errorf("condition %+v", condition)
				}
				if n := plugin.count(); n < 60/5 {
					t.Errorf("%d tries in an hour", n)
				}
				plugin.mu.Lock()
				plugin.deleted, plugin.found = func(int) error { return nil }, nil
				plugin.mu.Unlock()
				time.Sleep(kit.LongestRetry)
				if e.service(keyOf(doomed)) != nil || e.cloud.has(doomed.UID, "a") {
					t.Error("it was not deleted when the plugin had its credentials again")
				}
			})
		})
	}
}

// A deletion that removes the load balancer and fails at the rest is repeated before it is believed that there is none. If it goes on to
// fail, the Service is let go with a Warning that says what may be left.
func TestADeletionThatLeavesParts(t *testing.T) {
	inUse := errors.New("deleting the security group: it is in use")
	always := func(int) error { return inUse }
	for name, test := range map[string]struct {
		deleted    func(number int) error
		pauses     []time.Duration
		incomplete bool
	}{
		"it fails once":     {func(n int) error { return map[int]error{1: inUse}[n] }, []time.Duration{5 * time.Second}, false},
		"it fails forever":  {always, []time.Duration{5 * time.Second, 10 * time.Second}, true},
		"the cloud refuses": {func(int) error { return provider.Terminal(inUse) }, []time.Duration{5 * time.Second, 10 * time.Second}, true},
		"it is throttled at last": {func(n int) error {
			return map[int]error{1: inUse, 2: inUse, 3: provider.Throttled(0, inUse), 4: inUse}[n]
		}, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, kit.WriteTimeout}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &deletingPlugin{deleted: test.deleted, gone: true}
				e, doomed, healthy := startDeleting(t, plugin)
				defer e.stop()
				e.recorded()
				e.end(doomed)
				e.end(healthy)
				time.Sleep(time.Second)
				if e.service(keyOf(healthy)) != nil {
					t.Error("the other Service was not let go")
				}
				if e.service(keyOf(doomed)) == nil {
					t.Error("the Service was let go after a failure")
				}
				time.Sleep(10 * time.Minute)
				if e.service(keyOf(doomed)) != nil {
					t.Error("the Service is held by what is not there")
				}
				plugin.mu.Lock()
				var pauses []time.Duration
				for i := range len(plugin.deletions) - 1 {
					pauses = append(pauses, plugin.deletions[i+1].Sub(plugin.deletions[i]))
				}
				plugin.mu.Unlock()
				if diff := cmp.Diff(test.pauses, pauses); diff != "" {
					t.Errorf("pauses between the deletions (-want +got):\n%s", diff)
				}
				recorded := e.recorded(EventDeletionIncomplete)
				if incomplete := len(recorded) == 1 && strings.Contains(recorded[0], inUse.Error()); incomplete != test.incomplete {
					t.Errorf("events %q, want one that says what may be left: %t", recorded, test.incomplete)
				}
			})
		})
	}
}

// The same holds for a load balancer without a Service: though it is no longer listed, its deletion is repeated.
func TestAnOrphanThatLeavesParts(t *testing.T) {
	for _, failures := range []int{1, 3} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var deletions atomic.Int32
				e := startEngine(t, 1, func(e *engine) {
					e.cloud.list = func(context.Context, string) ([]provider.LoadBalancer, error) {
						if deletions.Load() > 0 {
							return nil, nil
						}
						return []provider.LoadBalancer{{Name: "lb-1", ClusterUID: "me", ServiceUID: "uid-gone",
							Service: types.NamespacedName{Namespace: "shop", Name: "gone"}}}, nil
					}
					e.cloud.chance = func(operation string) (time.Duration, error) {
						if operation != "delete" {
							return 0, nil
						}
						if int(deletions.Add(1)) <= failures {
							return 0, errors.New("deleting the security group: it is in use")
						}
						return 0, nil
					}
				})
				defer e.stop()
				e.core.options.CollectOrphans, e.core.options.LiveReader = true, e.cluster
				stop := e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)
				time.Sleep(10 * DefaultDriftCheckPeriod)
				stop()
				if n, want := int(deletions.Load()), min(failures+1, absenceTries); n != want {
					t.Errorf("%d deletions, want %d", n, want)
				}
				incomplete := 0
				for _, event := range e.recorded(orphancheck.EventDeletedOrphan, EventDeletionIncomplete) {
					if strings.Contains(event, EventDeletionIncomplete) {
						incomplete++
					}
				}
				if want := failures / absenceTries; incomplete != want {
					t.Errorf("%d Warnings of what may be left, want %d", incomplete, want)
				}
			})
		})
	}
}

// A plugin that asks to be asked again, and never ends that, is called within bounds: no oftener than once a second, and every 30 seconds as by the
// reference, which looks at each Service that is to be cleaned up. The Service gets the event
// that its load balancer is being deleted once. Others are deleted meanwhile.
func TestRetriesOfADeletionAreBounded(t *testing.T) {
	for pause, bounds := range map[time.Duration][2]int{0: {3000, 3601}, 1000 * time.Hour: {100, 121}} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &deletingPlugin{deleted: func(int) error { return cloudproviderapi.NewRetryError("still at it", pause) }}
				e, doomed, healthy := startDeleting(t, plugin)
				defer e.stop()
				e.recorded()
				e.end(doomed)
				time.Sleep(time.Second)
				e.end(healthy)
				time.Sleep(time.Second)
				if e.service(keyOf(healthy)) != nil {
					t.Error("the other Service was not let go")
				}
				time.Sleep(time.Hour - 2*time.Second)
				if n := plugin.count(); n < bounds[0] || n > bounds[1] {
					t.Errorf("%d deletions in an hour, want %d to %d", n, bounds[0], bounds[1])
				}
				if recorded := e.recorded(EventDeleting); len(recorded) != 2 {
					t.Errorf("%d events of deletions that begin, want one for each Service: %q", len(recorded), recorded[:min(len(recorded), 5)])
				}
			})
		})
	}
}
