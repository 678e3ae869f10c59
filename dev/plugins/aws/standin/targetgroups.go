package standin

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// targetGroup is where a listener of a network load balancer sends its connections.
type targetGroup struct {
	elbv2types.TargetGroup
	tags    []elbv2types.Tag
	targets []elbv2types.TargetDescription
}

func (c *Cloud) targetGroup(arn *string) (*targetGroup, error) {
	for _, group := range c.targetGroups {
		if *group.TargetGroupArn == aws.ToString(arn) {
			return group, nil
		}
	}
	return nil, refuse("TargetGroupNotFound", "Target group '%s' not found", aws.ToString(arn))
}

func (c *Cloud) describeTargetGroups(in *elbv2.DescribeTargetGroupsInput) (*elbv2.DescribeTargetGroupsOutput, error) {
	out := &elbv2.DescribeTargetGroupsOutput{}
	for _, group := range c.targetGroups {
		if in.LoadBalancerArn != nil && !slices.Contains(group.LoadBalancerArns, *in.LoadBalancerArn) {
			continue
		}
		if listed(in.TargetGroupArns, *group.TargetGroupArn) && listed(in.Names, *group.TargetGroupName) {
			out.TargetGroups = append(out.TargetGroups, group.TargetGroup)
		}
	}
	return out, nil
}

func (c *Cloud) createTargetGroup(in *elbv2.CreateTargetGroupInput) (*elbv2.CreateTargetGroupOutput, error) {
	if slices.ContainsFunc(c.targetGroups, func(g *targetGroup) bool { return *g.TargetGroupName == *in.Name }) {
		return nil, refuse("DuplicateTargetGroupName", "A target group with the name '%s' exists", *in.Name)
	}
	group := &targetGroup{tags: in.Tags, TargetGroup: elbv2types.TargetGroup{
		TargetGroupArn: c.arn("targetgroup", *in.Name), TargetGroupName: in.Name, VpcId: in.VpcId, TargetType: in.TargetType,
		Port: in.Port, Protocol: in.Protocol, HealthCheckEnabled: aws.Bool(true), HealthCheckPath: in.HealthCheckPath,
		HealthCheckPort: in.HealthCheckPort, HealthCheckProtocol: in.HealthCheckProtocol,
		HealthCheckIntervalSeconds: in.HealthCheckIntervalSeconds, HealthyThresholdCount: in.HealthyThresholdCount,
		UnhealthyThresholdCount: in.UnhealthyThresholdCount,
	}}
	c.targetGroups = append(c.targetGroups, group)
	return &elbv2.CreateTargetGroupOutput{TargetGroups: []elbv2types.TargetGroup{group.TargetGroup}}, nil
}

// deleteTargetGroup refuses for as long as a listener sends there.
func (c *Cloud) deleteTargetGroup(in *elbv2.DeleteTargetGroupInput) (*elbv2.DeleteTargetGroupOutput, error) {
	for _, b := range c.networkBalancers {
		for _, listener := range b.listeners {
			if *listener.DefaultActions[0].TargetGroupArn == *in.TargetGroupArn {
				return nil, refuse("ResourceInUse", "Target group '%s' is currently in use by a listener", *in.TargetGroupArn)
			}
		}
	}
	c.targetGroups = slices.DeleteFunc(c.targetGroups, func(g *targetGroup) bool { return *g.TargetGroupArn == *in.TargetGroupArn })
	return &elbv2.DeleteTargetGroupOutput{}, nil
}

func (c *Cloud) describeTargetHealth(in *elbv2.DescribeTargetHealthInput) (*elbv2.DescribeTargetHealthOutput, error) {
	group, err := c.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	out := &elbv2.DescribeTargetHealthOutput{}
	for _, target := range group.targets {
		out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, elbv2types.TargetHealthDescription{
			Target: &target, TargetHealth: &elbv2types.TargetHealth{State: elbv2types.TargetHealthStateEnumHealthy},
		})
	}
	return out, nil
}

func (c *Cloud) registerTargets(in *elbv2.RegisterTargetsInput) (*elbv2.RegisterTargetsOutput, error) {
	group, err := c.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	for _, target := range in.Targets {
		instance := c.instance(aws.ToString(target.Id))
		if instance == nil || instance.State.Name != running.Name {
			return nil, refuse("InvalidTarget", "The following targets are not in a running state: '%s'", aws.ToString(target.Id))
		}
	}
	group.targets = append(withoutTargets(group.targets, in.Targets), in.Targets...)
	return &elbv2.RegisterTargetsOutput{}, nil
}

func (c *Cloud) deregisterTargets(in *elbv2.DeregisterTargetsInput) (*elbv2.DeregisterTargetsOutput, error) {
	group, err := c.targetGroup(in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	group.targets = withoutTargets(group.targets, in.Targets)
	return &elbv2.DeregisterTargetsOutput{}, nil
}

func withoutTargets(all, some []elbv2types.TargetDescription) []elbv2types.TargetDescription {
	return slices.DeleteFunc(slices.Clone(all), func(one elbv2types.TargetDescription) bool {
		return slices.ContainsFunc(some, func(other elbv2types.TargetDescription) bool {
			return *one.Id == *other.Id && aws.ToInt32(one.Port) == aws.ToInt32(other.Port)
		})
	})
}
