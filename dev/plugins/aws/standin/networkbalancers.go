package standin

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// networkBalancer is a network load balancer with its listeners.
type networkBalancer struct {
	elbv2types.LoadBalancer
	attributes []elbv2types.LoadBalancerAttribute
	tags       []elbv2types.Tag
	listeners  []elbv2types.Listener
}

func (c *Cloud) arn(kind, name string) *string {
	return aws.String(fmt.Sprintf("arn:aws:elasticloadbalancing:%s:%s:%s/%s/%016x", Region, account, kind, name, c.next()))
}

func (c *Cloud) networkBalancer(arn *string) (*networkBalancer, error) {
	for _, b := range c.networkBalancers {
		if *b.LoadBalancerArn == aws.ToString(arn) {
			return b, nil
		}
	}
	return nil, refuse("LoadBalancerNotFound", "Load balancer '%s' not found", aws.ToString(arn))
}

func (c *Cloud) describeNetworkBalancers(in *elbv2.DescribeLoadBalancersInput) (*elbv2.DescribeLoadBalancersOutput, error) {
	out := &elbv2.DescribeLoadBalancersOutput{}
	for _, b := range c.networkBalancers {
		if listed(in.Names, *b.LoadBalancerName) && listed(in.LoadBalancerArns, *b.LoadBalancerArn) {
			out.LoadBalancers = append(out.LoadBalancers, b.LoadBalancer)
		}
	}
	if wanted := max(len(in.Names), len(in.LoadBalancerArns)); len(out.LoadBalancers) < wanted {
		return nil, refuse("LoadBalancerNotFound", "Load balancers '%v%v' not found", in.Names, in.LoadBalancerArns)
	}
	return out, nil
}

func (c *Cloud) createNetworkBalancer(in *elbv2.CreateLoadBalancerInput) (*elbv2.CreateLoadBalancerOutput, error) {
	if in.Type != elbv2types.LoadBalancerTypeEnumNetwork {
		return nil, refuse("ValidationError", "there are no load balancers of type %s here", in.Type)
	}
	if slices.ContainsFunc(c.networkBalancers, func(b *networkBalancer) bool { return *b.LoadBalancerName == *in.Name }) {
		return nil, refuse("DuplicateLoadBalancerName", "A load balancer with the name '%s' exists", *in.Name)
	}
	b := &networkBalancer{tags: in.Tags, attributes: []elbv2types.LoadBalancerAttribute{
		{Key: aws.String("load_balancing.cross_zone.enabled"), Value: aws.String("false")},
		{Key: aws.String("access_logs.s3.enabled"), Value: aws.String("false")},
	}}
	scheme := in.Scheme
	if scheme == "" {
		scheme = elbv2types.LoadBalancerSchemeEnumInternetFacing
	}
	b.LoadBalancer = elbv2types.LoadBalancer{
		LoadBalancerName: in.Name, LoadBalancerArn: c.arn("loadbalancer/net", *in.Name), Type: in.Type, Scheme: scheme,
		DNSName: aws.String(fmt.Sprintf("%s-%d.elb.%s.amazonaws.com", *in.Name, c.next(), Region)), VpcId: aws.String(vpc),
		SecurityGroups: in.SecurityGroups, State: &elbv2types.LoadBalancerState{Code: elbv2types.LoadBalancerStateEnumActive},
		IpAddressType: elbv2types.IpAddressTypeIpv4,
	}
	for _, mapping := range in.SubnetMappings {
		for _, subnet := range subnets {
			if subnet.id == aws.ToString(mapping.SubnetId) {
				b.AvailabilityZones = append(b.AvailabilityZones,
					elbv2types.AvailabilityZone{SubnetId: aws.String(subnet.id), ZoneName: aws.String(subnet.zone)})
			}
		}
	}
	c.networkBalancers = append(c.networkBalancers, b)
	return &elbv2.CreateLoadBalancerOutput{LoadBalancers: []elbv2types.LoadBalancer{b.LoadBalancer}}, nil
}

func (c *Cloud) deleteNetworkBalancer(in *elbv2.DeleteLoadBalancerInput) (*elbv2.DeleteLoadBalancerOutput, error) {
	c.networkBalancers = slices.DeleteFunc(c.networkBalancers, func(b *networkBalancer) bool {
		return *b.LoadBalancerArn == *in.LoadBalancerArn
	})
	return &elbv2.DeleteLoadBalancerOutput{}, nil
}

func (c *Cloud) describeNetworkBalancerAttributes(in *elbv2.DescribeLoadBalancerAttributesInput,
) (*elbv2.DescribeLoadBalancerAttributesOutput, error) {
	b, err := c.networkBalancer(in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	return &elbv2.DescribeLoadBalancerAttributesOutput{Attributes: b.attributes}, nil
}

func (c *Cloud) describeListeners(in *elbv2.DescribeListenersInput) (*elbv2.DescribeListenersOutput, error) {
	b, err := c.networkBalancer(in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	return &elbv2.DescribeListenersOutput{Listeners: b.listeners}, nil
}

func (c *Cloud) createListener(in *elbv2.CreateListenerInput) (*elbv2.CreateListenerOutput, error) {
	b, err := c.networkBalancer(in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	for _, action := range in.DefaultActions {
		group, err := c.targetGroup(action.TargetGroupArn)
		if err != nil {
			return nil, err
		}
		group.LoadBalancerArns = []string{*in.LoadBalancerArn}
	}
	listener := elbv2types.Listener{
		ListenerArn: c.arn("listener/net", *b.LoadBalancerName), LoadBalancerArn: in.LoadBalancerArn,
		Port: in.Port, Protocol: in.Protocol, DefaultActions: in.DefaultActions,
	}
	b.listeners = append(b.listeners, listener)
	return &elbv2.CreateListenerOutput{Listeners: []elbv2types.Listener{listener}}, nil
}

func (c *Cloud) deleteListener(in *elbv2.DeleteListenerInput) (*elbv2.DeleteListenerOutput, error) {
	for _, b := range c.networkBalancers {
		for i, listener := range b.listeners {
			if *listener.ListenerArn == *in.ListenerArn {
				b.listeners = slices.Delete(b.listeners, i, i+1)
				return &elbv2.DeleteListenerOutput{}, nil
			}
		}
	}
	return nil, refuse("ListenerNotFound", "Listener '%s' not found", *in.ListenerArn)
}
