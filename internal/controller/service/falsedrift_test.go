package service

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/provider"
)

// showingPlugin shows the load balancer of the Service "odd" in another way than it returned it; others as they are.
type showingPlugin struct {
	*memoryCloud

	mu sync.Mutex
	// ensured is what EnsureLoadBalancer returns for it, and shown what GetLoadBalancer does; nil: there is none.
	ensured, shown *corev1.LoadBalancerStatus
	// changing says that GetLoadBalancer shows another address each time. Looks counts these.
	changing bool
	looks    int
	// given are the annotations "lb" of the Services that GetLoadBalancer was called with.
	given map[string]bool
	// ensures counts by Service.
	ensures map[string]int
}

func (p *showingPlugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ensures[service.Name]++
	status, err := p.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
	if err == nil && service.Name == "odd" {
		status = p.ensured
	}
	return status, err
}

func (p *showingPlugin) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if service.Name == "odd" {
		p.given[service.Annotations["lb"]] = true
		if p.looks++; p.changing {
			p.shown = statusOf(at(fmt.Sprintf("198.51.100.%d", p.looks)))
		}
		return p.shown, p.shown != nil, nil
	}
	return p.memoryCloud.GetLoadBalancer(ctx, cluster, service)
}

// listed is the same for a cloud that lists.
func (p *showingPlugin) listed(context.Context, string) ([]provider.LoadBalancer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []provider.LoadBalancer{{ServiceUID: "uid-healthy", Status: *memoryStatus()}}
	if p.shown != nil {
		all = append(all, provider.LoadBalancer{ServiceUID: "uid-odd", Status: *p.shown})
	}
	return all, nil
}

// show changes how the cloud shows the load balancer.
func (p *showingPlugin) show(shown *corev1.LoadBalancerStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = shown
}

// counted returns how often a Service was ensured.
func (p *showingPlugin) counted(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ensures[name]
}

func statusOf(entries ...corev1.LoadBalancerIngress) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: entries}
}

// startShowing starts an engine with the Services "odd" and "healthy" and a drift check.
func startShowing(t *testing.T, plugin *showingPlugin, lists bool) (e *engine, stop func()) {
	t.Helper()
	plugin.given, plugin.ensures = map[string]bool{}, map[string]int{}
	e = startEngine(t, 1, func(e *engine) {
		if lists {
			e.cloud.list = plugin.listed
		}
	})
	plugin.memoryCloud = e.cloud
	e.core.reconciler.applier.balancer = plugin
	e.changeNode("a", nodeWith("a"))
	time.Sleep(time.Minute)
	for _, name := range []string{"odd", "healthy"} {
		e.addService(serviceWith(named(name), func(s *corev1.Service) { s.UID = types.UID("uid-" + name) }))
	}
	time.Sleep(time.Minute)
	if err := e.mismatch(); err != nil {
		t.Fatal(err)
	}
	e.recorded()
	stopCheck := e.checkDrift(DefaultDriftCheckPeriod, 2*DefaultDriftCheckCalls)
	return e, func() { stopCheck(); e.stop() }
}

// A load balancer that the provider shows in another way than it returned it has not drifted. When that way changes, it has; that is
// repaired once, with one event.
func TestWhatGetReturnedFirstIsTheBaseline(t *testing.T) {
	name, other := corev1.LoadBalancerIngress{Hostname: "lb.example.com"}, at("192.0.2.9")
	proxy := at("192.0.2.1")
	proxy.IPMode = ptr.To(corev1.LoadBalancerIPModeProxy)
	for title, test := range map[string]struct{ ensured, shown *corev1.LoadBalancerStatus }{
		"a host name and its address": {statusOf(name), statusOf(at("192.0.2.1"))},
		"another mode of an address":  {statusOf(proxy), statusOf(at("192.0.2.1"))},
		"no address":                  {statusOf(at("192.0.2.1")), statusOf()},
		"the same":                    {statusOf(at("192.0.2.1")), statusOf(at("192.0.2.1"))},
	} {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lists %t", title, lists), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					plugin := &showingPlugin{ensured: test.ensured, shown: test.shown}
					e, stop := startShowing(t, plugin, lists)
					defer stop()
					time.Sleep(24 * time.Hour)
					if n, recorded := plugin.counted("odd"), e.recorded(EventDrifted); n != 1 || len(recorded) != 0 {
						t.Errorf("%d Ensures in a day in which nothing changed, events %q", n, recorded)
					}
					plugin.show(statusOf(other))
					time.Sleep(24 * time.Hour)
					if n, recorded := plugin.counted("odd"), e.recorded(EventDrifted); n != 2 || len(recorded) != 1 {
						t.Errorf("%d Ensures after one change, events %q", n, recorded)
					}
					if n := plugin.counted("healthy"); n != 1 {
						t.Errorf("%d Ensures of the other Service", n)
					}
				})
			})
		}
	}
}

// A cloud that shows a load balancer differently each time is repaired three times, and then left; an event says so.
func TestRepairsOfAddressesHaveALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &showingPlugin{ensured: statusOf(at("192.0.2.1")), shown: statusOf(at("192.0.2.1"))}
		e, stop := startShowing(t, plugin, false)
		defer stop()
		plugin.mu.Lock()
		plugin.changing = true
		plugin.mu.Unlock()
		time.Sleep(24 * time.Hour)
		if n := plugin.counted("odd"); n != 1+maxRepairs {
			t.Errorf("%d Ensures, want one and %d repairs", n, maxRepairs)
		}
		if recorded := e.recorded(EventDrifted); len(recorded) != maxRepairs+1 {
			t.Errorf("events %q, want one for each repair and one at the end", recorded)
		}
		key := keyOf(serviceWith(named("odd")))
		if shown := conditionOf(e.service(key)); shown.Status != metav1.ConditionFalse || shown.Reason != ReasonDrifted {
			t.Errorf("the condition is %s %s, want False Drifted", shown.Status, shown.Reason)
		}
		plugin.mu.Lock()
		plugin.changing, plugin.shown = false, statusOf(at("192.0.2.1"))
		plugin.mu.Unlock()
		time.Sleep(time.Hour)
		if shown := conditionOf(e.service(key)); shown.Status != metav1.ConditionTrue {
			t.Errorf("the condition is %s %s although nothing differs any longer", shown.Status, shown.Reason)
		}
	})
}

// A load balancer of which the provider says forever that it is not there is made anew three times, and then once an hour.
func TestRepairsOfWhatIsGoneHaveALimit(t *testing.T) {
	for _, lists := range []bool{false, true} {
		t.Run(fmt.Sprintf("lists %t", lists), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plugin := &showingPlugin{ensured: statusOf(at("192.0.2.1"))}
				e, stop := startShowing(t, plugin, lists)
				defer stop()
				time.Sleep(24 * time.Hour)
				if n, most := plugin.counted("odd"), 1+maxRepairs+24; n < most-3 || n > most {
					t.Errorf("%d Ensures in a day, want %d at first and one an hour", n, 1+maxRepairs)
				}
				stillGone := 0
				for _, event := range e.recorded(EventDrifted) {
					if strings.HasSuffix(event, "once an hour") {
						stillGone++
					}
				}
				if stillGone != 1 {
					t.Errorf("%d events say that it is tried once an hour from now on, want one", stillGone)
				}
				plugin.show(statusOf(at("192.0.2.1")))
				time.Sleep(2 * time.Hour)
				before := plugin.counted("odd")
				plugin.show(nil)
				for gone := time.Now(); plugin.counted("odd") == before; time.Sleep(time.Second) {
					if time.Since(gone) > DefaultDriftCheckPeriod+DefaultAbsenceTime+2*time.Minute {
						t.Fatal("it was not made anew after ten minutes of denials, though it was there for hours before")
					}
				}
				if n := plugin.counted("healthy"); n != 1 {
					t.Errorf("%d Ensures of the other Service", n)
				}
			})
		})
	}
}

// The plugin is asked with the Service as it is now: some find the load balancer by what the status or an annotation says.
func TestTheCloudIsAskedForTheServiceOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &showingPlugin{ensured: statusOf(at("192.0.2.1")), shown: statusOf(at("192.0.2.1"))}
		e, stop := startShowing(t, plugin, false)
		defer stop()
		key := keyOf(serviceWith(named("odd")))
		// A change that no event has brought is not compared; one that was ensured is.
		e.cluster.mu.Lock()
		e.cluster.services[key].Annotations = map[string]string{"lb": "unnoticed"}
		e.cluster.mu.Unlock()
		time.Sleep(time.Hour)
		e.edit(key, func(s *corev1.Service) { s.Annotations = map[string]string{"lb": "new"} })
		time.Sleep(time.Hour)
		plugin.mu.Lock()
		defer plugin.mu.Unlock()
		if plugin.given["unnoticed"] || !plugin.given["new"] {
			t.Errorf("asked for Services with the annotations %v", plugin.given)
		}
	})
}
