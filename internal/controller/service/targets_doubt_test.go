package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
)

// listedNodes returns how often all nodes were listed so far.
func (c *cluster) listedNodes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodeLists
}

// A node about which the plugin returns errors forever costs a look at the nodes now and then, and no more: neither passes over Services
// nor load balancers whose changes fail add to that, and the cloud's load balancers are not listed for the latter. Nodes that come are
// targets as soon as ever.
func TestANodeInDoubtCostsNoMoreThanItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int64
		e := startEngine(t, 4, func(e *engine) {
			e.instances = &refusing{}
			e.cloud.list = func(context.Context, string) ([]provider.LoadBalancer, error) {
				lists.Add(1)
				return nil, errors.New("not now")
			}
			for _, node := range []*corev1.Node{nodeWith("a"), nodeWith("foreign", identified("metal3://x"))} {
				e.cluster.nodes[node.Name] = node
			}
		})
		defer e.stop()
		plugin := e.troubled(func(name string, number int) (time.Duration, error) {
			if number > 1 && (name == "bad-1" || name == "bad-2") {
				return 0, errors.New("no")
			}
			return 0, nil
		})
		healthy := serviceWith(named("healthy"))
		time.Sleep(time.Minute)
		for _, service := range []*corev1.Service{healthy, serviceWith(named("bad-1")), serviceWith(named("bad-2"))} {
			e.addService(service)
		}
		time.Sleep(time.Minute)
		e.changeNode("b", nodeWith("b"))
		time.Sleep(10*time.Minute + DefaultFirstRetry/2) // no change comes at the moment of a look
		listed, before := lists.Load(), e.cluster.listedNodes()
		for i := range 60 {
			e.edit(keyOf(healthy), func(s *corev1.Service) { s.Annotations = map[string]string{"n": fmt.Sprint(i)} })
			time.Sleep(time.Minute)
		}
		// A pass at the moment of a look lists the nodes, too: those over the other two may, once in five minutes each.
		if n, most := e.cluster.listedNodes()-before, int(time.Hour/DefaultFirstRetry)+30; n > most {
			t.Errorf("all nodes were listed %d times in an hour, want at most %d", n, most)
		}
		if n := lists.Load() - listed; n > 0 {
			t.Errorf("load balancers were listed %d times in an hour", n)
		}
		if n := len(plugin.written("healthy")); n < 60 {
			t.Errorf("the other Service was written %d times, want once for each of 60 changes", n)
		}
		e.changeNode("c", nodeWith("c"))
		if took := e.follow(t, []*corev1.Service{healthy}, "c"); took > DefaultTargetQuiet+DefaultFirstRetry {
			t.Errorf("a node was a target after %s", took)
		}
	})
}
