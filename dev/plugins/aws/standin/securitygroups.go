package standin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// nodesGroupID is the security group of all instances.
const nodesGroupID = "sg-nodes"

// securityGroup is a group with its ingress rules, each for one source, as EC2 keeps them.
type securityGroup struct {
	id, name, description string
	tags                  []ec2types.Tag
	rules                 []rule
}

// rule lets traffic in from a range or a group. Ports are -1 for all.
type rule struct {
	protocol, cidr, group string
	from, to              int32
	description           string
}

// same reports whether two rules are one for EC2, which does not look at descriptions.
func (r rule) same(other rule) bool {
	r.description, other.description = "", ""
	return r == other
}

func nodesGroup() *securityGroup {
	return &securityGroup{
		id: nodesGroupID, name: "nodes", description: "All nodes", tags: clusterTags(),
		rules: []rule{{protocol: "-1", from: -1, to: -1, group: nodesGroupID}},
	}
}

func (c *Cloud) group(id string) (*securityGroup, error) {
	for _, group := range c.groups {
		if group.id == id {
			return group, nil
		}
	}
	return nil, refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

func (c *Cloud) describeSecurityGroups(in *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error) {
	for _, id := range in.GroupIds {
		if _, err := c.group(id); err != nil {
			return nil, err
		}
	}
	out := &ec2.DescribeSecurityGroupsOutput{}
	for _, group := range c.groups {
		selected, err := c.selects(in.Filters, map[string][]string{
			"group-name": {group.name}, "vpc-id": {vpc}, "group-id": {group.id}, "ip-permission.group-id": group.sources(),
		})
		if err != nil {
			return nil, err
		}
		if selected && listed(in.GroupIds, group.id) {
			out.SecurityGroups = append(out.SecurityGroups, ec2types.SecurityGroup{
				GroupId: aws.String(group.id), GroupName: aws.String(group.name), Description: aws.String(group.description),
				VpcId: aws.String(vpc), OwnerId: aws.String(account), Tags: group.tags, IpPermissions: group.permissions(),
			})
		}
	}
	return out, nil
}

// sources are the groups that the group lets in.
func (g *securityGroup) sources() []string {
	var ids []string
	for _, rule := range g.rules {
		if rule.group != "" {
			ids = append(ids, rule.group)
		}
	}
	return ids
}

// permissions puts rules for the same ports together, as EC2 shows them.
func (g *securityGroup) permissions() []ec2types.IpPermission {
	var all []ec2types.IpPermission
	for _, r := range g.rules {
		at := slices.IndexFunc(all, func(p ec2types.IpPermission) bool {
			return *p.IpProtocol == r.protocol && portOf(p.FromPort) == r.from && portOf(p.ToPort) == r.to
		})
		if at < 0 {
			at = len(all)
			all = append(all, ec2types.IpPermission{IpProtocol: aws.String(r.protocol)})
			if r.protocol != "-1" {
				all[at].FromPort, all[at].ToPort = aws.Int32(r.from), aws.Int32(r.to)
			}
		}
		var description *string
		if r.description != "" {
			description = aws.String(r.description)
		}
		if r.group != "" {
			all[at].UserIdGroupPairs = append(all[at].UserIdGroupPairs,
				ec2types.UserIdGroupPair{GroupId: aws.String(r.group), UserId: aws.String(account), Description: description})
		} else {
			all[at].IpRanges = append(all[at].IpRanges, ec2types.IpRange{CidrIp: aws.String(r.cidr), Description: description})
		}
	}
	return all
}

func portOf(port *int32) int32 {
	if port == nil {
		return -1
	}
	return *port
}

// rulesOf takes permissions apart into rules for one source each.
func rulesOf(permissions []ec2types.IpPermission) []rule {
	var all []rule
	for _, p := range permissions {
		base := rule{protocol: *p.IpProtocol, from: portOf(p.FromPort), to: portOf(p.ToPort)}
		for _, source := range p.IpRanges {
			r := base
			r.cidr, r.description = aws.ToString(source.CidrIp), aws.ToString(source.Description)
			all = append(all, r)
		}
		for _, source := range p.UserIdGroupPairs {
			r := base
			r.group, r.description = aws.ToString(source.GroupId), aws.ToString(source.Description)
			all = append(all, r)
		}
	}
	return all
}

func (c *Cloud) createSecurityGroup(in *ec2.CreateSecurityGroupInput) (*ec2.CreateSecurityGroupOutput, error) {
	if slices.ContainsFunc(c.groups, func(g *securityGroup) bool { return g.name == aws.ToString(in.GroupName) }) {
		return nil, refuse("InvalidGroup.Duplicate", "The security group '%s' already exists", aws.ToString(in.GroupName))
	}
	group := &securityGroup{
		id: fmt.Sprintf("sg-%d", c.next()), name: aws.ToString(in.GroupName), description: aws.ToString(in.Description),
	}
	for _, specification := range in.TagSpecifications {
		group.tags = append(group.tags, specification.Tags...)
	}
	slices.SortFunc(group.tags, func(a, b ec2types.Tag) int { return cmp.Compare(*a.Key, *b.Key) })
	c.groups = append(c.groups, group)
	return &ec2.CreateSecurityGroupOutput{GroupId: aws.String(group.id), Tags: group.tags}, nil
}

// deleteSecurityGroup refuses for as long as anything refers to the group.
func (c *Cloud) deleteSecurityGroup(in *ec2.DeleteSecurityGroupInput) (*ec2.DeleteSecurityGroupOutput, error) {
	id := aws.ToString(in.GroupId)
	if _, err := c.group(id); err != nil {
		return nil, err
	}
	used := slices.ContainsFunc(c.groups, func(g *securityGroup) bool { return g.id != id && slices.Contains(g.sources(), id) }) ||
		slices.ContainsFunc(c.balancers, func(b *balancer) bool { return slices.Contains(b.SecurityGroups, id) }) ||
		slices.ContainsFunc(c.networkBalancers, func(b *networkBalancer) bool { return slices.Contains(b.SecurityGroups, id) }) ||
		id == nodesGroupID && len(c.instances) > 0
	if used {
		return nil, refuse("DependencyViolation", "resource %s has a dependent object", id)
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *securityGroup) bool { return g.id == id })
	return &ec2.DeleteSecurityGroupOutput{GroupId: in.GroupId, Return: aws.Bool(true)}, nil
}

func (c *Cloud) authorizeSecurityGroupIngress(in *ec2.AuthorizeSecurityGroupIngressInput,
) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
	group, err := c.group(aws.ToString(in.GroupId))
	if err != nil {
		return nil, err
	}
	added := rulesOf(in.IpPermissions)
	for _, r := range added {
		if slices.ContainsFunc(group.rules, r.same) {
			return nil, refuse("InvalidPermission.Duplicate", "the specified rule %+v already exists", r)
		}
		if r.group != "" {
			if _, err := c.group(r.group); err != nil {
				return nil, err
			}
		}
	}
	group.rules = append(group.rules, added...)
	return &ec2.AuthorizeSecurityGroupIngressOutput{Return: aws.Bool(true)}, nil
}

func (c *Cloud) revokeSecurityGroupIngress(in *ec2.RevokeSecurityGroupIngressInput) (*ec2.RevokeSecurityGroupIngressOutput, error) {
	group, err := c.group(aws.ToString(in.GroupId))
	if err != nil {
		return nil, err
	}
	removed := rulesOf(in.IpPermissions)
	for _, r := range removed {
		if !slices.ContainsFunc(group.rules, r.same) {
			return nil, refuse("InvalidPermission.NotFound", "the specified rule %+v does not exist", r)
		}
	}
	group.rules = slices.DeleteFunc(group.rules, func(r rule) bool { return slices.ContainsFunc(removed, r.same) })
	return &ec2.RevokeSecurityGroupIngressOutput{Return: aws.Bool(true)}, nil
}
