package octavia

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/providers/openstack/octavia/annotations"
	"github.com/mooring-ccm/mooring/providers/openstack/octavia/model"
)

// portsAtOnce is how many servers one query for their ports names: the query is part of the URL.
const portsAtOnce = 50

// rule opens a port of nodes to a range.
type rule struct {
	protocol, cidr string
	port           int
}

// wantedRules are the rules of a Service's group: its node ports and its health check node port. Amphorae speak to nodes from the members'
// subnet; with the driver ovn clients do, so the allowed ranges are in the rules.
func wantedRules(r request, subnetCIDR string, ranges []string) []rule {
	var wanted []rule
	sources := []string{subnetCIDR}
	if r.options.Driver() == annotations.DriverOVN {
		if sources = ranges; len(sources) == 0 {
			sources = []string{"0.0.0.0/0"}
			if prefix, err := netip.ParsePrefix(subnetCIDR); err == nil && prefix.Addr().Is6() {
				sources = []string{"::/0"}
			}
		}
	}
	if port := int(r.service.Spec.HealthCheckNodePort); port != 0 {
		wanted = append(wanted, rule{protocol: "tcp", cidr: subnetCIDR, port: port})
	}
	for _, port := range r.service.Spec.Ports {
		for _, cidr := range sources {
			wanted = append(wanted, rule{protocol: strings.ToLower(model.Transport(string(port.Protocol))), cidr: cidr, port: int(port.NodePort)})
		}
	}
	return wanted
}

// securityGroup returns the Service's group with its rules, or nil if it has no group.
func (n network) securityGroup(ctx context.Context, r request) (*groups.SecGroup, error) {
	name := model.SecurityGroupName(r.key(), r.service.UID)
	found, err := pagesOf(ctx, groups.List(n.client, groups.ListOpts{Name: name}), groups.ExtractGroups)
	switch {
	case err != nil:
		return nil, n.failed("finding security group "+name, err)
	case len(found) == 0:
		return nil, nil
	default:
		return &found[0], nil
	}
}

// ensureSecurityGroup makes the group of a Service, its rules, and has the ports of its members in it and no others.
func (n network) ensureSecurityGroup(ctx context.Context, r request, have observation) error {
	group, err := n.securityGroup(ctx, r)
	if err != nil {
		return err
	}
	if group == nil {
		name := model.SecurityGroupName(r.key(), r.service.UID)
		description := fmt.Sprintf("Security Group for %s Service LoadBalancer in cluster %s", r.key(), r.cluster)
		group, err = groups.Create(ctx, n.client, groups.CreateOpts{Name: name, Description: description}).Extract()
		n.lists.outdate(name)
		if err != nil {
			return n.failed("creating security group "+name, err)
		}
	}
	subnet, err := subnets.Get(ctx, n.client, or(r.settings.MemberSubnetID, have.vipSubnetID)).Extract()
	if err != nil {
		return n.failed("getting the subnet of members", err)
	}
	ranges, err := sourceRanges(r.service)
	if err != nil {
		return err
	}
	if err := n.setRules(ctx, *group, wantedRules(r, subnet.CIDR, ranges)); err != nil {
		return err
	}
	return n.setPorts(ctx, group.ID, r)
}

// setRules makes the ingress rules of a group the wanted ones. Others are created by one call.
func (n network) setRules(ctx context.Context, group groups.SecGroup, wanted []rule) error {
	existing := map[rule]bool{}
	for _, has := range group.Rules {
		opened := rule{protocol: has.Protocol, cidr: has.RemoteIPPrefix, port: has.PortRangeMin}
		if has.Direction != string(rules.DirIngress) {
			continue
		}
		if slices.Contains(wanted, opened) && has.PortRangeMax == has.PortRangeMin && !existing[opened] {
			existing[opened] = true
			continue
		}
		if err := unlessGone(rules.Delete(ctx, n.client, has.ID).ExtractErr()); err != nil {
			return n.failed("deleting a rule of security group "+group.ID, err)
		}
	}
	var missing []rules.CreateOpts
	for _, w := range wanted {
		if existing[w] {
			continue
		}
		existing[w] = true
		family := rules.EtherType4
		if strings.Contains(w.cidr, ":") {
			family = rules.EtherType6
		}
		missing = append(missing, rules.CreateOpts{Direction: rules.DirIngress, EtherType: family, SecGroupID: group.ID,
			Protocol: rules.RuleProtocol(w.protocol), RemoteIPPrefix: w.cidr, PortRangeMin: w.port, PortRangeMax: w.port})
	}
	if len(missing) == 0 {
		return nil
	}
	_, err := rules.CreateBulk(ctx, n.client, missing).Extract()
	return n.failed("creating rules of security group "+group.ID, err)
}

// serverPorts asks for the ports of several servers at once, which neutron allows and gophercloud has no field for.
type serverPorts []string

// ToPortListQuery is called by gophercloud.
func (s serverPorts) ToPortListQuery() (string, error) {
	return "?device_id=" + strings.Join(s, "&device_id="), nil
}

// setPorts puts the ports of members into a group, and takes out all others.
func (n network) setPorts(ctx context.Context, group string, r request) error {
	in, err := pagesOf(ctx, ports.List(n.client, ports.ListOpts{SecurityGroups: []string{group}}), ports.ExtractPorts)
	if err != nil {
		return n.failed("listing the ports of security group "+group, err)
	}
	wanted, err := n.memberPorts(ctx, r)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, port := range wanted {
		keep[port.ID] = true
		if !slices.Contains(port.SecurityGroups, group) {
			if err := n.setGroups(ctx, port, append(slices.Clone(port.SecurityGroups), group)); err != nil {
				return err
			}
		}
	}
	for _, port := range in {
		if !keep[port.ID] {
			without := slices.DeleteFunc(slices.Clone(port.SecurityGroups), func(id string) bool { return id == group })
			if err := n.setGroups(ctx, port, without); err != nil {
				return err
			}
		}
	}
	return nil
}

// memberPorts returns the ports that have the addresses of members, by one call for many servers.
func (n network) memberPorts(ctx context.Context, r request) ([]ports.Port, error) {
	var servers []string
	addresses := map[string]bool{}
	for _, node := range r.nodes {
		if address := nodeAddress(node, r.family()); address != "" && selected(node, r.settings.NodeSelector) && node.Spec.ProviderID != "" {
			servers = append(servers, serverOf(node))
			addresses[address] = true
		}
	}
	var members []ports.Port
	for chunk := range slices.Chunk(servers, portsAtOnce) {
		found, err := pagesOf(ctx, ports.List(n.client, serverPorts(chunk)), ports.ExtractPorts)
		if err != nil {
			return nil, n.failed("listing the ports of servers", err)
		}
		for _, port := range found {
			if slices.ContainsFunc(port.FixedIPs, func(ip ports.IP) bool { return addresses[ip.IPAddress] }) {
				members = append(members, port)
			}
		}
	}
	return members, nil
}

// serverOf is the ID of a node's server, the last part of its provider ID.
func serverOf(node *v1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

// setGroups changes the groups of a port, unless another client has changed the port since it was read.
func (n network) setGroups(ctx context.Context, port ports.Port, to []string) error {
	_, err := ports.Update(ctx, n.client, port.ID, ports.UpdateOpts{SecurityGroups: &to, RevisionNumber: &port.RevisionNumber}).Extract()
	return n.failed("setting the security groups of port "+port.ID, err)
}

// deleteSecurityGroup deletes the Service's group if there is one, whatever the cloud config says now.
func (n network) deleteSecurityGroup(ctx context.Context, r request) error {
	name := model.SecurityGroupName(r.key(), r.service.UID)
	all, _, ok := n.lists.groups.get(ctx, n.lists.since(n.lists.ages.toAdd, name))
	if ok && !slices.ContainsFunc(all, func(group groups.SecGroup) bool { return group.Name == name }) {
		return nil
	}
	group, err := n.securityGroup(ctx, r)
	if err != nil || group == nil {
		return err
	}
	r.nodes = nil
	if err := n.setPorts(ctx, group.ID, r); err != nil {
		return err
	}
	err = unlessGone(groups.Delete(ctx, n.client, group.ID).ExtractErr())
	if gophercloud.ResponseCodeIs(err, 409) {
		return again("security group " + group.ID + " is still in use")
	}
	return n.failed("deleting security group "+group.ID, err)
}
