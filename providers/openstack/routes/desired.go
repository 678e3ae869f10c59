package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/message"
	"github.com/mooring-ccm/mooring/provider"
)

// route is a route as Neutron has it.
type route struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

// between separates the destination from the next hop in the name of a route.
const between = " via "

// name is the name of a route for its controller: a router may have several routes to one destination.
func (r route) name() string { return r.Destination + between + r.NextHop }

// parseName returns the route that a name stands for.
func parseName(name string) (route, error) {
	destination, nextHop, ok := strings.Cut(name, between)
	if !ok {
		return route{}, provider.Terminal(fmt.Errorf("the route %q was not listed: its name must be DESTINATION%sNEXTHOP", message.Line(name, 100), between))
	}
	return route{Destination: destination, NextHop: nextHop}, nil
}

// listed returns the routes of a router for their controller. A next hop that no node has makes a black hole, and is named in the place
// of the node.
func listed(of []route, nodes map[netip.Addr]types.NodeName) []*cloudprovider.Route {
	all := make([]*cloudprovider.Route, 0, len(of))
	for _, one := range of {
		target, found := types.NodeName(one.NextHop), false
		if hop, err := netip.ParseAddr(one.NextHop); err == nil {
			if name, known := nodes[hop.Unmap()]; known {
				target, found = name, true
			}
		}
		all = append(all, &cloudprovider.Route{
			Name: one.name(), TargetNode: target, DestinationCIDR: one.Destination, Blackhole: !found,
		})
	}
	return all
}

// missing reports whether there is a next hop that no node is known for.
func missing(of []route, nodes map[netip.Addr]types.NodeName) bool {
	return slices.ContainsFunc(listed(of, nodes), func(r *cloudprovider.Route) bool { return r.Blackhole })
}

// addNodes adds the nodes by their addresses.
func addNodes(to map[netip.Addr]types.NodeName, name types.NodeName, addresses []v1.NodeAddress) {
	for _, address := range addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if _, there := to[parsed.Unmap()]; err == nil && !there {
			to[parsed.Unmap()] = name
		}
	}
}

// nextHop returns the first internal address of a destination's IP family, as upstream chooses it.
func nextHop(destination string, addresses []v1.NodeAddress) (string, error) {
	prefix, err := netip.ParsePrefix(destination)
	if err != nil {
		return "", provider.Terminal(fmt.Errorf("the destination %q is no range of addresses", message.Line(destination, 100)))
	}
	for _, address := range addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err == nil && address.Type == v1.NodeInternalIP && parsed.Unmap().Is4() == prefix.Addr().Is4() {
			return address.Address, nil
		}
	}
	return "", fmt.Errorf("no internal address of the family of %s", destination)
}
