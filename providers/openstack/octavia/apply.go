package octavia

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// xForwardedFor is the header that octavia inserts.
const xForwardedFor = "X-Forwarded-For"

// create makes a load balancer with all that is below it, by one call.
func (a api) create(ctx context.Context, want model.LoadBalancer) (*loadbalancers.LoadBalancer, error) {
	options := loadbalancers.CreateOpts{
		Name: want.Name, Description: want.Description, Tags: want.Tags, Provider: want.Provider,
		FlavorID: want.FlavorID, AvailabilityZone: want.AvailabilityZone,
		VipPortID: want.VIPPortID, VipSubnetID: want.VIPSubnetID, VipNetworkID: want.VIPNetworkID, VipAddress: want.VIPAddress,
	}
	for _, subnet := range want.AdditionalVIPSubnetIDs {
		options.AdditionalVips = append(options.AdditionalVips, loadbalancers.AdditionalVip{SubnetID: subnet})
	}
	for _, listener := range want.Listeners {
		created := listenerOptions(listener)
		pool := poolOptions(listener.Pool)
		for _, member := range listener.Pool.Members {
			pool.Members = append(pool.Members, pools.CreateMemberOpts{Name: member.Name, Address: member.Address, ProtocolPort: member.Port,
				SubnetID: member.SubnetID, MonitorPort: unlessZero(member.MonitorPort)})
		}
		if listener.Pool.Monitor != nil {
			pool.Monitor = monitorOptions(*listener.Pool.Monitor)
		}
		created.DefaultPool = &pool
		options.Listeners = append(options.Listeners, created)
	}
	lb, err := loadbalancers.Create(ctx, a.client, options).Extract()
	return lb, a.failed("creating load balancer "+want.Name, err)
}

func listenerOptions(l model.Listener) listeners.CreateOpts {
	options := listeners.CreateOpts{Name: l.Name, Protocol: listeners.Protocol(l.Protocol), ProtocolPort: l.Port, Tags: l.Tags,
		ConnLimit: &l.ConnectionLimit, DefaultTlsContainerRef: l.TLSContainerRef, AllowedCIDRs: l.AllowedCIDRs}
	if t := l.Timeouts; t != nil {
		options.TimeoutClientData, options.TimeoutMemberConnect = &t.ClientData, &t.MemberConnect
		options.TimeoutMemberData, options.TimeoutTCPInspect = &t.MemberData, &t.TCPInspect
	}
	if l.XForwardedFor {
		options.InsertHeaders = map[string]string{xForwardedFor: "true"}
	}
	return options
}

func poolOptions(p model.Pool) pools.CreateOpts {
	options := pools.CreateOpts{Name: p.Name, Protocol: pools.Protocol(p.Protocol), LBMethod: pools.LBMethod(p.Algorithm), Tags: p.Tags}
	if p.Persistence != "" {
		options.Persistence = &pools.SessionPersistence{Type: p.Persistence}
	}
	return options
}

func monitorOptions(m model.Monitor) monitors.CreateOpts {
	return monitors.CreateOpts{Name: m.Name, Type: m.Type, Tags: m.Tags, Delay: m.Delay, Timeout: m.Timeout, MaxRetries: m.MaxRetries,
		MaxRetriesDown: m.MaxRetriesDown, URLPath: m.URLPath, HTTPMethod: m.HTTPMethod, ExpectedCodes: m.ExpectedCodes}
}

func unlessZero(port int) *int {
	if port == 0 {
		return nil
	}
	return &port
}

// made are the IDs of what a plan made, by listener.
type made struct{ listeners, pools map[model.Key]string }

// apply is api.apply, after which no list from before shows the load balancer.
func (s services) apply(ctx context.Context, have observation, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	defer s.lists.outdate(have.id)
	return s.api.apply(ctx, have, changes)
}

// apply carries out a plan in its order, and ends at the first error: what is left is planned again by the next look. Octavia refuses a
// change while another is in progress, which is "come again": no worker waits.
func (a api) apply(ctx context.Context, have observation, changes []change) error {
	ids := made{listeners: map[model.Key]string{}, pools: map[model.Key]string{}}
	for _, c := range changes {
		if err := a.change(ctx, have, c, ids); err != nil {
			return a.failed(fmt.Sprintf("load balancer %s, port %d: failed to %s", have.id, c.key.Port, c.verb), err)
		}
	}
	return nil
}

func (a api) change(ctx context.Context, have observation, c change, ids made) error {
	switch c.verb {
	case claim:
		return a.claim(ctx, have, c)
	case deleteMonitor:
		return unlessGone(monitors.Delete(ctx, a.client, c.id).ExtractErr())
	case deletePool:
		return unlessGone(pools.Delete(ctx, a.client, c.id).ExtractErr())
	case deleteListener:
		return unlessGone(listeners.Delete(ctx, a.client, c.id).ExtractErr())
	case createListener, createPool, createMonitor:
		return a.make(ctx, have, c, ids)
	case updateListener:
		_, err := listeners.Update(ctx, a.client, c.id, listenerUpdate(c.listener, c.had)).Extract()
		return err
	case updatePool:
		_, err := pools.Update(ctx, a.client, c.id, poolUpdate(c.listener.Pool, c.had.Pool)).Extract()
		return err
	case updateMonitor:
		_, err := monitors.Update(ctx, a.client, c.id, monitorUpdate(*c.listener.Pool.Monitor, *c.had.Pool.Monitor)).Extract()
		return err
	case setMembers:
		return a.setMembers(ctx, have, c, ids)
	default:
		return fmt.Errorf("there is no change %q", c.verb)
	}
}

// unlessGone returns the error of a deletion, nil if what was deleted is gone already.
func unlessGone(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}

func (a api) make(ctx context.Context, have observation, c change, ids made) error {
	switch c.verb {
	case createListener:
		options := listenerOptions(c.listener)
		options.LoadbalancerID = have.id
		listener, err := listeners.Create(ctx, a.client, options).Extract()
		if err != nil {
			return err
		}
		ids.listeners[c.key] = listener.ID
	case createPool:
		options := poolOptions(c.listener.Pool)
		options.ListenerID = or(c.id, ids.listeners[c.key])
		pool, err := pools.Create(ctx, a.client, options).Extract()
		if err != nil {
			return err
		}
		ids.pools[c.key] = pool.ID
	default:
		options := monitorOptions(*c.listener.Pool.Monitor)
		options.PoolID = or(c.id, ids.pools[c.key])
		_, err := monitors.Create(ctx, a.client, options).Extract()
		return err
	}
	return nil
}

func or(id, fallback string) string {
	if id == "" {
		return fallback
	}
	return id
}

// setMembers replaces the members of a pool by one call: octavia adds, changes and deletes.
func (a api) setMembers(ctx context.Context, have observation, c change, ids made) error {
	members := make([]memberOptions, 0, len(c.listener.Pool.Members))
	for _, member := range c.listener.Pool.Members {
		options := memberOptions{BatchUpdateMemberOpts: pools.BatchUpdateMemberOpts{Name: &member.Name, Address: member.Address,
			ProtocolPort: member.Port, MonitorPort: unlessZero(member.MonitorPort)}}
		options.resetsMonitorPort = slices.ContainsFunc(c.had.Pool.Members, func(m model.Member) bool { return m.MonitorPort != 0 })
		if subnet := or(member.SubnetID, have.vipSubnetID); subnet != "" {
			options.SubnetID = &subnet
		}
		members = append(members, options)
	}
	return pools.BatchUpdateMembers(ctx, a.client, or(c.id, ids.pools[c.key]), members).ExtractErr()
}

// memberOptions are the options of gophercloud, which cannot remove a monitor port.
type memberOptions struct {
	pools.BatchUpdateMemberOpts
	resetsMonitorPort bool
}

// ToBatchMemberUpdateMap is called by gophercloud.
func (o memberOptions) ToBatchMemberUpdateMap() (map[string]any, error) {
	body, err := o.BatchUpdateMemberOpts.ToBatchMemberUpdateMap()
	if err == nil && o.resetsMonitorPort && o.MonitorPort == nil {
		body["monitor_port"] = nil
	}
	return body, err
}

// listenerUpdate holds what differs: a driver refuses a field that it does not know, whatever its value.
func listenerUpdate(want, has model.Listener) listeners.UpdateOpts {
	options := listeners.UpdateOpts{Name: &want.Name}
	if want.ConnectionLimit != has.ConnectionLimit {
		options.ConnLimit = &want.ConnectionLimit
	}
	if t := want.Timeouts; t != nil && (has.Timeouts == nil || *t != *has.Timeouts) {
		options.TimeoutClientData, options.TimeoutMemberConnect = &t.ClientData, &t.MemberConnect
		options.TimeoutMemberData, options.TimeoutTCPInspect = &t.MemberData, &t.TCPInspect
	}
	if want.XForwardedFor != has.XForwardedFor {
		headers := map[string]string{xForwardedFor: fmt.Sprint(want.XForwardedFor)}
		options.InsertHeaders = &headers
	}
	if want.TLSContainerRef != has.TLSContainerRef {
		options.DefaultTlsContainerRef = &want.TLSContainerRef
	}
	if fmt.Sprint(want.AllowedCIDRs) != fmt.Sprint(has.AllowedCIDRs) {
		cidrs := append([]string{}, want.AllowedCIDRs...)
		options.AllowedCIDRs = &cidrs
	}
	if tags := union(has.Tags, want.Tags); !sameSet(tags, has.Tags) {
		options.Tags = &tags
	}
	return options
}

func poolUpdate(want, has model.Pool) pools.UpdateOpts {
	options := pools.UpdateOpts{Name: &want.Name}
	if want.Algorithm != has.Algorithm {
		options.LBMethod = pools.LBMethod(want.Algorithm)
	}
	if want.Persistence != has.Persistence {
		options.Persistence = &pools.SessionPersistence{Type: want.Persistence} // an empty one takes it away
	}
	if tags := union(has.Tags, want.Tags); !sameSet(tags, has.Tags) {
		options.Tags = &tags
	}
	return options
}

func monitorUpdate(want, has model.Monitor) monitors.UpdateOpts {
	return monitors.UpdateOpts{Name: &want.Name, Delay: want.Delay, Timeout: want.Timeout, MaxRetries: want.MaxRetries,
		MaxRetriesDown: want.MaxRetriesDown, URLPath: want.URLPath, HTTPMethod: want.HTTPMethod, ExpectedCodes: want.ExpectedCodes,
		Tags: union(has.Tags, want.Tags)}
}

func union(tags, wanted []string) []string {
	all := append([]string{}, tags...)
	for _, tag := range wanted {
		if !containsAll(all, []string{tag}) {
			all = append(all, tag)
		}
	}
	return all
}
