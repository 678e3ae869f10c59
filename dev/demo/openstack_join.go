package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// join has a node registered on every server.
func (p *privateCloud) join() section {
	return section{name: "join", title: "Servers become nodes", steps: []step{
		{
			name: "register", title: fmt.Sprintf("%d servers boot, and register as nodes with the taint, as kubelets do", serverCount),
			deadline: cloudDeadline, run: p.boot,
		},
		{
			name: "initialize", title: "every node has what nova and neutron say of its server, and no taint", deadline: cloudDeadline,
			run: p.awaitInitialized,
		},
		{name: "ready", title: "every node is ready and schedulable", deadline: cloudDeadline, run: awaitAllReady},
	}}
}

// boot makes the servers, and has each register as soon as it runs.
func (p *privateCloud) boot(ctx context.Context, s *environment) (string, error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(serversAtOnce)
	zones := p.cloud.Zones()
	for i := range serverCount {
		group.Go(func() error {
			made, err := p.environment.CreateServers(ctx, openstack.ServerOptions{
				Names: []string{fmt.Sprintf("server-%d", i+1)}, Zone: zones[i%len(zones)],
			})
			if err != nil {
				return err
			}
			ip, err := p.addressOf(made[0])
			if err != nil {
				return err
			}
			mu.Lock()
			p.servers[made[0].Name] = made[0]
			mu.Unlock()
			return s.registerNode(ctx, made[0].Name, ip)
		})
	}
	return fmt.Sprintf("%d in each of %s", serverCount/len(zones), words.Count(len(zones), "zone", "zones")), group.Wait()
}

// addressOf returns the address of a server in the network of the servers.
func (p *privateCloud) addressOf(server servers.Server) (netip.Addr, error) {
	entries, _ := server.Addresses[p.environment.NetworkName].([]any)
	if len(entries) == 0 {
		return netip.Addr{}, fmt.Errorf("the server %s has the addresses %v", server.Name, server.Addresses)
	}
	entry, _ := entries[0].(map[string]any)
	text, _ := entry["addr"].(string)
	return netip.ParseAddr(text)
}

func (p *privateCloud) awaitInitialized(ctx context.Context, s *environment) (string, error) {
	names := slices.Sorted(maps.Keys(p.servers))
	err := s.observed.await(ctx, func(v view) error {
		return eachOf(names, func(name string) error { return p.asNovaSays(v.nodes[name], p.servers[name]) })
	})
	if err != nil {
		return "", errors.Join(err, s.warning(names[0]))
	}
	return "for example " + providerIDOf(p.servers[names[0]]), nil
}

func providerIDOf(server servers.Server) string { return "openstack:///" + server.ID }

// asNovaSays returns in what a node differs from its server.
func (p *privateCloud) asNovaSays(node *corev1.Node, server servers.Server) error {
	if node == nil {
		return fmt.Errorf("%s, which is not registered", server.Name)
	}
	ip, err := p.addressOf(server)
	if err != nil {
		return err
	}
	state := stateOf(node)
	if state.Tainted || state.ProviderID != providerIDOf(server) || state.Zone != server.AvailabilityZone || state.Type != openstack.FlavorSmall ||
		state.Internal != ip.String() || node.Labels[corev1.LabelTopologyRegion] != p.cloud.Region() {
		return fmt.Errorf("%s, which is shown as %+v", node.Name, state)
	}
	return nil
}
