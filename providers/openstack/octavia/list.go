package octavia

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// members remembers what members are, by their IDs: the address and port of a member never change, and only its creator changes its name. A
// list of pools has the IDs only, so the list of load balancers asks for new members.
type members struct {
	lock sync.Mutex
	byID map[string]pools.Member
}

// keep replaces what is remembered, so members which are gone are forgotten.
func (m *members) keep(current map[string]pools.Member) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.byID = current
}

func (m *members) get(id string) (pools.Member, bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	member, known := m.byID[id]
	return member, known
}

// List lists the load balancers of a cluster that have tags of ours, with listeners and targets: all of them, or an error. It costs four
// calls, whatever their number, and one for each load balancer with members that no list has seen before.
func (b *Balancers) List(ctx context.Context, clusterName string) ([]provider.LoadBalancer, error) {
	s, err := b.services(ctx)
	if err != nil {
		return nil, err
	}
	tags := []string{model.ClusterTag(clusterName)}
	balancers, err := s.api.listBalancers(ctx, loadbalancers.ListOpts{Tags: tags})
	if err != nil || len(balancers) == 0 {
		return []provider.LoadBalancer{}, err
	}
	b.seen.keepOnly(balancers)
	snapshot, err := s.below(ctx, tags)
	if err != nil {
		return nil, err
	}
	current := map[string]pools.Member{}
	listed := []provider.LoadBalancer{}
	for i := range balancers {
		observed, err := s.complete(ctx, &balancers[i], snapshot, b.known, current)
		if err != nil {
			return nil, err
		}
		for _, owner := range model.Owners(balancers[i].Tags) {
			tag := model.Name(clusterName, owner.Service)
			if !slices.Contains(balancers[i].Tags, tag) {
				continue // another cluster's, which shares the load balancer
			}
			listed = append(listed, b.listedBalancer(observed, owner, claimant{tag: tag, owns: observed.name == tag}, snapshot.floating))
		}
	}
	b.known.keep(current)
	return listed, nil
}

// snapshot is what is below all load balancers of a cluster.
type snapshot struct {
	listeners map[string]listeners.Listener
	pools     map[string]pools.Pool
	floating  map[string]string // addresses by the ports that they are attached to
}

func (s services) below(ctx context.Context, tags []string) (snapshot, error) {
	all := snapshot{listeners: map[string]listeners.Listener{}, pools: map[string]pools.Pool{}, floating: map[string]string{}}
	found, err := s.api.listListeners(ctx, listeners.ListOpts{Tags: tags})
	if err != nil {
		return all, err
	}
	for _, listener := range found {
		all.listeners[listener.ID] = listener
	}
	behind, err := s.api.listPools(ctx, pools.ListOpts{Tags: tags})
	if err != nil {
		return all, err
	}
	for _, pool := range behind {
		all.pools[pool.ID] = pool
	}
	attached, err := s.network.floatingIPs(ctx, floatingips.ListOpts{})
	for _, address := range attached {
		if address.PortID != "" {
			all.floating[address.PortID] = address.FloatingIP
		}
	}
	return all, err
}

// complete joins a load balancer with what is below it. It asks octavia for listeners and pools that have no tags yet, and for unknown
// members.
func (s services) complete(ctx context.Context, lb *loadbalancers.LoadBalancer, all snapshot, known *members, current map[string]pools.Member,
) (observation, error) {
	var found []listeners.Listener
	for _, reference := range lb.Listeners {
		if listener, ok := all.listeners[reference.ID]; ok {
			found = append(found, listener)
		}
	}
	var behind []pools.Pool
	for _, reference := range lb.Pools {
		if pool, ok := all.pools[reference.ID]; ok {
			behind = append(behind, pool)
		}
	}
	have := header(lb)
	var err error
	if len(found) != len(lb.Listeners) {
		if found, err = s.api.listListeners(ctx, listeners.ListOpts{LoadbalancerID: lb.ID}); err != nil {
			return have, err
		}
	}
	if len(behind) != len(lb.Pools) {
		if behind, err = s.api.listPools(ctx, pools.ListOpts{LoadbalancerID: lb.ID}); err != nil {
			return have, err
		}
	}
	of, err := s.knownMembers(ctx, lb.ID, behind, known, current)
	if err != nil {
		return have, err
	}
	have.listeners = assemble(found, behind, of, nil)
	return have, nil
}

// knownMembers returns the members of pools, from what is remembered if all of them are.
func (s services) knownMembers(ctx context.Context, id string, of []pools.Pool, known *members, current map[string]pools.Member,
) (map[string][]pools.Member, error) {
	found, complete := map[string][]pools.Member{}, true
	for _, pool := range of {
		for _, reference := range pool.Members {
			member, ok := known.get(reference.ID)
			complete = complete && ok
			found[pool.ID] = append(found[pool.ID], member)
		}
	}
	if !complete {
		var err error
		if found, err = s.api.membersOf(ctx, id, of, false); err != nil {
			return nil, err
		}
	}
	for _, behind := range found {
		for _, member := range behind {
			current[member.ID] = member
		}
	}
	return found, nil
}

// listedBalancer is a load balancer as a list shows it for one of the Services that it serves.
func (b *Balancers) listedBalancer(have observation, owner model.Owner, as claimant, floating map[string]string) provider.LoadBalancer {
	listed := provider.LoadBalancer{Name: have.name, Service: owner.Service, ServiceUID: owner.UID, ClusterUID: owner.ClusterUID}
	proxied, ports := false, []v1.ServicePort{}
	var names map[types.NodeName]int
	behind := 0
	for _, listener := range have.listeners {
		if !as.mine(listener) {
			continue
		}
		behind++
		proxied = proxied || listener.Pool.Protocol == "PROXY" || listener.Pool.Protocol == "PROXYV2"
		port := v1.ServicePort{Protocol: v1.Protocol(listener.Key().Transport), Port: int32(listener.Port)}
		for _, member := range listener.Pool.Members {
			if names == nil {
				names = map[types.NodeName]int{}
			}
			names[types.NodeName(member.Name)]++
			port.NodePort = int32(member.Port)
		}
		if port.NodePort == 0 {
			ports = nil // what has no members does not show its node port
		}
		if ports != nil {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b v1.ServicePort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	listed.Ports = ports
	listed.Targets = []types.NodeName{}
	for name, pools := range names {
		if pools == behind { // a node that is missing behind one port is missing
			listed.Targets = append(listed.Targets, name)
		}
	}
	slices.Sort(listed.Targets)
	hostname := ""
	if as.owns {
		hostname = model.Hostname(have.tags)
	}
	if have.state == stateActive {
		listed.Status = *statusOf(shownAddresses(have.vips, floating[have.vipPortID]), hostname, proxied, b.options())
	}
	return listed
}

// ChangeTargets adds nodes to the members of a Service's load balancer and takes others out, whatever the other members are. It costs a call
// for each pool beside the look.
func (b *Balancers) ChangeTargets(ctx context.Context, clusterName string, service *v1.Service, add, remove []*v1.Node) error {
	r, err := b.request(ctx, clusterName, service, add)
	if err != nil {
		return err
	}
	want, err := desired(r)
	if err != nil {
		return provider.Terminal(err)
	}
	gone := map[string]bool{}
	for _, node := range remove {
		gone[node.Name] = true
	}
	return b.retarget(ctx, r, func(has observedListener) []model.Member {
		var added []model.Member
		for _, wanted := range want.Listeners {
			if kept(wanted, has) {
				added = wanted.Pool.Members
			}
		}
		stays := slices.DeleteFunc(slices.Clone(has.Pool.Members), func(m model.Member) bool {
			return gone[m.Name] || slices.ContainsFunc(added, func(a model.Member) bool { return a.Name == m.Name || a.Address == m.Address })
		})
		stays = append(stays, added...)
		model.SortMembers(stays)
		return stays
	})
}

// Capabilities adds to what a provider offers that load balancers are listed, and that their targets are changed by a difference. Whether
// they are is asked for once, when the manager starts.
func (b *Balancers) Capabilities(to provider.Capabilities) provider.Capabilities {
	to.ListLoadBalancers, to.LoadBalancerWrites = b.List, Writes
	to.SelectsByLabels = func() bool { return b.options().NodeSelector != "" }
	if !b.options().ManageSecurityGroups { // the group holds the ports of all members, so it needs them all
		to.ChangeTargets = b.ChangeTargets
	}
	return to
}
