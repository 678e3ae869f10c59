package octavia

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// api makes the calls of octavia. Its errors are classified.
type api struct {
	client *gophercloud.ServiceClient
	driver string
}

func (a api) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, classify(a.driver, err))
}

// pagesOf collects all pages of a list: it is complete or an error.
func pagesOf[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	var all []T
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		found, err := extract(page)
		all = append(all, found...)
		return err == nil, err
	})
	return all, err
}

// listBalancers lists load balancers without those that are deleted already, each once: octavia repeats one that matches by two tags.
func (a api) listBalancers(ctx context.Context, options loadbalancers.ListOpts) ([]loadbalancers.LoadBalancer, error) {
	found, err := pagesOf(ctx, loadbalancers.List(a.client, options), loadbalancers.ExtractLoadBalancers)
	if err != nil {
		return nil, a.failed("listing load balancers", err)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(found, func(lb loadbalancers.LoadBalancer) bool {
		repeated := seen[lb.ID]
		seen[lb.ID] = true
		return repeated || lb.ProvisioningStatus == stateDeleted
	}), nil
}

func (a api) listListeners(ctx context.Context, options listeners.ListOpts) ([]listeners.Listener, error) {
	found, err := pagesOf(ctx, listeners.List(a.client, options), listeners.ExtractListeners)
	return found, a.failed("listing listeners", err)
}

func (a api) listPools(ctx context.Context, options pools.ListOpts) ([]pools.Pool, error) {
	found, err := pagesOf(ctx, pools.List(a.client, options), pools.ExtractPools)
	return found, a.failed("listing pools", err)
}

// candidates returns the load balancers of a Service, in the order in which they were made: one unless its creation was asked for twice. It is
// the one that the Service names by its ID, or else of those with its name the ones whose tags name the Service's UID; or else one whose tags
// name no Service of this name, which cloud-provider-openstack made: a Service that shares it may have its tags there already. One that names
// another UID belongs to a Service of the same name, of another cluster or of another time.
func (a api) candidates(ctx context.Context, r request) ([]loadbalancers.LoadBalancer, error) {
	if id := r.settings.LoadBalancerID; id != "" {
		found, err := loadbalancers.Get(ctx, a.client, id).Extract()
		if isNotFound(err) || err == nil && found.ProvisioningStatus == stateDeleted {
			return nil, nil
		}
		if err != nil {
			return nil, a.failed("getting load balancer "+id, err)
		}
		return []loadbalancers.LoadBalancer{*found}, nil
	}
	found, err := a.listBalancers(ctx, loadbalancers.ListOpts{Name: r.name()})
	if err != nil {
		return nil, err
	}
	var own, unowned []loadbalancers.LoadBalancer
	for i := range found {
		switch named, claimed := r.namedBy(found[i].Tags); {
		case named:
			own = append(own, found[i])
		case !claimed:
			unowned = append(unowned, found[i])
		}
	}
	slices.SortStableFunc(own, func(a, b loadbalancers.LoadBalancer) int { return a.CreatedAt.Compare(b.CreatedAt) })
	switch {
	case len(own) > 0:
		return own, nil
	case len(unowned) < 2:
		return unowned, nil
	default:
		return nil, fmt.Errorf("%d load balancers have the name %s and no tags that say whose they are (%s and %s among them): delete all but one",
			len(unowned), r.name(), unowned[0].ID, unowned[1].ID)
	}
}

// namedBy reports whether the tags of a load balancer name the Service, and whether they name it or another one of its name.
func (r request) namedBy(tags []string) (named, claimed bool) {
	for _, owner := range model.Owners(tags) {
		named = named || owner.UID == r.service.UID
		claimed = claimed || owner.UID == r.service.UID || owner.Service == r.key()
	}
	return named, claimed
}

// look observes what is below a load balancer: its listeners and pools by a call each; members by one call for all, or, with their monitor
// ports, by one for each pool; and monitors by one call, if there are any, and one for each that has no tag yet. Tag is that of the
// Service's monitors.
func (a api) look(ctx context.Context, lb *loadbalancers.LoadBalancer, tag string, monitorPorts bool) (observation, error) {
	have := header(lb)
	found, err := a.listListeners(ctx, listeners.ListOpts{LoadbalancerID: lb.ID})
	if err != nil || len(found) == 0 {
		return have, err
	}
	ofPool, err := a.listPools(ctx, pools.ListOpts{LoadbalancerID: lb.ID})
	if err != nil {
		return have, err
	}
	probes, err := a.monitorsOf(ctx, ofPool, tag)
	if err != nil {
		return have, err
	}
	for _, monitor := range probes {
		monitorPorts = monitorPorts || monitor.Type == "HTTP"
	}
	members, err := a.membersOf(ctx, lb.ID, ofPool, monitorPorts)
	if err != nil {
		return have, err
	}
	have.listeners = assemble(found, ofPool, members, probes)
	return have, nil
}

// header is a load balancer without what is below it.
func header(lb *loadbalancers.LoadBalancer) observation {
	vips, missing := vipsOf(lb)
	return observation{id: lb.ID, name: lb.Name, state: lb.ProvisioningStatus, driver: lb.Provider, tags: lb.Tags,
		vips: vips, vipMissing: missing, vipPortID: lb.VipPortID, vipSubnetID: lb.VipSubnetID}
}

// membersOf returns the members of pools by the pool's ID.
func (a api) membersOf(ctx context.Context, id string, of []pools.Pool, monitorPorts bool) (map[string][]pools.Member, error) {
	members := map[string][]pools.Member{}
	if monitorPorts {
		for _, pool := range of {
			if len(pool.Members) == 0 {
				continue
			}
			found, err := pagesOf(ctx, pools.ListMembers(a.client, pool.ID, nil), pools.ExtractMembers)
			if err != nil {
				return nil, a.failed("listing the members of pool "+pool.ID, err)
			}
			members[pool.ID] = found
		}
		return members, nil
	}
	if !slices.ContainsFunc(of, func(pool pools.Pool) bool { return len(pool.Members) > 0 }) {
		return members, nil
	}
	tree, err := loadbalancers.GetStatuses(ctx, a.client, id).Extract()
	if err != nil {
		return nil, a.failed("getting the status of load balancer "+id, err)
	}
	for _, listener := range tree.Loadbalancer.Listeners {
		for _, pool := range listener.Pools {
			members[pool.ID] = pool.Members
		}
	}
	return members, nil
}

func (a api) monitorsOf(ctx context.Context, of []pools.Pool, tag string) (map[string]monitors.Monitor, error) {
	probes := map[string]monitors.Monitor{}
	if !slices.ContainsFunc(of, func(pool pools.Pool) bool { return pool.MonitorID != "" }) {
		return probes, nil
	}
	tagged, err := pagesOf(ctx, monitors.List(a.client, monitors.ListOpts{Tags: []string{tag}}), monitors.ExtractMonitors)
	if err != nil {
		return nil, a.failed("listing monitors", err)
	}
	for _, monitor := range tagged {
		probes[monitor.ID] = monitor
	}
	for _, pool := range of {
		if _, known := probes[pool.MonitorID]; known || pool.MonitorID == "" {
			continue
		}
		monitor, err := monitors.Get(ctx, a.client, pool.MonitorID).Extract()
		if err != nil {
			return nil, a.failed("getting monitor "+pool.MonitorID, err)
		}
		probes[monitor.ID] = *monitor
	}
	return probes, nil
}

// assemble joins what the calls returned.
func assemble(found []listeners.Listener, ofPool []pools.Pool, members map[string][]pools.Member, probes map[string]monitors.Monitor) []observedListener {
	byID := map[string]pools.Pool{}
	for _, pool := range ofPool {
		byID[pool.ID] = pool
	}
	all := make([]observedListener, 0, len(found))
	for _, listener := range found {
		has := observedListener{Listener: listenerOf(listener), id: listener.ID, failed: listener.ProvisioningStatus == stateError}
		if pool, ok := byID[listener.DefaultPoolID]; ok {
			has.poolID, has.monitorID, has.poolFailed = pool.ID, pool.MonitorID, pool.ProvisioningStatus == stateError
			has.poolStuck = strings.HasPrefix(pool.ProvisioningStatus, "PENDING_")
			has.Pool = poolOf(pool)
			for _, member := range members[pool.ID] {
				has.membersFailed = has.membersFailed || member.ProvisioningStatus == stateError
				has.Pool.Members = append(has.Pool.Members, model.Member{Name: member.Name, Address: member.Address, Port: member.ProtocolPort,
					SubnetID: member.SubnetID, MonitorPort: member.MonitorPort})
			}
			model.SortMembers(has.Pool.Members)
			if monitor, ok := probes[pool.MonitorID]; ok {
				has.Pool.Monitor = monitorOf(monitor)
			}
		}
		all = append(all, has)
	}
	return all
}

func listenerOf(l listeners.Listener) model.Listener {
	return model.Listener{
		Name: l.Name, Protocol: l.Protocol, Port: l.ProtocolPort, Tags: l.Tags, ConnectionLimit: l.ConnLimit,
		Timeouts: &model.Timeouts{ClientData: l.TimeoutClientData, MemberConnect: l.TimeoutMemberConnect,
			MemberData: l.TimeoutMemberData, TCPInspect: l.TimeoutTCPInspect},
		XForwardedFor: l.InsertHeaders[xForwardedFor] == "true", TLSContainerRef: l.DefaultTlsContainerRef,
		AllowedCIDRs: normalCIDRs(l.AllowedCIDRs),
	}
}

func poolOf(p pools.Pool) model.Pool {
	return model.Pool{Name: p.Name, Protocol: p.Protocol, Algorithm: p.LBMethod, Persistence: p.Persistence.Type, Tags: p.Tags}
}

func monitorOf(m monitors.Monitor) *model.Monitor {
	monitor := &model.Monitor{Name: m.Name, Type: m.Type, Tags: m.Tags, Delay: m.Delay, Timeout: m.Timeout,
		MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown}
	if m.Type == "HTTP" {
		monitor.URLPath, monitor.HTTPMethod, monitor.ExpectedCodes = m.URLPath, m.HTTPMethod, m.ExpectedCodes
	}
	return monitor
}
