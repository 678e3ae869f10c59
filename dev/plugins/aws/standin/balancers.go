package standin

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
)

// balancer is a classic load balancer. It keeps terminated instances until a client removes them. AWS removes them itself, but only after a while,
// and a scenario must show that the manager does.
type balancer struct {
	elbtypes.LoadBalancerDescription
	attributes elbtypes.LoadBalancerAttributes
	tags       []elbtypes.Tag
}

func (c *Cloud) balancer(name *string) (*balancer, error) {
	for _, b := range c.balancers {
		if *b.LoadBalancerName == aws.ToString(name) {
			return b, nil
		}
	}
	return nil, refuse("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '%s'", aws.ToString(name))
}

func (c *Cloud) describeLoadBalancers(in *elb.DescribeLoadBalancersInput) (*elb.DescribeLoadBalancersOutput, error) {
	out := &elb.DescribeLoadBalancersOutput{}
	for _, name := range in.LoadBalancerNames {
		b, err := c.balancer(&name)
		if err != nil {
			return nil, err
		}
		out.LoadBalancerDescriptions = append(out.LoadBalancerDescriptions, b.LoadBalancerDescription)
	}
	if len(in.LoadBalancerNames) == 0 {
		for _, b := range c.balancers {
			out.LoadBalancerDescriptions = append(out.LoadBalancerDescriptions, b.LoadBalancerDescription)
		}
	}
	return out, nil
}

func (c *Cloud) createLoadBalancer(in *elb.CreateLoadBalancerInput) (*elb.CreateLoadBalancerOutput, error) {
	if _, err := c.balancer(in.LoadBalancerName); err == nil {
		return nil, refuse("DuplicateLoadBalancerName", "there is a load balancer %s already", *in.LoadBalancerName)
	}
	for _, id := range in.SecurityGroups {
		if _, err := c.group(id); err != nil {
			return nil, refuse("InvalidSecurityGroup", "there is no security group %s", id)
		}
	}
	scheme := aws.ToString(in.Scheme)
	if scheme == "" {
		scheme = "internet-facing"
	}
	b := &balancer{tags: in.Tags, attributes: defaultAttributes()}
	b.LoadBalancerDescription = elbtypes.LoadBalancerDescription{
		LoadBalancerName: in.LoadBalancerName, Scheme: aws.String(scheme), VPCId: aws.String(vpc),
		DNSName: aws.String(fmt.Sprintf("%s-%d.%s.elb.amazonaws.com", *in.LoadBalancerName, c.next(), Region)),
		Subnets: in.Subnets, SecurityGroups: in.SecurityGroups,
		HealthCheck: &elbtypes.HealthCheck{
			Target: aws.String(fmt.Sprintf("TCP:%d", aws.ToInt32(in.Listeners[0].InstancePort))), Interval: aws.Int32(30),
			Timeout: aws.Int32(5), HealthyThreshold: aws.Int32(10), UnhealthyThreshold: aws.Int32(2),
		},
	}
	b.listen(in.Listeners)
	c.balancers = append(c.balancers, b)
	return &elb.CreateLoadBalancerOutput{DNSName: b.DNSName}, nil
}

// defaultAttributes are those of a new load balancer.
func defaultAttributes() elbtypes.LoadBalancerAttributes {
	return elbtypes.LoadBalancerAttributes{
		AccessLog:              &elbtypes.AccessLog{},
		ConnectionDraining:     &elbtypes.ConnectionDraining{Timeout: aws.Int32(300)},
		ConnectionSettings:     &elbtypes.ConnectionSettings{IdleTimeout: aws.Int32(60)},
		CrossZoneLoadBalancing: &elbtypes.CrossZoneLoadBalancing{},
		AdditionalAttributes: []elbtypes.AdditionalAttribute{
			{Key: aws.String("elb.http.desyncmitigationmode"), Value: aws.String("defensive")},
		},
	}
}

func (b *balancer) listen(listeners []elbtypes.Listener) {
	for _, listener := range listeners {
		b.ListenerDescriptions = append(b.ListenerDescriptions, elbtypes.ListenerDescription{Listener: &listener})
	}
}

// deleteLoadBalancer succeeds for a load balancer that does not exist, like AWS.
func (c *Cloud) deleteLoadBalancer(in *elb.DeleteLoadBalancerInput) (*elb.DeleteLoadBalancerOutput, error) {
	c.balancers = slices.DeleteFunc(c.balancers, func(b *balancer) bool { return *b.LoadBalancerName == *in.LoadBalancerName })
	return &elb.DeleteLoadBalancerOutput{}, nil
}

func (c *Cloud) createLoadBalancerListeners(in *elb.CreateLoadBalancerListenersInput,
) (*elb.CreateLoadBalancerListenersOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	for _, wanted := range in.Listeners {
		if slices.ContainsFunc(b.ListenerDescriptions, func(d elbtypes.ListenerDescription) bool {
			return d.Listener.LoadBalancerPort == wanted.LoadBalancerPort
		}) {
			return nil, refuse("DuplicateListener", "there is a listener on port %d already", wanted.LoadBalancerPort)
		}
	}
	b.listen(in.Listeners)
	return &elb.CreateLoadBalancerListenersOutput{}, nil
}

func (c *Cloud) deleteLoadBalancerListeners(in *elb.DeleteLoadBalancerListenersInput,
) (*elb.DeleteLoadBalancerListenersOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	b.ListenerDescriptions = slices.DeleteFunc(b.ListenerDescriptions, func(d elbtypes.ListenerDescription) bool {
		return slices.Contains(in.LoadBalancerPorts, d.Listener.LoadBalancerPort)
	})
	return &elb.DeleteLoadBalancerListenersOutput{}, nil
}

func (c *Cloud) describeLoadBalancerAttributes(in *elb.DescribeLoadBalancerAttributesInput,
) (*elb.DescribeLoadBalancerAttributesOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	return &elb.DescribeLoadBalancerAttributesOutput{LoadBalancerAttributes: &b.attributes}, nil
}

// modifyLoadBalancerAttributes sets what the request has, and leaves the rest.
func (c *Cloud) modifyLoadBalancerAttributes(in *elb.ModifyLoadBalancerAttributesInput,
) (*elb.ModifyLoadBalancerAttributesOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	wanted := in.LoadBalancerAttributes
	if wanted.AccessLog != nil {
		b.attributes.AccessLog = wanted.AccessLog
	}
	if draining := wanted.ConnectionDraining; draining != nil {
		b.attributes.ConnectionDraining.Enabled = draining.Enabled
		if draining.Timeout != nil {
			b.attributes.ConnectionDraining.Timeout = draining.Timeout
		}
	}
	if wanted.ConnectionSettings != nil {
		b.attributes.ConnectionSettings = wanted.ConnectionSettings
	}
	if wanted.CrossZoneLoadBalancing != nil {
		b.attributes.CrossZoneLoadBalancing = wanted.CrossZoneLoadBalancing
	}
	return &elb.ModifyLoadBalancerAttributesOutput{LoadBalancerName: in.LoadBalancerName, LoadBalancerAttributes: wanted}, nil
}

func (c *Cloud) configureHealthCheck(in *elb.ConfigureHealthCheckInput) (*elb.ConfigureHealthCheckOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	b.HealthCheck = in.HealthCheck
	return &elb.ConfigureHealthCheckOutput{HealthCheck: in.HealthCheck}, nil
}

func (c *Cloud) registerInstances(in *elb.RegisterInstancesWithLoadBalancerInput,
) (*elb.RegisterInstancesWithLoadBalancerOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	for _, wanted := range in.Instances {
		if c.instance(aws.ToString(wanted.InstanceId)) == nil {
			return nil, refuse("InvalidInstance", "there is no instance %s", aws.ToString(wanted.InstanceId))
		}
	}
	b.Instances = append(without(b.Instances, in.Instances), in.Instances...)
	return &elb.RegisterInstancesWithLoadBalancerOutput{Instances: b.Instances}, nil
}

func (c *Cloud) deregisterInstances(in *elb.DeregisterInstancesFromLoadBalancerInput,
) (*elb.DeregisterInstancesFromLoadBalancerOutput, error) {
	b, err := c.balancer(in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	b.Instances = without(b.Instances, in.Instances)
	return &elb.DeregisterInstancesFromLoadBalancerOutput{Instances: b.Instances}, nil
}

func without(all, some []elbtypes.Instance) []elbtypes.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(one elbtypes.Instance) bool {
		return slices.ContainsFunc(some, func(other elbtypes.Instance) bool { return *one.InstanceId == *other.InstanceId })
	})
}
