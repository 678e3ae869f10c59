package service

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// moodyInstances are asked for one at a time. Calls for the node "hangs" end with an error after a minute, as the client of the cloud
// has it, and those for the node "fails" at once. All others are there.
type moodyInstances struct {
	cloudprovider.Interface
	mu    sync.Mutex
	calls map[string]int
}

func (m *moodyInstances) ProviderName() string { return "sim" }
func (m *moodyInstances) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return onlyMetadata{m: m}, true
}
func (m *moodyInstances) Instances() (cloudprovider.Instances, bool) { return nil, false }

type onlyMetadata struct {
	cloudprovider.InstancesV2
	m *moodyInstances
}

func (o onlyMetadata) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return o.m.metadata(ctx, node)
}

func (m *moodyInstances) metadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m.mu.Lock()
	m.calls[node.Name]++
	m.mu.Unlock()
	took := 50 * time.Millisecond
	if node.Name == "hangs" {
		took = time.Minute
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if node.Name == "hangs" || node.Name == "fails" {
		return nil, errors.New("no answer")
	}
	return &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID}, nil
}

// takesPart returns how long it takes until a node is a target.
func (e *engine) takesPart(name string) time.Duration {
	e.changeNode(name, nodeWith(name, identified("bare-"+name)))
	start := time.Now()
	for !e.cloud.has("uid-1", name) && time.Since(start) < 10*time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// A node for which the cloud does not answer holds up no other node, and is a target as from the reference, without a question.
func TestTargetsDoNotWaitForTheCloudsAnswerAboutOthers(t *testing.T) {
	var undisturbed time.Duration
	for _, bad := range [][]string{nil, {"hangs"}, {"fails"}, {"hangs", "fails"}} {
		synctest.Test(t, func(t *testing.T) {
			plugin := &moodyInstances{calls: map[string]int{}}
			e := startEngine(t, 4, func(e *engine) { e.instances = plugin })
			defer e.stop()
			e.changeNode("a", nodeWith("a", identified("bare-a")))
			time.Sleep(time.Minute)
			e.addService(serviceWith())
			time.Sleep(time.Minute)
			for _, name := range bad {
				e.changeNode(name, nodeWith(name, identified("bare-"+name)))
			}
			took := []time.Duration{e.takesPart("b")}
			time.Sleep(5 * time.Minute)
			took = append(took, e.takesPart("c"))
			if bad == nil {
				undisturbed = max(took[0], took[1])
			}
			for _, each := range took {
				if each > 2*undisturbed {
					t.Errorf("beside %v a node is a target after %s, want at most twice %s", bad, each, undisturbed)
				}
			}
			before := e.cloud.count("update")
			time.Sleep(time.Hour)
			if now := e.cloud.count("update"); now != before {
				t.Errorf("%d updates within an hour beside %v", now-before, bad)
			}
			plugin.mu.Lock()
			defer plugin.mu.Unlock()
			for _, name := range bad {
				if calls := plugin.calls[name]; !e.cloud.has("uid-1", name) || calls > 0 {
					t.Errorf("%s is a target: %t; it was asked for %d times", name, e.cloud.has("uid-1", name), calls)
				}
			}
		})
	}
}

// A new leader does not take a node out of load balancers because the cloud does not say whose it is, whatever its provider ID begins with.
func TestANewLeaderKeepsTargetsOfUnknownOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, 4, func(e *engine) {
			e.instances = &moodyInstances{calls: map[string]int{}}
			for _, node := range []*corev1.Node{
				nodeWith("a"), nodeWith("hangs", identified("bare-1")), nodeWith("fails", identified("other://2")),
			} {
				e.cluster.nodes[node.Name] = node
			}
		})
		defer e.stop()
		e.addService(serviceWith())
		time.Sleep(DefaultTargetDelay + 2*DefaultFirstRetry + time.Second)
		for name, want := range map[string]bool{"a": true, "hangs": true, "fails": true} {
			if got := e.cloud.has("uid-1", name); got != want {
				t.Errorf("%s is a target: %t, want %t", name, got, want)
			}
		}
	})
}
