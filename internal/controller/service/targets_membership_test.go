package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// refusing is a plugin that is asked for one node at a time, and returns a plain error for each provider ID that it cannot read, as
// those of AWS, hcloud and DigitalOcean do. It knows the instances of its own scheme, and answers for a node without a provider ID
// by its name.
type refusing struct {
	cloudprovider.Interface
	// byName are the provider IDs of instances by name.
	byName map[string]string

	mu    sync.Mutex
	asked map[string]int
}

func (r *refusing) ProviderName() string { return "sim" }
func (r *refusing) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return refusingInstances{r: r}, true
}
func (r *refusing) Instances() (cloudprovider.Instances, bool) { return nil, false }

type refusingInstances struct {
	cloudprovider.InstancesV2
	r *refusing
}

func (i refusingInstances) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return i.r.metadata(node)
}

func (r *refusing) metadata(node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	r.mu.Lock()
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	r.asked[node.Name]++
	r.mu.Unlock()
	id := node.Spec.ProviderID
	switch {
	case strings.HasPrefix(id, "sim://"):
		return &cloudprovider.InstanceMetadata{ProviderID: id}, nil
	case id != "":
		return nil, fmt.Errorf("invalid provider ID %q", id)
	case r.byName[node.Name] != "":
		return &cloudprovider.InstanceMetadata{ProviderID: r.byName[node.Name]}, nil
	default:
		return nil, cloudprovider.InstanceNotFound
	}
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

// A node for which the plugin returns an error holds up neither a new leader's first Ensure nor any change that comes after it. It is a target as
// from the reference: the scheme of its provider ID does not say that it is another provider's.
func TestANodeThatThePluginCannotReadHoldsNothingUp(t *testing.T) {
	for _, from := range []string{"the start", "later"} {
		t.Run("there from "+from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				foreign := nodeWith("foreign", identified("metal3://x"))
				there := []*corev1.Node{nodeWith("a")}
				if from == "the start" {
					there = append(there, foreign)
				}
				e := startAsNewLeader(t, &refusing{}, there...)
				defer e.stop()
				e.addService(serviceWith(serving))
				time.Sleep(DefaultTargetDelay + 2*DefaultFirstRetry + time.Second)
				if got := e.cloud.count("ensure"); got != 1 {
					t.Errorf("%d Services were ensured, want 1", got)
				}
				e.changeNode("foreign", foreign)
				for i := range 24 { // a day in which the nodes are rolled, one an hour
					e.changeNode(fmt.Sprintf("n%d", i), nodeWith(fmt.Sprintf("n%d", i)))
					if i > 0 {
						e.changeNode(fmt.Sprintf("n%d", i-1), nil)
					}
					time.Sleep(DefaultTargetDelay + time.Second)
					e.expectTargets(t, map[string]bool{"a": true, fmt.Sprintf("n%d", i): true, fmt.Sprintf("n%d", i-1): false, "foreign": true})
					time.Sleep(time.Hour)
				}
			})
		})
	}
}

// Where nothing says that a node belongs to another provider, an error about it is not waited for to end.
func TestANewLeaderDoesNotWaitForErrorsToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startAsNewLeader(t, &refusing{}, nodeWith("a"), nodeWith("bare", identified("i-1")))
		defer e.stop()
		e.addService(serviceWith(serving))
		time.Sleep(instances.AnswerWait)
		if got := e.cloud.count("ensure"); got != 1 {
			t.Errorf("%d Services were ensured after %s, want 1", got, instances.AnswerWait)
		}
		e.expectTargets(t, map[string]bool{"a": true, "bare": true})
		time.Sleep(time.Hour)
		e.expectTargets(t, map[string]bool{"a": true, "bare": true})
		if got := e.cloud.count("ensure") + e.cloud.count("update"); got != 1 {
			t.Errorf("%d writes for a set that stays as it is, want 1", got)
		}
	})
}

// unlistable is a plugin that can list, but whose listing fails or takes its time.
type unlistable struct {
	refusing
	takes time.Duration
	err   error
}

func (u *unlistable) Capabilities() provider.Capabilities {
	return provider.Capabilities{ListInstances: u.list}
}

func (u *unlistable) list(context.Context, func([]provider.Instance) error) error {
	time.Sleep(u.takes)
	return u.err
}

// A listing that fails is an error about every node in doubt. A new leader goes on without it, as it does where nodes are asked for
// one by one.
func TestANewLeaderDoesNotWaitForAListThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startAsNewLeader(t, &unlistable{takes: time.Second, err: errors.New("page 2: 500 Internal Server Error")},
			nodeWith("a"), nodeWith("bare", identified("i-1")), nodeWith("foreign", identified("metal3://x")))
		defer e.stop()
		e.addService(serviceWith(serving))
		time.Sleep(DefaultTargetDelay + 2*DefaultFirstRetry + 2*time.Second)
		if got := e.cloud.count("ensure"); got != 1 {
			t.Errorf("%d Services were ensured, want 1", got)
		}
		e.changeNode("b", nodeWith("b"))
		time.Sleep(time.Minute)
		e.expectTargets(t, map[string]bool{"a": true, "b": true, "bare": true, "foreign": true})
	})
}

// Nodes that were initialized before there was a cloud controller manager have no provider ID, and keep their places behind load
// balancers, whatever the cloud says of their names.
func TestNodesWithoutProviderIDKeepTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &refusing{byName: map[string]string{"namesake": "sim://1"}}
		e := startAsNewLeader(t, plugin, nodeWith("a"), nodeWith("namesake", identified("")), nodeWith("unknown", identified("")))
		defer e.stop()
		e.addService(serviceWith(serving))
		time.Sleep(time.Minute)
		e.changeNode("new", nodeWith("new", identified("")))
		e.changeNode("ignored", nodeWith("ignored", identified(""), func(n *corev1.Node) {
			n.Annotations = map[string]string{"mooring.dev/ignore": "true"}
		}))
		time.Sleep(time.Hour)
		e.expectTargets(t, map[string]bool{"a": true, "namesake": true, "unknown": true, "new": true, "ignored": false})
		if got := e.cloud.count("ensure") + e.cloud.count("update"); got != 2 {
			t.Errorf("%d writes, want one for the new leader and one for the new node", got)
		}
		plugin.mu.Lock()
		defer plugin.mu.Unlock()
		if len(plugin.asked) > 0 {
			t.Errorf("the cloud was asked for %v, although no answer decides anything", plugin.asked)
		}
	})
}
