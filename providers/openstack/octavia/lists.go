package octavia

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// ages are how old lists may be (ADR 37).
type ages struct {
	// toChange is for a list by which something that exists is found, changed or deleted.
	toChange time.Duration
	// toAdd is for a list which shows that a load balancer has no floating IP yet, or that a Service has no security group: neutron refuses
	// a second floating IP of a port, and only managers create such groups. It is for external networks too.
	toAdd time.Duration
}

// usualAges are the ages of lists outside of tests.
var usualAges = ages{toChange: comeAgain, toAdd: 5 * comeAgain}

// lists are the lists that Services share under one login, and when something was last written that they show. It is safe for concurrent use.
type lists struct {
	octavia, neutron *gophercloud.ServiceClient
	ages             ages
	floating         *shared[floatingips.FloatingIP]
	groups           *shared[groups.SecGroup]
	external         *shared[networks.Network]

	lock      sync.Mutex
	balancers map[string]*shared[loadbalancers.LoadBalancer] // by cluster
	wrote     map[string]time.Time
}

func newLists(octavia, neutron *gophercloud.ServiceClient) *lists {
	return &lists{octavia: octavia, neutron: neutron, ages: usualAges,
		floating: newShared(func(ctx context.Context) ([]floatingips.FloatingIP, error) {
			return shortListOf(ctx, floatingips.List(neutron, floatingips.ListOpts{Limit: mostShared}), floatingips.ExtractFloatingIPs)
		}),
		groups: newShared(func(ctx context.Context) ([]groups.SecGroup, error) {
			return shortListOf(ctx, groupNames(neutron), groups.ExtractGroups)
		}),
		external:  newShared(network{client: neutron}.externalNetworks),
		balancers: map[string]*shared[loadbalancers.LoadBalancer]{}, wrote: map[string]time.Time{},
	}
}

// current is the lists for the clients of the last operation. It is safe for concurrent use.
type current struct {
	lock  sync.Mutex
	lists *lists
}

// of returns the lists that operations with these clients share. They are new ones for others clients than before: those are of another login,
// maybe in another project.
func (c *current) of(octavia, neutron *gophercloud.ServiceClient) (found *lists, others bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.lists == nil || c.lists.octavia != octavia || c.lists.neutron != neutron {
		c.lists, others = newLists(octavia, neutron), true
	}
	return c.lists, others
}

// groupNames lists security groups without their rules.
func groupNames(neutron *gophercloud.ServiceClient) pagination.Pager {
	url := neutron.ServiceURL("security-groups") + "?fields=id&fields=name&limit=500"
	return pagination.NewPager(neutron, url, func(r pagination.PageResult) pagination.Page {
		return groups.SecGroupPage{LinkedPageBase: pagination.LinkedPageBase{PageResult: r}}
	})
}

// of returns the load balancers that have the tag of a cluster.
func (l *lists) of(cluster string) *shared[loadbalancers.LoadBalancer] {
	l.lock.Lock()
	defer l.lock.Unlock()
	list, known := l.balancers[cluster]
	if !known {
		options := loadbalancers.ListOpts{Tags: []string{model.ClusterTag(cluster)}, Limit: mostShared}
		list = newShared(func(ctx context.Context) ([]loadbalancers.LoadBalancer, error) {
			found, err := shortListOf(ctx, loadbalancers.List(l.octavia, options), loadbalancers.ExtractLoadBalancers)
			return existing(found), err
		})
		l.balancers[cluster] = list
	}
	return list
}

// outdate says that no list which began before now shows something as it is: it was just written, whether that succeeded or not.
func (l *lists) outdate(what ...string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.wrote, func(_ string, at time.Time) bool { return now.Sub(at) > max(l.ages.toAdd, l.ages.toChange) })
	for _, one := range what {
		l.wrote[one] = now
	}
}

// since returns when a list has to have begun that may be so old and shows what was written last.
func (l *lists) since(age time.Duration, what ...string) time.Time {
	l.lock.Lock()
	defer l.lock.Unlock()
	earliest := time.Now().Add(-age)
	for _, one := range what {
		if at := l.wrote[one]; at.After(earliest) {
			earliest = at
		}
	}
	return earliest
}
