package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/names"
)

// knowing is a plugin that says of each node's provider ID what its answer is: another spelling of it, an error, or that there is no instance.
type knowing struct {
	cloudprovider.Interface
	spelled map[string]string
	errs    map[string]error

	mu    sync.Mutex
	asked int
}

func (k *knowing) ProviderName() string { return "sim" }
func (k *knowing) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return knownInstances{k: k}, true
}
func (k *knowing) Instances() (cloudprovider.Instances, bool) { return nil, false }

type knownInstances struct {
	cloudprovider.InstancesV2
	k *knowing
}

func (i knownInstances) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i.k.mu.Lock()
	defer i.k.mu.Unlock()
	i.k.asked++
	id := node.Spec.ProviderID
	if err := i.k.errs[id]; err != nil {
		return nil, err
	}
	if spelled := i.k.spelled[id]; spelled != "" {
		id = spelled
	}
	return &cloudprovider.InstanceMetadata{ProviderID: id}, nil
}

// serving makes a Service one that has its load balancer from the leader before.
func serving(s *corev1.Service) {
	s.Status.LoadBalancer.Ingress = memoryStatus().Ingress
	s.Finalizers = []string{Finalizer}
}

// startAsNewLeader starts an engine in a cluster that has nodes already.
func startAsNewLeader(t *testing.T, instances cloudprovider.Interface, nodes ...*corev1.Node) *engine {
	return startEngine(t, 4, func(e *engine) {
		e.instances = instances
		for _, node := range nodes {
			e.cluster.nodes[node.Name] = node
		}
	})
}

// expectTargets checks which nodes are behind the load balancer of the Service.
func (e *engine) expectTargets(t *testing.T, want map[string]bool) {
	t.Helper()
	for name, is := range want {
		if got := e.cloud.has("uid-1", name); got != is {
			t.Errorf("%s is a target: %t, want %t", name, got, is)
		}
	}
}

// A new leader has all nodes as targets at once that are not foreign, and asks the cloud nothing for that: neither the scheme nor
// the spelling of an ID says whose a node is.
func TestTargetsNeedNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &knowing{
			spelled: map[string]string{"SIM://c": "sim://c"},
			errs:    map[string]error{"metal3://x": errors.New("invalid provider ID"), "aws://y": cloudprovider.InstanceNotFound},
		}
		e := startAsNewLeader(t, plugin, nodeWith("a"), nodeWith("bare", identified("i-1")), nodeWith("spelled", identified("SIM://c")),
			nodeWith("unreadable", identified("metal3://x")), nodeWith("other", identified("aws://y")), nodeWith("nameless", identified("")),
			nodeWith("ignored", func(n *corev1.Node) { n.Annotations = map[string]string{"mooring.dev/ignore": "true"} }))
		defer e.stop()
		e.addService(serviceWith(serving))
		time.Sleep(time.Second)
		all := map[string]bool{"a": true, "bare": true, "spelled": true, "unreadable": true, "other": true, "nameless": true, "ignored": false}
		e.expectTargets(t, all)
		if plugin.asked > 0 {
			t.Errorf("the cloud was asked %d times", plugin.asked)
		}
		time.Sleep(time.Minute)
		e.expectTargets(t, all)
		time.Sleep(time.Hour) // in which the answers get old
		e.expectTargets(t, all)
		if got := e.cloud.count("ensure") + e.cloud.count("update"); got != 1 {
			t.Errorf("%d writes, want one for the new leader", got)
		}
	})
}

// A node that was a target stays one when the taint for its initialization comes back, also over a restart, and when the cloud denies it. A node
// that was never initialized is none.
func TestATargetStaysOne(t *testing.T) {
	uninitialized := tainted(cloudproviderapi.TaintExternalCloudProvider)
	synctest.Test(t, func(t *testing.T) {
		plugin := &knowing{errs: map[string]error{}}
		labels := map[string]string{corev1.LabelInstanceTypeStable: "small", corev1.LabelTopologyZone: "z"}
		initialized := func(n *corev1.Node) { n.Labels = labels }
		e := startAsNewLeader(t, plugin, nodeWith("a"), nodeWith("before", uninitialized, initialized), nodeWith("bare", identified("i-1")),
			nodeWith("new", uninitialized, identified("")))
		defer e.stop()
		e.addService(serviceWith(serving))
		time.Sleep(time.Minute)
		want := map[string]bool{"a": true, "before": true, "bare": true, "new": false}
		e.expectTargets(t, want)
		plugin.mu.Lock()
		plugin.errs["i-1"] = cloudprovider.InstanceNotFound
		plugin.mu.Unlock()
		e.changeNode("a", nodeWith("a", uninitialized))
		e.changeNode("b", nodeWith("b"))
		time.Sleep(time.Minute)
		want["b"] = true
		e.expectTargets(t, want)
		e.changeNode("new", nodeWith("new"))
		time.Sleep(time.Minute)
		want["new"] = true
		e.expectTargets(t, want)
	})
}

// A node that is excluded, or whose Node is deleted, leaves within seconds however many others join. The autoscaler's taint is no reason to write.
func TestTargetsThatLeaveWaitForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 1)
		defer e.stop()
		for _, name := range []string{"a", "b", "c"} {
			e.changeNode(name, nodeWith(name))
		}
		e.addService(serviceWith())
		time.Sleep(time.Minute)
		joining, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			for i := 0; joining.Err() == nil; i++ {
				e.changeNode(fmt.Sprint("n", i), nodeWith(fmt.Sprint("n", i)))
				time.Sleep(500 * time.Millisecond)
			}
		})
		for name, leave := range map[string]func(){
			"a": func() { e.changeNode("a", nodeWith("a", excluded)) }, "b": func() { e.changeNode("b", nil) },
		} {
			time.Sleep(DefaultTargetDelay + time.Second)
			leave()
			time.Sleep(2 * time.Second)
			if e.cloud.has("uid-1", name) {
				t.Errorf("%s is still a target", name)
			}
		}
		stop()
		running.Wait()
		time.Sleep(time.Minute)
		before := e.cloud.count("update")
		e.changeNode("c", nodeWith("c", tainted(names.TaintToBeDeleted)))
		time.Sleep(time.Minute)
		if n := e.cloud.count("update") - before; n != 0 || !e.cloud.has("uid-1", "c") {
			t.Errorf("%d updates for the autoscaler's taint", n)
		}
	})
}
