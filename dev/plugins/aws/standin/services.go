package standin

import "github.com/mooring-ccm/mooring/dev/plugins/aws/wire"

// service is an API. The version in a request distinguishes them.
type service struct {
	name       string
	protocol   wire.Protocol
	operations map[string]operation
}

// services are by version. What a service offers beyond these operations, no scenario needs.
var services = map[string]service{
	"2016-11-15": {"EC2", wire.EC2(), map[string]operation{
		"CreateTags":                    writes((*Cloud).createTags),
		"DeleteTags":                    writes((*Cloud).deleteTags),
		"DescribeInstances":             reads((*Cloud).describeInstances),
		"DescribeInstanceTopology":      reads((*Cloud).describeInstanceTopology),
		"DescribeAvailabilityZones":     reads((*Cloud).describeAvailabilityZones),
		"DescribeSubnets":               reads((*Cloud).describeSubnets),
		"DescribeRouteTables":           reads((*Cloud).describeRouteTables),
		"DescribeSecurityGroups":        reads((*Cloud).describeSecurityGroups),
		"CreateSecurityGroup":           writes((*Cloud).createSecurityGroup),
		"DeleteSecurityGroup":           writes((*Cloud).deleteSecurityGroup),
		"AuthorizeSecurityGroupIngress": writes((*Cloud).authorizeSecurityGroupIngress),
		"RevokeSecurityGroupIngress":    writes((*Cloud).revokeSecurityGroupIngress),
	}},
	"2012-06-01": {"ELB", wire.Query(), map[string]operation{
		"DescribeLoadBalancers":               reads((*Cloud).describeLoadBalancers),
		"DescribeLoadBalancerAttributes":      reads((*Cloud).describeLoadBalancerAttributes),
		"CreateLoadBalancer":                  writes((*Cloud).createLoadBalancer),
		"DeleteLoadBalancer":                  writes((*Cloud).deleteLoadBalancer),
		"CreateLoadBalancerListeners":         writes((*Cloud).createLoadBalancerListeners),
		"DeleteLoadBalancerListeners":         writes((*Cloud).deleteLoadBalancerListeners),
		"ModifyLoadBalancerAttributes":        writes((*Cloud).modifyLoadBalancerAttributes),
		"ConfigureHealthCheck":                writes((*Cloud).configureHealthCheck),
		"RegisterInstancesWithLoadBalancer":   writes((*Cloud).registerInstances),
		"DeregisterInstancesFromLoadBalancer": writes((*Cloud).deregisterInstances),
	}},
	"2015-12-01": {"ELBv2", wire.Query(), map[string]operation{
		"DescribeLoadBalancers":          reads((*Cloud).describeNetworkBalancers),
		"DescribeLoadBalancerAttributes": reads((*Cloud).describeNetworkBalancerAttributes),
		"DescribeListeners":              reads((*Cloud).describeListeners),
		"DescribeTargetGroups":           reads((*Cloud).describeTargetGroups),
		"DescribeTargetHealth":           reads((*Cloud).describeTargetHealth),
		"CreateLoadBalancer":             writes((*Cloud).createNetworkBalancer),
		"DeleteLoadBalancer":             writes((*Cloud).deleteNetworkBalancer),
		"CreateListener":                 writes((*Cloud).createListener),
		"DeleteListener":                 writes((*Cloud).deleteListener),
		"CreateTargetGroup":              writes((*Cloud).createTargetGroup),
		"DeleteTargetGroup":              writes((*Cloud).deleteTargetGroup),
		"RegisterTargets":                writes((*Cloud).registerTargets),
		"DeregisterTargets":              writes((*Cloud).deregisterTargets),
	}},
}
