package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
)

// What becomes of two servers.
var (
	goneServer = fmt.Sprintf("server-%d", serverCount-1)
	offServer  = fmt.Sprintf("server-%d", serverCount)
)

// second is the name of the Service that is made while keystone is away.
const second = "cellar"

// changes has two kubelets fall silent. It stops and starts the server of one, and deletes the server of the other.
func (p *privateCloud) changes() section {
	return section{name: "changes", title: "Servers go", steps: []step{
		{
			name: "off", title: fmt.Sprintf("two kubelets fall silent, and %s is stopped: its node is tainted, and stays", offServer),
			deadline: cloudDeadline, run: p.stop,
		},
		{name: "on", title: "it is started again: the taint goes, and the node is ready", deadline: cloudDeadline, run: p.restart},
		{
			name: "gone", title: fmt.Sprintf("%s is deleted: so is its node, and with it the route and the member of the load balancer", goneServer),
			deadline: cloudDeadline, run: p.remove,
		},
	}}
}

// silence has two kubelets fall silent, and waits until the control plane notices.
func (p *privateCloud) silence(ctx context.Context, s *environment) error {
	for _, name := range []string{offServer, goneServer} {
		agent, err := s.agent(name)
		if err != nil {
			return err
		}
		agent.Silence()
	}
	return errors.Join(s.awaitNode(ctx, offServer, wantsSilent), s.awaitNode(ctx, goneServer, wantsSilent))
}

func (p *privateCloud) stop(ctx context.Context, s *environment) (string, error) {
	compute, id := p.environment.Clients().Compute, p.servers[offServer].ID
	if err := servers.Stop(ctx, compute, id).ExtractErr(); err != nil {
		return "", err
	}
	if _, err := p.environment.AwaitServer(ctx, id, "SHUTOFF"); err != nil {
		return "", err
	}
	began := time.Now()
	if err := p.silence(ctx, s); err != nil {
		return "", err
	}
	if err := s.awaitNode(ctx, offServer, func(node *corev1.Node) error { return wantsShutDown(node, true) }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after it is SHUTOFF; a kubelet has to be silent for %s, 40 s by default", seconds(time.Since(began)), silence), nil
}

func (p *privateCloud) restart(ctx context.Context, s *environment) (string, error) {
	compute, id := p.environment.Clients().Compute, p.servers[offServer].ID
	if err := servers.Start(ctx, compute, id).ExtractErr(); err != nil {
		return "", err
	}
	if _, err := p.environment.AwaitServer(ctx, id, "ACTIVE"); err != nil {
		return "", err
	}
	began := time.Now()
	agent, err := s.agent(offServer)
	if err != nil {
		return "", err
	}
	agent.Resume()
	err = s.awaitNode(ctx, offServer, func(node *corev1.Node) error { return errors.Join(wantsShutDown(node, false), wantsReady(node)) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s after it is ACTIVE", seconds(time.Since(began))), nil
}

func (p *privateCloud) remove(ctx context.Context, s *environment) (string, error) {
	server := p.servers[goneServer]
	if err := p.environment.DeleteServers(ctx, server.ID); err != nil {
		return "", err
	}
	began := time.Now()
	err := s.observed.await(ctx, func(v view) error {
		if v.nodes[goneServer] != nil {
			return fmt.Errorf("%s is there", goneServer)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	deleted := time.Since(began)
	ip, err := p.addressOf(server)
	if err != nil {
		return "", err
	}
	_, err = p.awaitRouter(ctx, func(found []routers.Route) error {
		for _, route := range found {
			if route.NextHop == ip.String() {
				return fmt.Errorf("there is a route to %s by way of %s", route.DestinationCIDR, route.NextHop)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	err = awaitCloud(ctx, func() error {
		_, err := p.behind(ctx, s, shop)
		return err
	})
	return fmt.Sprintf("the node after %s, route and member after %s", seconds(deleted), seconds(time.Since(began))), err
}

// outage makes logins fail for a while.
func (p *privateCloud) outage() section {
	return section{name: "outage", title: "Keystone is away", steps: []step{
		{
			name: "goes-on", title: "keystone cannot be reached: another Service gets its load balancer all the same", deadline: cloudDeadline,
			run: p.exposeWithoutKeystone,
		},
		{
			name: "deleted", title: "keystone is back; both Services are deleted, and their load balancers with them", deadline: cloudDeadline,
			run: p.end,
		},
	}}
}

func (p *privateCloud) exposeWithoutKeystone(ctx context.Context, s *environment) (string, error) {
	restore := p.cloud.Faults().Inject(faultproxy.Fault{Match: faultproxy.Match{Service: string(openstack.Identity)}, Effect: httpfault.Cut})
	defer restore()
	if _, err := p.cloud.Clients(ctx, p.cloud.Tenant()); err == nil {
		return "", errors.New("a login succeeded without keystone")
	}
	began := time.Now()
	address, _, err := p.serve(ctx, s, second)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is there after %s, while every login fails", address, seconds(time.Since(began))), nil
}

func (p *privateCloud) end(ctx context.Context, s *environment) (string, error) {
	began := time.Now()
	for _, name := range []string{shop, second} {
		if err := p.unexpose(ctx, s, name); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("all are gone after %s", seconds(time.Since(began))), nil
}
