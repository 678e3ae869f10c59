package service

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
)

// selectingPlugin takes of the nodes that it is given those with the label role=ingress.
type selectingPlugin struct {
	*memoryCloud

	mu      sync.Mutex
	targets map[types.UID][]types.NodeName
	writes  int
}

func (p *selectingPlugin) take(service *corev1.Service, nodes []*corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	p.targets[service.UID] = []types.NodeName{}
	for _, node := range nodes {
		if node.Labels["role"] == "ingress" {
			p.targets[service.UID] = append(p.targets[service.UID], types.NodeName(node.Name))
		}
	}
}

func (p *selectingPlugin) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	p.take(service, nodes)
	return p.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (p *selectingPlugin) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	p.take(service, nodes)
	return p.memoryCloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

// listed shows the targets that the plugin took.
func (p *selectingPlugin) listed(context.Context, string) (all []provider.LoadBalancer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, targets := range p.targets {
		all = append(all, provider.LoadBalancer{ServiceUID: uid, Status: *memoryStatus(), Targets: slices.Clone(targets)})
	}
	return all, nil
}

// lose has the cloud lose a target, and expect checks the targets and how often they were written.
func (p *selectingPlugin) lose(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets[uid] = p.targets[uid][1:]
}

func (p *selectingPlugin) expect(t *testing.T, uid types.UID, writes int, want ...types.NodeName) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.targets[uid], want) || p.writes != writes {
		t.Errorf("targets %v by %d writes, want %v by %d", p.targets[uid], p.writes, want, writes)
	}
}

// A plugin may select of the nodes that it is given. That is no drift; that one is missing which it took is. Where the Service's annotation has it
// select by labels, or its configuration does for all, it is told when these change, and of no other Service.
func TestNodesThatAPluginSelects(t *testing.T) {
	labelled := func(n *corev1.Node) { n.Labels = map[string]string{"role": "ingress"} }
	for name, by := range map[string]struct {
		annotations map[string]string
		labels      func() bool
	}{
		"by an annotation":     {map[string]string{"loadbalancer.openstack.org/node-selector": "role=ingress"}, nil},
		"by its configuration": {nil, func() bool { return true }},
		"by a rule of its own": {nil, func() bool { return false }},
	} {
		for _, lists := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", listed"}[lists], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					plugin := &selectingPlugin{targets: map[types.UID][]types.NodeName{}}
					e := startEngine(t, 1, func(e *engine) {
						e.cloud.labels = by.labels
						if lists {
							e.cloud.list = plugin.listed
						}
					})
					defer e.stop()
					plugin.memoryCloud, e.core.reconciler.applier.balancer = e.cloud, plugin
					e.changeNode("a", nodeWith("a", labelled))
					e.changeNode("b", nodeWith("b"))
					time.Sleep(time.Minute)
					service := serviceWith(func(s *corev1.Service) { s.Annotations = maps.Clone(by.annotations) })
					e.addService(service)
					time.Sleep(time.Minute)
					defer e.checkDrift(DefaultDriftCheckPeriod, DefaultDriftCheckCalls)()
					time.Sleep(time.Hour)
					plugin.expect(t, service.UID, 1, "a")
					e.changeNode("b", nodeWith("b", labelled))
					time.Sleep(time.Hour)
					writes := 1
					if name != "by a rule of its own" {
						writes++
						plugin.expect(t, service.UID, writes, "a", "b")
					} else {
						plugin.expect(t, service.UID, writes, "a")
					}
					if lists {
						plugin.lose(service.UID)
						time.Sleep(time.Hour)
						writes++
						plugin.expect(t, service.UID, writes, "a", "b")
					}
					if drifted := e.recorded(EventDrifted); len(drifted) > 0 != lists || len(drifted) > 1 {
						t.Errorf("events %q", drifted)
					}
				})
			})
		}
	}
}

// A node that never had a network is no target until it has one. One that had it stays a target.
func TestATargetHasHadANetwork(t *testing.T) {
	created := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	with := func(ready, unavailable corev1.ConditionStatus, since time.Duration) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.CreationTimestamp = created
			n.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(created.Add(since))},
				{Type: corev1.NodeNetworkUnavailable, Status: unavailable},
			}
		}
	}
	const yes, no, unknown = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	synctest.Test(t, func(t *testing.T) {
		e := startAsNewLeader(t, &knowing{}, nodeWith("plain"), nodeWith("new", with(no, yes, time.Second)), nodeWith("routed", with(no, no, 0)),
			nodeWith("ready", with(yes, yes, time.Hour)), nodeWith("silent", with(unknown, yes, time.Hour)), nodeWith("was-ready", with(no, yes, time.Hour)))
		defer e.stop()
		e.addService(serviceWith(serving))
		time.Sleep(time.Minute)
		want := map[string]bool{"plain": true, "new": false, "routed": true, "ready": true, "silent": true, "was-ready": true}
		e.expectTargets(t, want)
		e.changeNode("new", nodeWith("new", with(no, no, time.Second)))
		time.Sleep(time.Minute)
		want["new"] = true
		e.expectTargets(t, want)
		for name := range want {
			e.changeNode(name, nodeWith(name, with(no, yes, time.Second)))
		}
		time.Sleep(time.Minute)
		e.expectTargets(t, want)
	})
}

// What a Service says that the reference tells no plugin is no reason to call one.
func TestWhatIsNotToldToThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _, services := startStrict(t)
		defer e.stop()
		before := e.cloud.count("ensure") + e.cloud.count("update")
		e.edit(keyOf(services[0]), func(s *corev1.Service) {
			s.Spec.Selector, s.Labels = map[string]string{"app": "other"}, map[string]string{"team": "other"}
			cluster, prefer := corev1.ServiceInternalTrafficPolicyLocal, "PreferSameZone"
			s.Spec.InternalTrafficPolicy, s.Spec.TrafficDistribution, s.Spec.PublishNotReadyAddresses = &cluster, &prefer, true
		})
		time.Sleep(time.Hour)
		if calls := e.cloud.count("ensure") + e.cloud.count("update") - before; calls != 0 {
			t.Errorf("%d calls for %s", calls, strings.Join([]string{"selector", "labels", "traffic policies"}, ", "))
		}
	})
}
