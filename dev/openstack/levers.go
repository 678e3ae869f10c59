package openstack

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	lbquotas "github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/quotas"
	netquotas "github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"

	"github.com/mooring-ccm/mooring/dev/program"
)

// answers maps a process to its API. Processes without an API are missing.
var answers = map[Process]Service{
	Keystone: Identity, PlacementAPI: Placement, Glance: Image, NovaAPI: Compute, Neutron: Network, OctaviaAPI: LoadBalancer,
}

// Stop ends a service: calls for it are cut off until Restart.
func (c *Cloud) Stop(ctx context.Context, name Process) error {
	running, err := c.end(name)
	if err != nil {
		return err
	}
	if err := c.room.SignalGroup(running, stopSignal); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-running.Done():
	case <-ctx.Done():
	}
	return c.Kill(name)
}

// Kill ends a service and the processes that it started without giving them time for anything: what it was doing stays half done.
func (c *Cloud) Kill(name Process) error {
	running, err := c.end(name)
	if err != nil {
		return err
	}
	if err := c.room.SignalGroup(running, syscall.SIGKILL); err != nil {
		return err
	}
	return running.Kill()
}

// end returns a program that the caller is about to end. From then on, a wait for another program does not treat its end as a failure.
func (c *Cloud) end(name Process) (*program.Program, error) {
	running, err := c.process(name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[name] = true
	return running, nil
}

// Restart starts a service again after Stop or Kill, and returns when it answers, if it is one that does.
func (c *Cloud) Restart(ctx context.Context, name Process) error {
	running, err := c.process(name)
	if err != nil {
		return err
	}
	if running.Exited() == nil {
		return fmt.Errorf("start %s again: it runs", name)
	}
	command, known := commands[name]
	if !known {
		return fmt.Errorf("start %s again: only services are", name)
	}
	if err := c.launch(command); err != nil {
		return err
	}
	service, known := answers[name]
	if !known {
		return nil
	}
	return c.awaitAPI(ctx, service)
}

// Pause stops a service where it is until Resume: calls for it hang, and what the worker of octavia was asked to do stays pending.
func (c *Cloud) Pause(name Process) error { return c.signal(name, syscall.SIGSTOP) }

// Resume has a service go on after Pause.
func (c *Cloud) Resume(name Process) error { return c.signal(name, syscall.SIGCONT) }

func (c *Cloud) signal(name Process, signal syscall.Signal) error {
	running, err := c.process(name)
	if err != nil {
		return err
	}
	return c.room.SignalGroup(running, signal)
}

// Quotas are limits of a tenant's project; nil leaves one as it is, and -1 is none.
type Quotas struct {
	Servers, Cores                        *int // nova's
	Ports, FloatingIPs, Routers           *int // neutron's
	LoadBalancers, Listeners, PoolMembers *int // octavia's
}

// SetQuotas limits what a tenant may have.
func (c *Cloud) SetQuotas(ctx context.Context, who Credentials, quotas Quotas) error {
	tenant, err := c.direct(ctx, who)
	if err != nil {
		return err
	}
	admin, err := c.direct(ctx, c.Admin())
	if err != nil {
		return err
	}
	project := tenant.ProjectID
	if quotas.Servers != nil || quotas.Cores != nil {
		err := quotasets.Update(ctx, admin.Compute, project, quotasets.UpdateOpts{Instances: quotas.Servers, Cores: quotas.Cores}).Err
		if err != nil {
			return fmt.Errorf("set quotas of nova: %w", err)
		}
	}
	if quotas.Ports != nil || quotas.FloatingIPs != nil || quotas.Routers != nil {
		err := netquotas.Update(ctx, admin.Network, project, netquotas.UpdateOpts{
			Port: quotas.Ports, FloatingIP: quotas.FloatingIPs, Router: quotas.Routers,
		}).Err
		if err != nil {
			return fmt.Errorf("set quotas of neutron: %w", err)
		}
	}
	if quotas.LoadBalancers != nil || quotas.Listeners != nil || quotas.PoolMembers != nil {
		err := lbquotas.Update(ctx, admin.LoadBalancer, project, lbquotas.UpdateOpts{
			Loadbalancer: quotas.LoadBalancers, Listener: quotas.Listeners, Member: quotas.PoolMembers,
		}).Err
		if err != nil {
			return fmt.Errorf("set quotas of octavia: %w", err)
		}
	}
	return nil
}

// SetServerError puts a server into the state ERROR, as a compute host that fails does.
func (c *Cloud) SetServerError(ctx context.Context, server string) error {
	admin, err := c.direct(ctx, c.Admin())
	if err != nil {
		return err
	}
	if err := servers.ResetState(ctx, admin.Compute, server, servers.StateError).ExtractErr(); err != nil {
		return fmt.Errorf("put the server %s into the state ERROR: %w", server, err)
	}
	return nil
}

// SetLoadBalancerError puts a load balancer into the state ERROR in octavia's database: what an administrator does with one that stays pending
// because the worker that was busy with it has died. No API does that.
func (c *Cloud) SetLoadBalancerError(ctx context.Context, id string) error {
	if _, err := uuid.Parse(id); err != nil {
		return fmt.Errorf("put a load balancer into the state ERROR: %w", err)
	}
	_, err := c.sql(ctx, "update octavia.load_balancer set provisioning_status = 'ERROR' where id = '"+id+"'")
	return err
}

// SetPortActive has a port of a server become ACTIVE, as the compute host of a zone does that has connected it. Else ports stay DOWN.
func (c *Cloud) SetPortActive(ctx context.Context, port, zone string) error {
	if _, err := c.OVN(ctx, Southbound, "--may-exist", "lsp-bind", port, zone); err != nil {
		return err
	}
	_, err := c.OVN(ctx, Southbound, "set", "Port_Binding", port, "up=true")
	return err
}

// SetMembersDown has OVN's health monitors find that members with an address do not answer: the provider ovn puts them into ERROR. That it
// takes them up again afterwards is not reliable in this release. It returns an error if no monitor looks at the address.
func (c *Cloud) SetMembersDown(ctx context.Context, address string) error {
	found, err := c.OVN(ctx, Southbound, "--bare", "--columns=_uuid", "find", "Service_Monitor", "ip="+address)
	if err != nil {
		return err
	}
	monitors := strings.Fields(found)
	if len(monitors) == 0 {
		return fmt.Errorf("put the members with the address %s down: no health monitor looks at it", address)
	}
	for _, monitor := range monitors {
		if _, err := c.OVN(ctx, Southbound, "set", "Service_Monitor", monitor, "status=offline"); err != nil {
			return err
		}
	}
	return nil
}
