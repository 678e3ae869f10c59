package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// Batch is how many changes one call makes.
const Batch = 100

// Machines are the instances of nodes. They tell the addresses that no Node tells.
type Machines interface {
	// InstanceMetadata returns what is known of the instance of a node.
	InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error)
	// List hands all instances to yield.
	List(ctx context.Context, yield func([]provider.Instance) error) error
}

// Routes are the routes of one router. It is safe for concurrent use; changes at the same time may be refused as conflicts.
type Routes struct {
	session  *session.Session
	config   session.Configured
	machines Machines
	nodes    atomic.Pointer[corelisters.NodeLister]
	// whole says that Neutron has no calls that add or remove routes.
	whole atomic.Bool
}

var _ cloudprovider.Routes = &Routes{}

// New returns the routes of the router of a config. It makes no call.
func New(config session.Configured, s *session.Session, machines Machines) *Routes {
	return &Routes{session: s, config: config, machines: machines}
}

// UseNodes has addresses of nodes taken from the API server's objects, at no cost. Without them, the cloud is asked.
func (r *Routes) UseNodes(lister corelisters.NodeLister) { r.nodes.Store(&lister) }

// ListRoutes lists all routes of the router, also those of others in it: Neutron has no room for whose a route is. The controller
// touches none outside of the cluster's ranges.
func (r *Routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	there, err := r.router(ctx)
	if err != nil {
		return nil, err
	}
	nodes := map[netip.Addr]types.NodeName{}
	for _, node := range r.knownNodes() {
		addNodes(nodes, types.NodeName(node.Name), node.Status.Addresses)
	}
	if missing(*there.Routes, nodes) { // a server without a Node, or one that is gone
		err := r.machines.List(ctx, func(page []provider.Instance) error {
			for _, instance := range page {
				addNodes(nodes, instance.NodeName, instance.NodeAddresses)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return listed(*there.Routes, nodes), nil
}

// CreateRoute creates a route to a node. If it exists already, nothing happens.
func (r *Routes) CreateRoute(ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route) error {
	return r.one(ctx, clusterName, provider.RouteChange{New: route, NameHint: nameHint})
}

// DeleteRoute deletes a route that ListRoutes returned. If it is gone already, that is fine.
func (r *Routes) DeleteRoute(ctx context.Context, clusterName string, route *cloudprovider.Route) error {
	return r.one(ctx, clusterName, provider.RouteChange{Old: route})
}

// Replace is provider.Capabilities.ReplaceRoute.
func (r *Routes) Replace(ctx context.Context, clusterName string, old, replacement *cloudprovider.Route) error {
	return r.one(ctx, clusterName, provider.RouteChange{Old: old, New: replacement})
}

func (r *Routes) one(ctx context.Context, clusterName string, change provider.RouteChange) error {
	results, err := r.Change(ctx, clusterName, []provider.RouteChange{change})
	return errors.Join(append(results, err)...)
}

// Change is provider.ChangeRoutesFunc. Changes whose node has no address or no port are errors of their own; of all others Neutron
// takes all or none.
func (r *Routes) Change(ctx context.Context, _ string, changes []provider.RouteChange) ([]error, error) {
	results := make([]error, len(changes))
	var add, remove []route
	for i, change := range changes {
		added, removed, err := r.resolve(ctx, change)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if results[i] = err; err == nil {
			add, remove = append(add, added...), append(remove, removed...)
		}
	}
	wanted := planned(add, remove)
	ports, err := r.portsOf(ctx, wanted)
	if err != nil {
		return nil, err
	}
	for _, one := range wanted.add {
		err := r.allowed(ctx, ports, one)
		if err == nil {
			continue
		}
		for i, change := range changes {
			if results[i] == nil && change.New != nil && change.New.DestinationCIDR == one.Destination {
				results[i] = err
			}
		}
		wanted.add = slices.DeleteFunc(slices.Clone(wanted.add), func(other route) bool { return other == one })
		wanted.remove = slices.DeleteFunc(wanted.remove, func(other route) bool { return other.Destination == one.Destination })
	}
	if err := r.change(ctx, wanted); err != nil {
		return nil, err
	}
	for _, one := range wanted.remove {
		of, found := ports[canonical(one.NextHop)]
		if !found {
			continue // the port is gone, and its pairs with it
		}
		if err := r.allow(ctx, of, nil, []string{one.Destination}); err != nil && !session.IsMissing(err) {
			return nil, err
		}
	}
	return results, nil
}

// allowed lets the port of a route's next hop send from the route's destination.
func (r *Routes) allowed(ctx context.Context, ports map[string]*port, of route) error {
	hop, found := ports[canonical(of.NextHop)]
	if !found {
		return fmt.Errorf("route to %s: no port with the address %s in a network of router %s", of.Destination, of.NextHop, r.config.Current().Route.RouterID)
	}
	if err := r.allow(ctx, hop, []string{of.Destination}, nil); err != nil {
		return fmt.Errorf("route to %s: %w", of.Destination, err)
	}
	return nil
}

// portsOf returns the ports that a step is about, by their addresses.
func (r *Routes) portsOf(ctx context.Context, s step) (map[string]*port, error) {
	var addresses []string
	for _, one := range slices.Concat(s.add, s.remove) {
		if !slices.Contains(addresses, one.NextHop) {
			addresses = append(addresses, one.NextHop)
		}
	}
	if len(addresses) == 0 {
		return nil, nil
	}
	return r.ports(ctx, addresses)
}

// resolve returns what a change adds and removes.
func (r *Routes) resolve(ctx context.Context, change provider.RouteChange) (add, remove []route, err error) {
	if change.Old != nil {
		old, err := parseName(change.Old.Name)
		if err != nil {
			return nil, nil, err
		}
		remove = append(remove, old)
	}
	if change.New != nil {
		addresses, err := r.addresses(ctx, change.New.TargetNode)
		if err != nil {
			return nil, nil, fmt.Errorf("route to %s: node %s: %w", change.New.DestinationCIDR, change.New.TargetNode, err)
		}
		hop, err := nextHop(change.New.DestinationCIDR, addresses)
		if err != nil {
			return nil, nil, fmt.Errorf("route to %s: node %s: %w", change.New.DestinationCIDR, change.New.TargetNode, err)
		}
		add = append(add, route{Destination: change.New.DestinationCIDR, NextHop: hop})
	}
	return add, remove, nil
}

// addresses are those of a node: of its Node where there is one with addresses, else of the server with its name.
func (r *Routes) addresses(ctx context.Context, name types.NodeName) ([]v1.NodeAddress, error) {
	asked := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(name)}}
	if lister := r.nodes.Load(); lister != nil {
		if node, err := (*lister).Get(string(name)); err == nil {
			if len(node.Status.Addresses) > 0 {
				return node.Status.Addresses, nil
			}
			asked = node
		}
	}
	metadata, err := r.machines.InstanceMetadata(ctx, asked)
	if err != nil {
		return nil, err
	}
	return metadata.NodeAddresses, nil
}

func (r *Routes) knownNodes() []*v1.Node {
	lister := r.nodes.Load()
	if lister == nil {
		return nil
	}
	nodes, err := (*lister).List(labels.Everything())
	if err != nil {
		return nil // a cache does not fail; without it the cloud is asked
	}
	return nodes
}
