package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// pickyCloud refuses a whole write of targets if it has no instance for one of them, as most clouds do.
type pickyCloud struct {
	*memoryCloud
	// dead are the nodes without instances. Refused are those that have one, and are refused all the same.
	dead, refused map[string]bool
	// asked is how often it was asked about an instance, and denied how many writes it has refused.
	asked, denied int
}

func (p *pickyCloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return pickyInstances{p: p}, true
}

type pickyInstances struct {
	cloudprovider.InstancesV2
	p *pickyCloud
}

func (i pickyInstances) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	p := i.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.dead[node.Name] {
		return nil, cloudprovider.InstanceNotFound
	}
	return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
}

func (p *pickyCloud) check(nodes []*corev1.Node) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var problems []string
	for i, node := range nodes {
		if p.dead[node.Name] || p.refused[node.Name] {
			problems = append(problems, fmt.Sprintf("targets[%d]: \"i-%s\": there is no such instance", i, node.Name))
		}
	}
	if problems == nil {
		return nil
	}
	p.denied++
	return provider.Terminal(fmt.Errorf("400: %s", strings.Join(problems, ", ")))
}

func (p *pickyCloud) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (
	*corev1.LoadBalancerStatus, error,
) {
	if err := p.check(nodes); err != nil {
		return nil, err
	}
	return p.memoryCloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (p *pickyCloud) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	if err := p.check(nodes); err != nil {
		return err
	}
	return p.memoryCloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

// set has a node refused, or without an instance, or not.
func (p *pickyCloud) set(which map[string]bool, name string, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	which[name] = is
}

// lookups returns how often the cloud was asked about an instance.
func (p *pickyCloud) lookups() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// refusals returns how many writes were refused.
func (p *pickyCloud) refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.denied
}

// startPicky starts an engine with a Service and four nodes that are its targets.
func startPicky(t *testing.T) (*engine, *pickyCloud) {
	t.Helper()
	var plugin *pickyCloud
	e := startEngine(t, 1, func(e *engine) {
		plugin = &pickyCloud{memoryCloud: e.cloud, dead: map[string]bool{}, refused: map[string]bool{}}
		e.instances = plugin
	})
	e.core.reconciler.applier.balancer = plugin
	for _, name := range []string{"a", "b", "c", "d"} {
		e.join(name)
	}
	time.Sleep(time.Minute)
	e.addService(serviceWith(named("early")))
	time.Sleep(time.Minute)
	e.expectMembers(t, "early", "a", "b", "c", "d")
	return e, plugin
}

func (e *engine) join(name string) { e.changeNode(name, nodeWith(name, identified("sim:///i-"+name))) }

// expectMembers ends the test unless the targets of a Service are these.
func (e *engine) expectMembers(t *testing.T, service string, want ...string) {
	t.Helper()
	e.cloud.mu.Lock()
	defer e.cloud.mu.Unlock()
	var got []string
	for node := range e.cloud.balancer[serviceWith(named(service)).UID] {
		got = append(got, node)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("targets of %s (-want +got):\n%s", service, diff)
	}
}

// An instance that is gone while its node goes on forever holds back neither the other targets nor new Services, and is a target again
// once the cloud knows it.
func TestATargetWithoutAnInstanceHoldsBackNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin := startPicky(t)
		defer e.stop()
		plugin.set(plugin.dead, "b", true)
		e.join("e")
		time.Sleep(time.Minute)
		e.expectMembers(t, "early", "a", "c", "d", "e")
		asked := plugin.lookups()

		e.addService(serviceWith(named("late")))
		time.Sleep(10 * time.Second)
		e.expectMembers(t, "late", "a", "c", "d", "e")
		e.join("f")
		time.Sleep(time.Minute)
		e.expectMembers(t, "early", "a", "c", "d", "e", "f")
		time.Sleep(time.Hour)
		if calls := plugin.lookups() - asked; calls > 70 {
			t.Errorf("the cloud was asked %d times in an hour about one instance", calls)
		}

		plugin.set(plugin.dead, "b", false)
		time.Sleep(3 * time.Minute)
		e.expectMembers(t, "early", "a", "b", "c", "d", "e", "f")
		e.expectMembers(t, "late", "a", "b", "c", "d", "e", "f")
	})
}

// A refusal is one write and one question: no other load balancer is written with a target that the cloud has just refused.
func TestARefusalCostsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin := startPicky(t)
		defer e.stop()
		for i := range 50 {
			e.addService(serviceWith(named(fmt.Sprint("other-", i))))
		}
		time.Sleep(time.Minute)
		refusals, asked := plugin.refusals(), plugin.lookups()
		plugin.set(plugin.dead, "b", true)
		e.join("e")
		time.Sleep(30 * time.Second)
		for i := range 50 {
			e.expectMembers(t, fmt.Sprint("other-", i), "a", "c", "d", "e")
		}
		if refused := plugin.refusals() - refusals; refused != 1 {
			t.Errorf("the cloud refused %d writes, want 1", refused)
		}
		if calls := plugin.lookups() - asked; calls > 3 {
			t.Errorf("the cloud was asked %d times about instances, want once for each node, and again later", calls)
		}
	})
}

// While instances die all the time, and their nodes go a while after them, the targets follow within a minute at any time.
func TestTargetsFollowWhileInstancesDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, plugin := startPicky(t)
		defer e.stop()
		for i := range 30 {
			plugin.set(plugin.dead, fmt.Sprintf("n%d", i-1), true)
			if i > 1 {
				e.changeNode(fmt.Sprintf("n%d", i-2), nil)
			}
			e.join(fmt.Sprintf("n%d", i))
			time.Sleep(45 * time.Second)
			e.expectMembers(t, "early", "a", "b", "c", "d", fmt.Sprintf("n%d", i))
		}
	})
}

// What the cloud refuses stays a target if the cloud has an instance for it, and so do all if it says of more than half that it has none.
func TestNoTargetIsLeftOutByARefusalAlone(t *testing.T) {
	for name, lie := range map[string]func(*pickyCloud){
		"the instance exists": func(p *pickyCloud) { p.set(p.refused, "b", true) },
		"most are denied": func(p *pickyCloud) {
			for _, node := range []string{"a", "b", "c"} {
				p.set(p.dead, node, true)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, plugin := startPicky(t)
				defer e.stop()
				lie(plugin)
				e.join("e")
				time.Sleep(30 * time.Minute)
				e.expectMembers(t, "early", "a", "b", "c", "d")
				if asked, most := plugin.lookups(), 3*30+10; asked > most { // three a minute
					t.Errorf("the cloud was asked %d times about instances, want at most %d", asked, most)
				}
			})
		})
	}
}

func TestNamedIn(t *testing.T) {
	nodes := []*corev1.Node{
		nodeWith("node-1", identified("sim:///zone-a/i-01")), nodeWith("node-11", identified("sim:///zone-a/i-011")), nodeWith("bare", identified("")),
		nodeWith("node.example.com", identified("openstack:///6b1c-77")),
	}
	for text, want := range map[string][]string{
		`targets[3]: Invalid value: "i-01": there is no such instance`: {"node-1"},
		"The resource 'projects/p/instances/node-11' was not found":    {"node-11"},
		"no server 6b1c-77.":                        {"node.example.com"},
		"sim:///zone-a/i-011 and node.example.com.": {"node-11", "node.example.com"},
		"i-0111, node-1-a, /, \"\" and zone-a":      {},
		"quota exceeded":                            {},
	} {
		if diff := cmp.Diff(want, namesOf(namedIn(text, nodes, 10))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if named := namedIn("i-01 i-011", nodes, 1); len(named) != 1 {
		t.Errorf("%d nodes are named, want 1 at most", len(named))
	}
}
