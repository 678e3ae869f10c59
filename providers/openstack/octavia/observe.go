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
	client  *gophercloud.ServiceClient
	driver  string
	tagging *tagging
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

// listBalancers lists load balancers, each once and no deleted ones: octavia repeats a load balancer that matches by two tags.
func (a api) listBalancers(ctx context.Context, options loadbalancers.ListOpts) ([]loadbalancers.LoadBalancer, error) {
	found, err := pagesOf(ctx, loadbalancers.List(a.client, options), loadbalancers.ExtractLoadBalancers)
	return existing(found), a.failed("listing load balancers", err)
}

// existing returns each load balancer of a list once, without deleted ones.
func existing(found []loadbalancers.LoadBalancer) []loadbalancers.LoadBalancer {
	seen := map[string]bool{}
	return slices.DeleteFunc(found, func(lb loadbalancers.LoadBalancer) bool {
		repeated := seen[lb.ID]
		seen[lb.ID] = true
		return repeated || lb.ProvisioningStatus == stateDeleted
	})
}

func (a api) listListeners(ctx context.Context, options listeners.ListOpts) ([]listeners.Listener, error) {
	found, err := pagesOf(ctx, listeners.List(a.client, options), listeners.ExtractListeners)
	return found, a.failed("listing listeners", err)
}

func (a api) listPools(ctx context.Context, options pools.ListOpts) ([]pools.Pool, error) {
	found, err := pagesOf(ctx, pools.List(a.client, options), pools.ExtractPools)
	return found, a.failed("listing pools", err)
}

// look observes what is below a load balancer. Listeners and pools take a call each. Members take one call for all, or, with their monitor
// ports, one for each pool. Monitors take one call, if there are any, and one for each that has no tag yet. Tag is the tag of the Service's
// monitors.
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

// answered returns what octavia's answer to a creation says is below the load balancer. It is whole if it is what was asked for: octavia answers
// with all that it made, listeners, pools and members, but not every release of it may.
func answered(lb *loadbalancers.LoadBalancer, asked model.LoadBalancer, tag string) (below []observedListener, whole bool) {
	members, probes := map[string][]pools.Member{}, map[string]monitors.Monitor{}
	behind := slices.Clone(lb.Pools)
	for i := range behind {
		members[behind[i].ID] = behind[i].Members
		if monitor := behind[i].Monitor; monitor.ID != "" {
			behind[i].MonitorID, probes[monitor.ID] = monitor.ID, monitor
		}
	}
	have := header(lb)
	have.listeners = assemble(lb.Listeners, behind, members, probes)
	for i := range have.listeners { // all is pending, as the load balancer is
		have.listeners[i].poolStuck = false
	}
	changes, err := plan(asked, have, claimant{tag: tag, owns: true})
	return have.listeners, err == nil && len(changes) == 0 && len(have.listeners) > 0
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
