package octavia

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// network makes the calls of neutron. Its errors are classified.
type network struct {
	client *gophercloud.ServiceClient
	lists  *lists
}

func (n network) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, classify("neutron", err))
}

func (n network) floatingIPs(ctx context.Context, options floatingips.ListOpts) ([]floatingips.FloatingIP, error) {
	found, err := pagesOf(ctx, floatingips.List(n.client, options), floatingips.ExtractFloatingIPs)
	return found, n.failed("listing floating IPs", err)
}

// ofPort returns the floating IP of a port, or nil if the port has no floating IP, from a list that may be so old and that began after all that was written to the
// port's floating IP from here.
func (n network) ofPort(ctx context.Context, port string, age time.Duration) (*floatingips.FloatingIP, error) {
	if port == "" {
		return nil, nil
	}
	if all, _, ok := n.lists.floating.get(ctx, n.lists.since(age, port)); ok {
		return attachedTo(all, port), nil
	}
	found, err := n.floatingIPs(ctx, floatingips.ListOpts{PortID: port})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// attachedTo returns a copy of the floating IP of a port, or nil if the port has no floating IP.
func attachedTo(all []floatingips.FloatingIP, port string) *floatingips.FloatingIP {
	for _, one := range all {
		if one.PortID == port {
			return &one
		}
	}
	return nil
}

// ensureAddresses returns the addresses that the Service shows: those of its VIPs, and of the floating IP in place of the IPv4 one unless the
// load balancer is internal or there is no external network.
func (n network) ensureAddresses(ctx context.Context, r request, have observation, owns bool) ([]string, error) {
	if floats(have.vips) < 0 {
		return have.vips, nil
	}
	floating, err := n.ensureFloatingIP(ctx, r, have, owns)
	return shownAddresses(have.vips, floating), err
}

// ensureFloatingIP returns the address of the floating IP, empty if there is to be none.
func (n network) ensureFloatingIP(ctx context.Context, r request, have observation, owns bool) (string, error) {
	age := n.lists.ages.toAdd
	if r.settings.Internal {
		age = n.lists.ages.toChange // what is found is taken away
	}
	attached, err := n.ofPort(ctx, have.vipPortID, age)
	switch {
	case err != nil:
		return "", err
	case r.settings.Internal && owns:
		return "", n.dropFloatingIP(ctx, attached, r.settings.KeepFloatingIP)
	case attached != nil:
		return attached.FloatingIP, nil
	case !owns:
		return "", provider.Terminal(fmt.Errorf("load balancer %s has no floating IP, and only the Service that it was made for may attach one: "+
			"else an internal Service would be exposed", have.id))
	}
	found, err := n.availableFloatingIP(ctx, r)
	if err != nil {
		return "", err
	}
	if found != nil {
		updated, err := floatingips.Update(ctx, n.client, found.ID, floatingips.UpdateOpts{PortID: &have.vipPortID}).Extract()
		n.lists.outdate(have.vipPortID, found.Description)
		if err != nil {
			return "", n.failed("attaching floating IP "+found.FloatingIP, err)
		}
		return updated.FloatingIP, nil
	}
	return n.createFloatingIP(ctx, r, have)
}

// dropFloatingIP deletes a floating IP that was made for a Service, and only detaches any other, and one that is to be kept.
func (n network) dropFloatingIP(ctx context.Context, attached *floatingips.FloatingIP, keep bool) error {
	if attached == nil {
		return nil
	}
	defer n.lists.outdate(attached.PortID, attached.Description)
	switch {
	case keep || !strings.HasPrefix(attached.Description, model.FloatingIPPrefix):
		nowhere := ""
		_, err := floatingips.Update(ctx, n.client, attached.ID, floatingips.UpdateOpts{PortID: &nowhere}).Extract()
		return n.failed("detaching floating IP "+attached.FloatingIP, unlessGone(err))
	default:
		return n.failed("deleting floating IP "+attached.FloatingIP, unlessGone(floatingips.Delete(ctx, n.client, attached.ID).ExtractErr()))
	}
}

// availableFloatingIP returns the floating IP that the Service names by loadBalancerIP, or else one that was made for it and is attached to
// nothing: it was kept, or the answer to its creation was lost. Nil: there is no such floating IP.
func (n network) availableFloatingIP(ctx context.Context, r request) (*floatingips.FloatingIP, error) {
	asked := r.service.Spec.LoadBalancerIP
	options := floatingips.ListOpts{Description: model.FloatingIPDescription(r.cluster, r.key()), FloatingNetworkID: r.settings.FloatingNetworkID}
	all, _, ok := n.lists.floating.get(ctx, n.lists.since(n.lists.ages.toAdd, options.Description))
	described := func(ip floatingips.FloatingIP) bool { return ip.Description == options.Description }
	if asked == "" && ok && !slices.ContainsFunc(all, described) {
		return nil, nil
	}
	if asked != "" {
		options = floatingips.ListOpts{FloatingIP: asked}
	}
	found, err := n.floatingIPs(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].PortID == "" {
			return &found[i], nil
		}
	}
	if asked != "" && len(found) > 0 {
		return nil, fmt.Errorf("floating IP %s, which spec.loadBalancerIP names, is attached to port %s: detach it, or name another",
			asked, found[0].PortID)
	}
	return nil, nil
}

func (n network) createFloatingIP(ctx context.Context, r request, have observation) (string, error) {
	networkID := r.settings.FloatingNetworkID
	if networkID == "" {
		var err error
		if networkID, err = n.externalNetwork(ctx); err != nil {
			return "", err
		}
		if networkID == "" { // as with cloud-provider-openstack: the load balancer is internal
			return "", nil
		}
	}
	options := floatingips.CreateOpts{FloatingNetworkID: networkID, PortID: have.vipPortID,
		Description: model.FloatingIPDescription(r.cluster, r.key()), FloatingIP: r.service.Spec.LoadBalancerIP,
		SubnetID: r.settings.Floating.ID}
	candidates := []string{options.SubnetID}
	if floating := r.settings.Floating; options.FloatingIP == "" && (floating.Name != "" || floating.Tags != "") {
		var err error
		if candidates, err = n.floatingSubnets(ctx, r, networkID); err != nil {
			return "", err
		}
	}
	var problems []error
	for _, subnet := range candidates {
		options.SubnetID = subnet
		created, err := floatingips.Create(ctx, n.client, options).Extract()
		n.lists.outdate(options.PortID, options.Description)
		if err == nil {
			return created.FloatingIP, nil
		}
		problems = append(problems, n.failed("creating a floating IP in subnet "+or(subnet, "any")+" of network "+networkID, err))
	}
	return "", errors.Join(problems...)
}

func (n network) externalNetworks(ctx context.Context) ([]networks.Network, error) {
	isExternal := true
	options := external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: &isExternal}
	return pagesOf(ctx, networks.List(n.client, options), networks.ExtractNetworks)
}

// externalNetwork returns the only external network, or empty if there is no external network.
func (n network) externalNetwork(ctx context.Context) (string, error) {
	if all, _, ok := n.lists.external.get(ctx, n.lists.since(n.lists.ages.toAdd)); ok && len(all) == 1 {
		return all[0].ID, nil
	}
	found, err := n.externalNetworks(ctx)
	switch {
	case err != nil:
		return "", n.failed("listing external networks", err)
	case len(found) == 0:
		return "", nil
	case len(found) > 1:
		return "", provider.Terminal(fmt.Errorf("there are %d external networks, %s and %s among them: name the one for floating IPs by "+
			"floating-network-id in the cloud config or by its annotation", len(found), found[0].Name, found[1].Name))
	default:
		return found[0].ID, nil
	}
}

// floatingSubnets returns the subnets of the floating network that the settings match.
func (n network) floatingSubnets(ctx context.Context, r request, networkID string) ([]string, error) {
	found, err := pagesOf(ctx, subnets.List(n.client, subnets.ListOpts{NetworkID: networkID}), subnets.ExtractSubnets)
	if err != nil {
		return nil, n.failed("listing the subnets of network "+networkID, err)
	}
	var ids []string
	for _, subnet := range found {
		matches, err := r.settings.Floating.Matches(subnet.Name, subnet.Tags)
		if err != nil {
			return nil, provider.Terminal(fmt.Errorf("floating subnets: %w", err))
		}
		if matches {
			ids = append(ids, subnet.ID)
		}
	}
	if len(ids) == 0 {
		return nil, provider.Terminal(fmt.Errorf("network %s has no subnet whose name matches %q and whose tags match %q",
			networkID, r.settings.Floating.Name, r.settings.Floating.Tags))
	}
	return ids, nil
}

var errNoSubnet = errors.New("no subnet for the VIP: the cloud config and the Service name neither subnet-id nor network-id, " +
	"and no node has an address of a port of its server")

// subnetOf returns the subnet of the address by which a node is a member, for a load balancer without a configured place.
func (n network) subnetOf(ctx context.Context, nodes []*v1.Node, family v1.IPFamily) (string, error) {
	for _, node := range nodes {
		address := nodeAddress(node, family)
		if address == "" {
			continue
		}
		found, err := pagesOf(ctx, ports.List(n.client, ports.ListOpts{FixedIPs: []ports.FixedIPOpts{{IPAddress: address}}}), ports.ExtractPorts)
		if err != nil {
			return "", n.failed("finding the port of node "+node.Name, err)
		}
		server := serverOf(node)
		for _, port := range found {
			for _, fixed := range port.FixedIPs {
				if port.DeviceID == server && fixed.IPAddress == address {
					return fixed.SubnetID, nil
				}
			}
		}
	}
	return "", errNoSubnet
}
