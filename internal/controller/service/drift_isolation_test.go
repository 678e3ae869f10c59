package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-ccm/mooring/provider"
)

// A list of the load balancers that hangs, or is refused again and again, for ever delays changes of the targets by two seconds once in a
// period of the drift check, and not otherwise. It is asked for again, and used once it works.
func TestAListThatHangsHardlyDelaysTargets(t *testing.T) {
	for name, err := range map[string]error{"hangs": context.DeadlineExceeded, "refused": &provider.ThrottledError{Err: errors.New("slow down")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lists atomic.Int32
				var works atomic.Bool
				e := startEngine(t, 1, func(e *engine) {
					e.cloud.list = func(ctx context.Context, _ string) ([]provider.LoadBalancer, error) {
						lists.Add(1)
						if works.Load() {
							return e.listed(), nil
						}
						select {
						case <-ctx.Done():
							return nil, ctx.Err()
						case <-time.After(time.Minute): // as the client of the cloud has it
							return nil, err
						}
					}
				})
				defer e.stop()
				healthy := healthyServices(3)
				e.changeNode("node-0", nodeWith("node-0"))
				time.Sleep(time.Minute)
				for _, service := range healthy {
					e.addService(service)
				}
				time.Sleep(DefaultDriftCheckPeriod)
				const rounds = 30
				began := time.Now()
				for round := 1; round <= rounds; round++ {
					before, next := lists.Load(), fmt.Sprintf("node-%d", round)
					e.changeNode(next, nodeWith(next))
					e.changeNode(fmt.Sprintf("node-%d", round-1), nil)
					bound := DefaultTargetQuiet + time.Second
					took := e.follow(t, healthy, next)
					if lists.Load() > before {
						bound += listPatience
					}
					if took > bound {
						t.Errorf("round %d: %s until all load balancers had a node, want at most %s", round, took, bound)
					}
					time.Sleep(time.Minute)
				}
				periods := int32(time.Since(began)/DefaultDriftCheckPeriod) + 1
				if n := lists.Load(); n < 2 || n > periods {
					t.Errorf("%d lists in %d periods of the drift check", n, periods)
				}
				works.Store(true)
				time.Sleep(DefaultDriftCheckPeriod)
				before := e.cloud.count("update")
				e.changeNode("more", nodeWith("more"))
				time.Sleep(time.Minute)
				if n := e.cloud.count("update") - before; n != 0 {
					t.Errorf("%d updates although a list says again that the cloud has done it all", n)
				}
			})
		})
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
