package virtual

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/internal/controller/service"
)

func serviceController(r *run) (controller, error) {
	return service.New(service.Options{
		Client: r.client, LiveReader: r.cluster, Cache: r.caches, Recorder: r.events, Cloud: r.decorated, ClusterName: "cluster",
		Owners: r.owners, Classes: service.Classes{Default: true}, Writes: 4, Logger: logr.Discard(),
	})
}

// balanced has a Service of type LoadBalancer appear.
func (r *run) balanced(name string) {
	r.cluster.put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}},
	})
}

// served reports whether a Service shows an address.
func (r *run) served(name string) bool {
	return len(r.cluster.service(name).Status.LoadBalancer.Ingress) > 0
}

// sickServices are Services whose load balancers cannot be made.
var sickServices = map[string]pluginfault.Fault{
	"fails": pluginfault.Fail(errors.New("internal error")), "panics": pluginfault.Panic("nil map"), "throttled": pluginfault.Throttle(time.Minute),
}

const (
	// targetsWithin is how long load balancers wait for a change of the nodes: the quiet time and the calls.
	targetsWithin = service.DefaultTargetDelay + prompt
	// balancerLostWithin is how long a load balancer is missing: until it is looked at, and for as long as the cloud has to deny it.
	balancerLostWithin = service.DefaultDriftCheckPeriod + service.DefaultAbsenceTime + 2*time.Minute
	// someoneElse is what a Service of another class gets.
	someoneElse = "elsewhere.example/class"
)

// TestServicesForDays: for days the cloud fails for one Service, panics for one, hangs for one and refuses one for its quota. It loses one load
// balancer each hour, and one Service belongs to another controller. Meanwhile other Services come, get load balancers at once, follow the nodes in
// time, and leave nothing behind. The controller looks for drift as often as documented, and makes lost load balancers again. The faulty Services
// cost some calls an hour. Once their faults end, they get their load balancers within their longest pause.
func TestServicesForDays(t *testing.T) {
	const lasts = 3 * day
	virtually(t, faulty.Options{LoadBalancerWrites: 4}, serviceController, func(r *run) {
		r.joined("node")
		time.Sleep(time.Minute)
		r.balanced("steady")
		r.balanced("lost")
		foreign := someoneElse
		r.cluster.put(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "foreign"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &foreign},
		})
		r.cloud.Fault("EnsureLoadBalancer", "default/hangs", pluginfault.Hang())
		r.balanced("hangs")
		for name, fault := range sickServices {
			r.cloud.Fault("EnsureLoadBalancer", "default/"+name, fault)
			r.balanced(name)
		}
		time.Sleep(time.Hour)
		before := goroutines()
		for began := time.Now(); time.Since(began) < lasts; {
			r.hourOfServices(int(time.Since(began).Hours()))
		}
		if grown := goroutines() - before; grown > 4 {
			t.Errorf("%d goroutines more after %s", grown, lasts)
		}
		r.expectCalls(pluginfault.Any, "default/foreign", time.Time{}, 0, 0)
		if ensured := len(r.cloud.Calls("EnsureLoadBalancer", "default/hangs")); ensured != 1 {
			t.Errorf("a write that never returned was made %d times: another beside it might undo what it does", ensured)
		}
		r.events.expectAtMost(t, int((lasts+2*time.Hour)/kit.EventInterval)+1)
		for name := range sickServices {
			r.cloud.Fault("EnsureLoadBalancer", "default/"+name, pluginfault.Fault{})
		}
		for name := range sickServices {
			r.within(kit.LongestRetry+prompt, "the load balancer of "+name, func() bool { return r.served(name) })
		}
	})
}

// hourOfServices is an hour in which a Service comes and goes, a node comes or goes, and a load balancer is lost.
func (r *run) hourOfServices(number int) {
	r.t.Helper()
	hour, name, node := time.Now(), fmt.Sprintf("new-%d", number), fmt.Sprintf("node-%d", number)
	r.balanced(name)
	r.within(prompt, "the load balancer of "+name, func() bool { return r.served(name) })
	r.joined(node)
	for _, follows := range []string{name, "steady"} {
		r.within(targetsWithin, "a new target of "+follows, func() bool { return slices.Contains(r.cloud.Targets("default/"+follows), node) })
	}
	r.cluster.remove(r.cluster.node(node))
	for _, follows := range []string{name, "steady"} {
		r.within(targetsWithin, "the end of a target of "+follows, func() bool { return !slices.Contains(r.cloud.Targets("default/"+follows), node) })
	}
	r.cluster.remove(r.cluster.service(name))
	r.within(prompt, "the end of "+name, func() bool { return r.cluster.service(name) == nil && r.cloud.Targets("default/"+name) == nil })
	r.cloud.LoseLoadBalancer("default/lost")
	r.within(balancerLostWithin, "a lost load balancer", func() bool { return r.cloud.Targets("default/lost") != nil })
	time.Sleep(time.Until(hour.Add(time.Hour)))
	tries := int(time.Hour / kit.LongestRetry)
	for name := range sickServices {
		r.expectCalls("EnsureLoadBalancer", "default/"+name, hour, tries-1, tries+tries/10+1) // jitter makes pauses differ by a tenth
	}
	// While the cloud denies one load balancer, the calls that the budget allows are about that one.
	checks, denied := int(time.Hour/service.DefaultDriftCheckPeriod), int(service.DefaultAbsenceTime/service.DefaultDriftCheckPeriod)
	r.expectCalls("GetLoadBalancer", "default/steady", hour, checks-denied-1, checks+1)
	r.expectCalls("GetLoadBalancer", pluginfault.Any, hour, checks, int(time.Hour/time.Minute)*service.DefaultDriftCheckCalls)
	r.expectCalls("EnsureLoadBalancer", "default/steady", hour, 0, 0)
	r.expectCalls("UpdateLoadBalancer", "default/steady", hour, 2, 2)
}
