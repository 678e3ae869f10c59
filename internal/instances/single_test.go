package instances_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/provider"
)

// bothCloud lists, and answers for single instances too, as its list does or as it is told to.
type bothCloud struct {
	*listingCloud
	exists, shutdown func(name string) (bool, error) // nil: as the list
	singles          int
}

func (c *bothCloud) Instances() (cloudprovider.Instances, bool)     { return nil, false }
func (c *bothCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *bothCloud) InstanceMetadata(_ context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.singles++
	for _, instance := range c.instances {
		if string(instance.NodeName) == n.Name {
			return &instance.InstanceMetadata, nil
		}
	}
	return nil, provider.ErrInstanceNotFound
}

func (c *bothCloud) is(n *corev1.Node) (provider.Instance, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.singles++
	instance, ok := c.instances[n.Spec.ProviderID]
	return instance, ok
}

func (c *bothCloud) InstanceExists(_ context.Context, n *corev1.Node) (bool, error) {
	_, ok := c.is(n)
	if c.exists != nil {
		return c.exists(n.Name)
	}
	return ok, nil
}

func (c *bothCloud) InstanceShutdown(_ context.Context, n *corev1.Node) (bool, error) {
	instance, _ := c.is(n)
	if c.shutdown != nil {
		return c.shutdown(n.Name)
	}
	return instance.State == provider.InstanceStopped, nil
}

func (c *bothCloud) asked() (listings, singles int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listings, c.singles
}

func TestSingleNodesAreAskedForWhenThatCostsLess(t *testing.T) {
	no := func(string) (bool, error) { return false, nil }
	yes := func(string) (bool, error) { return true, nil }
	unknown := func(string) (bool, error) { return false, provider.ErrNotImplemented }
	fails := func(string) (bool, error) { return false, context.DeadlineExceeded }
	stopped, running := provider.InstanceStopped, provider.InstanceRunning
	for name, test := range map[string]struct {
		instances        int
		nodes            []string
		exists, shutdown func(string) (bool, error)
		happens          func(*bothCloud)
		want             instances.Status
		state            provider.InstanceState
		listings         int // of two questions
		singles          int
	}{
		"nothing has changed":          {instances: 20, nodes: []string{"n0"}, want: instances.Found, state: running, singles: 4},
		"the list is as cheap":         {instances: 2, nodes: []string{"n0"}, want: instances.Found, state: running, listings: 2},
		"too many nodes":               {instances: 20, nodes: []string{"n0", "n1", "n2", "n3", "n4"}, want: instances.Found, state: running, listings: 2},
		"it went":                      {instances: 20, nodes: []string{"n0"}, happens: func(c *bothCloud) { c.remove("sim://n0") }, want: instances.NotFound, listings: 2, singles: 1},
		"it was shut down":             {instances: 20, nodes: []string{"n0"}, happens: stop, want: instances.Found, state: stopped, listings: 1, singles: 4},
		"errors are no answers":        {instances: 20, nodes: []string{"n0"}, exists: fails, want: instances.Found, state: running, listings: 2, singles: 2},
		"a provider that only lists":   {instances: 20, nodes: []string{"n0"}, exists: no, want: instances.Found, state: running, listings: 2, singles: 2},
		"one that does not say states": {instances: 20, nodes: []string{"n0"}, shutdown: unknown, want: instances.Found, state: running, listings: 2, singles: 4},
		"one whose answers are fixed":  {instances: 20, nodes: []string{"n0"}, exists: yes, shutdown: yes, want: instances.Found, state: running, listings: 2, singles: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &bothCloud{listingCloud: newListingCloud(), exists: test.exists, shutdown: test.shutdown}
				cloud.pageSize = 2
				for i := range test.instances {
					cloud.add(fmt.Sprint("n", i))
				}
				inv := instances.New(instances.Options{Cloud: cloud})
				nodes := make([]*corev1.Node, len(test.nodes))
				for i, name := range test.nodes {
					nodes[i] = nodeWithID(name, "sim://"+name)
				}
				ask := func() (of instances.Observation) {
					inv.StateEach(t.Context(), nodes, 0, func(n *corev1.Node, got instances.Observation, err error) {
						if err != nil {
							t.Error(err)
						}
						if n.Name == "n0" {
							of = got
						} else if got.Status != instances.Found {
							t.Errorf("%s beside it is %s", n.Name, got.Status)
						}
					})
					return of
				}
				ask()
				if test.happens != nil {
					test.happens(cloud)
				}
				listed, single := cloud.asked()
				for range 2 {
					time.Sleep(10 * time.Second)
					asked := time.Now()
					if got := ask(); got.Status != test.want || got.State != test.state || got.At.Before(asked) {
						t.Errorf("%s in state %v at %s, want %s in state %v by an answer from %s", got.Status, got.State, got.At, test.want, test.state, asked)
					}
				}
				listings, singles := cloud.asked()
				if listings-listed != test.listings || singles-single != test.singles {
					t.Errorf("%d listings and %d questions for single nodes, want %d and %d", listings-listed, singles-single, test.listings, test.singles)
				}
			})
		})
	}
}

func stop(c *bothCloud) {
	c.change("sim://n0", func(instance *provider.Instance) { instance.State = provider.InstanceStopped })
}

// For an hour the cloud hangs when it is asked for one instance. All nodes get their answers soon, by listings, and it is not asked for that
// instance on and on.
func TestASingleQuestionThatHangs(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			plugin := &hangingCloud{deaf: deaf, over: make(chan struct{})}
			plugin.bothCloud = &bothCloud{listingCloud: newListingCloud()}
			plugin.pageSize, plugin.pageTime = 1, 10*time.Millisecond
			for i := range 20 {
				plugin.add(fmt.Sprint("n", i))
			}
			inv := instances.New(instances.Options{Cloud: cloud.Decorate(plugin, cloud.Options{})})
			slow := 0
			for start := time.Now(); time.Since(start) < time.Hour; time.Sleep(5 * time.Second) {
				began, answers := time.Now(), 0
				nodes := []*corev1.Node{nodeWithID("n0", "sim://n0"), nodeWithID("n1", "sim://n1")}
				inv.StateEach(t.Context(), nodes, 0, func(n *corev1.Node, got instances.Observation, err error) {
					if answers++; err != nil || got.Status != instances.Found {
						t.Errorf("%s: %s, error %v", n.Name, got.Status, err)
					}
				})
				took := time.Since(began)
				if took > instances.AnswerWait+time.Second || answers != 2 {
					t.Fatalf("%d answers after %s", answers, took)
				}
				if took >= instances.AnswerWait {
					slow++
				}
			}
			if slow == 0 || slow > 7 || plugin.hung == 0 || plugin.hung > 7 {
				t.Errorf("%d questions took long, and the cloud hung %d times", slow, plugin.hung)
			}
			close(plugin.over)
			synctest.Wait()
		})
	}
}

// hangingCloud does not answer whether the instance n0 exists, and may be deaf to its context.
type hangingCloud struct {
	*bothCloud
	deaf bool
	over chan struct{}
	hung int
}

func (c *hangingCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

func (c *hangingCloud) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	if n.Name != "n0" {
		return c.bothCloud.InstanceExists(ctx, n)
	}
	c.mu.Lock()
	c.hung++
	c.mu.Unlock()
	if c.deaf {
		<-c.over
		return true, nil
	}
	select {
	case <-c.over:
	case <-ctx.Done():
	}
	return true, ctx.Err()
}
