package octavia

import (
	"context"
	"fmt"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
)

// tagging has the tags of each load balancer changed by one Service after the other: octavia replaces them as a whole, so of two which
// share a load balancer and change its tags at once one would bring back what the other has taken away. It is safe for concurrent use.
type tagging struct {
	lock sync.Mutex
	busy map[string]bool
}

// begin returns the load balancer as it is now. Until end is called, no other Service of this process changes its tags. If another Service
// is changing them, the error is "come again".
func (t *tagging) begin(ctx context.Context, a api, id string) (lb *loadbalancers.LoadBalancer, end func(), err error) {
	if !t.take(id) {
		return nil, nil, again(fmt.Sprintf("another Service changes the tags of load balancer %s", id))
	}
	end = func() { t.release(id) }
	if lb, err = loadbalancers.Get(ctx, a.client, id).Extract(); err != nil {
		end()
		return nil, nil, err
	}
	return lb, end, nil
}

func (t *tagging) take(id string) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.busy[id] {
		return false
	}
	if t.busy == nil {
		t.busy = map[string]bool{}
	}
	t.busy[id] = true
	return true
}

func (t *tagging) release(id string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.busy, id)
}

// claim gives a load balancer the name and tags that were planned for those which it has. If it has others by now, the error is "come again".
func (a api) claim(ctx context.Context, have observation, c change) error {
	lb, end, err := a.tagging.begin(ctx, a, have.id)
	if err != nil {
		return err
	}
	defer end()
	if !sameSet(lb.Tags, have.tags) {
		return again(fmt.Sprintf("the tags of load balancer %s have changed meanwhile", have.id))
	}
	return a.retag(ctx, have.id, c.name, c.tags)
}

func (a api) retag(ctx context.Context, id, name string, tags []string) error {
	if len(tags) == 0 {
		tags = []string{""} // no tags are a change of none
	}
	_, err := loadbalancers.Update(ctx, a.client, id, loadbalancers.UpdateOpts{Name: &name, Tags: &tags}).Extract()
	return err
}
