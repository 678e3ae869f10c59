package standin

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// subnets are those of the VPC, one in each zone, all with a route to the internet.
var subnets = []struct{ id, zone, zoneID, cidr string }{
	{"subnet-0", Region + "a", "euc1-az2", "10.0.0.0/24"},
	{"subnet-1", Region + "b", "euc1-az3", "10.0.1.0/24"},
}

func clusterTags() []ec2types.Tag {
	return []ec2types.Tag{{Key: aws.String("kubernetes.io/cluster/" + Cluster), Value: aws.String("owned")}}
}

func (c *Cloud) describeAvailabilityZones(*ec2.DescribeAvailabilityZonesInput) (*ec2.DescribeAvailabilityZonesOutput, error) {
	out := &ec2.DescribeAvailabilityZonesOutput{}
	for _, subnet := range subnets {
		out.AvailabilityZones = append(out.AvailabilityZones, ec2types.AvailabilityZone{
			ZoneName: aws.String(subnet.zone), ZoneId: aws.String(subnet.zoneID), ZoneType: aws.String("availability-zone"),
			RegionName: aws.String(Region), State: ec2types.AvailabilityZoneStateAvailable,
		})
	}
	return out, nil
}

func (c *Cloud) describeSubnets(in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error) {
	out := &ec2.DescribeSubnetsOutput{}
	for _, subnet := range subnets {
		selected, err := c.selects(in.Filters, map[string][]string{"vpc-id": {vpc}, "subnet-id": {subnet.id}})
		if err != nil {
			return nil, err
		}
		if selected && listed(in.SubnetIds, subnet.id) {
			out.Subnets = append(out.Subnets, ec2types.Subnet{
				SubnetId: aws.String(subnet.id), VpcId: aws.String(vpc), AvailabilityZone: aws.String(subnet.zone),
				AvailabilityZoneId: aws.String(subnet.zoneID), CidrBlock: aws.String(subnet.cidr), State: ec2types.SubnetStateAvailable,
				Tags: clusterTags(),
			})
		}
	}
	return out, nil
}

// describeRouteTables has the main route table of the VPC, which serves all subnets.
func (c *Cloud) describeRouteTables(in *ec2.DescribeRouteTablesInput) (*ec2.DescribeRouteTablesOutput, error) {
	selected, err := c.selects(in.Filters, map[string][]string{"vpc-id": {vpc}})
	if err != nil || !selected {
		return &ec2.DescribeRouteTablesOutput{}, err
	}
	return &ec2.DescribeRouteTablesOutput{RouteTables: []ec2types.RouteTable{{
		RouteTableId: aws.String("rtb-1"), VpcId: aws.String(vpc), Tags: clusterTags(),
		Associations: []ec2types.RouteTableAssociation{{Main: aws.Bool(true), RouteTableId: aws.String("rtb-1")}},
		Routes: []ec2types.Route{
			{DestinationCidrBlock: aws.String("10.0.0.0/16"), GatewayId: aws.String("local"), State: ec2types.RouteStateActive},
			{DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: aws.String("igw-1"), State: ec2types.RouteStateActive},
		},
	}}}, nil
}

// listed reports whether a request that names IDs, or none for all, means this one.
func listed(ids []string, id string) bool {
	for _, wanted := range ids {
		if wanted == id {
			return true
		}
	}
	return len(ids) == 0
}
