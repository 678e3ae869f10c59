package standin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// The states of an instance and their codes:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html
var (
	running    = ec2types.InstanceState{Code: aws.Int32(16), Name: ec2types.InstanceStateNameRunning}
	terminated = ec2types.InstanceState{Code: aws.Int32(48), Name: ec2types.InstanceStateNameTerminated}
	stopped    = ec2types.InstanceState{Code: aws.Int32(80), Name: ec2types.InstanceStateNameStopped}
)

// InstanceID is what EC2 calls an instance, by its number.
func InstanceID(number int) string { return fmt.Sprintf("i-%017d", number) }

// NodeName is what Kubernetes calls an instance, by its number: its private DNS name.
func NodeName(number int) string {
	return fmt.Sprintf("ip-%s.%s.compute.internal", strings.ReplaceAll(privateIP(number), ".", "-"), Region)
}

func privateIP(number int) string { return fmt.Sprintf("10.0.%d.%d", number%len(subnets), 10+number) }

// Launch starts instances. They take turns in the zones.
func (c *Cloud) Launch(numbers ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, number := range numbers {
		c.instances = append(c.instances, newInstance(number))
	}
}

func newInstance(number int) *ec2types.Instance {
	at := subnets[number%len(subnets)]
	private := privateIP(number)
	group := []ec2types.GroupIdentifier{{GroupId: aws.String(nodesGroupID), GroupName: aws.String("nodes")}}
	instance := &ec2types.Instance{
		InstanceId: aws.String(InstanceID(number)), InstanceType: ec2types.InstanceTypeM5Large,
		Architecture: ec2types.ArchitectureValuesX8664, State: &running,
		Placement: &ec2types.Placement{AvailabilityZone: aws.String(at.zone), Tenancy: ec2types.TenancyDefault},
		VpcId:     aws.String(vpc), SubnetId: aws.String(at.id), SecurityGroups: group, Tags: clusterTags(),
		PrivateIpAddress: aws.String(private), PrivateDnsName: aws.String(NodeName(number)),
		NetworkInterfaces: []ec2types.InstanceNetworkInterface{{
			NetworkInterfaceId: aws.String(fmt.Sprintf("eni-%d", number)), Status: ec2types.NetworkInterfaceStatusInUse, Groups: group,
			VpcId: aws.String(vpc), SubnetId: aws.String(at.id), PrivateIpAddress: aws.String(private),
			Attachment: &ec2types.InstanceNetworkInterfaceAttachment{
				DeviceIndex: aws.Int32(0), Status: ec2types.AttachmentStatusAttached,
			},
			PrivateIpAddresses: []ec2types.InstancePrivateIpAddress{{Primary: aws.Bool(true), PrivateIpAddress: aws.String(private)}},
		}},
	}
	publish(instance, fmt.Sprintf("203.0.113.%d", number))
	return instance
}

// publish gives an instance a public address.
func publish(instance *ec2types.Instance, address string) {
	instance.PublicIpAddress = aws.String(address)
	instance.PublicDnsName = aws.String(fmt.Sprintf("ec2-%s.%s.compute.amazonaws.com", strings.ReplaceAll(address, ".", "-"), Region))
}

// Stop stops an instance. It keeps its ID and its private address.
func (c *Cloud) Stop(number int) error { return c.turn(number, stopped) }

// Boot starts an instance that was stopped. It gets another public address than it had.
func (c *Cloud) Boot(number int) error { return c.turn(number, running) }

// Terminate ends an instance. EC2 still shows it, for about an hour.
func (c *Cloud) Terminate(number int) error { return c.turn(number, terminated) }

// Forget makes EC2 know nothing of an instance, as it does an hour after its end.
func (c *Cloud) Forget(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances = slices.DeleteFunc(c.instances, func(i *ec2types.Instance) bool { return *i.InstanceId == InstanceID(number) })
}

// turn gives an instance another state. One that is not running has no public address, a terminated one no interfaces either.
func (c *Cloud) turn(number int, state ec2types.InstanceState) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	instance := c.instance(InstanceID(number))
	if instance == nil {
		return fmt.Errorf("there is no instance %d to become %s", number, state.Name)
	}
	instance.State = &state
	if state.Name == ec2types.InstanceStateNameRunning {
		publish(instance, fmt.Sprintf("203.0.113.%d", 100+number))
		return nil
	}
	instance.PublicIpAddress, instance.PublicDnsName = nil, aws.String("")
	if state.Name == ec2types.InstanceStateNameTerminated {
		instance.PrivateIpAddress, instance.PrivateDnsName, instance.VpcId, instance.SubnetId = nil, aws.String(""), nil, nil
		instance.NetworkInterfaces, instance.SecurityGroups = nil, nil
	}
	return nil
}

func (c *Cloud) instance(id string) *ec2types.Instance {
	for _, instance := range c.instances {
		if *instance.InstanceId == id {
			return instance
		}
	}
	return nil
}

func (c *Cloud) describeInstances(in *ec2.DescribeInstancesInput) (*ec2.DescribeInstancesOutput, error) {
	for _, id := range in.InstanceIds {
		if c.instance(id) == nil {
			return nil, refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	out := &ec2.DescribeInstancesOutput{}
	for _, instance := range c.instances {
		if len(in.InstanceIds) > 0 && !slices.Contains(in.InstanceIds, *instance.InstanceId) {
			continue
		}
		selected, err := c.selects(in.Filters, map[string][]string{
			"private-dns-name":    {aws.ToString(instance.PrivateDnsName)},
			"instance-state-name": {string(instance.State.Name)},
			"vpc-id":              {aws.ToString(instance.VpcId)},
		})
		if err != nil {
			return nil, err
		}
		if selected {
			out.Reservations = append(out.Reservations, ec2types.Reservation{
				ReservationId: aws.String("r-" + *instance.InstanceId), OwnerId: aws.String(account), Instances: []ec2types.Instance{*instance},
			})
		}
	}
	return out, nil
}

// describeInstanceTopology answers as EC2 does for types of instances that have no known place in the network.
func (c *Cloud) describeInstanceTopology(*ec2.DescribeInstanceTopologyInput) (*ec2.DescribeInstanceTopologyOutput, error) {
	return &ec2.DescribeInstanceTopologyOutput{}, nil
}

// selects reports whether a resource with these properties passes all filters. A filter for a property that the stand-in does
// not know is a problem: its answer would be made up.
func (c *Cloud) selects(filters []ec2types.Filter, properties map[string][]string) (bool, error) {
	for _, filter := range filters {
		values, known := properties[aws.ToString(filter.Name)]
		if !known {
			c.problem("the filter %s is not known here", aws.ToString(filter.Name))
			return false, refuse("InvalidParameterValue", "The filter '%s' is invalid", aws.ToString(filter.Name))
		}
		if !slices.ContainsFunc(filter.Values, func(wanted string) bool { return slices.Contains(values, wanted) }) {
			return false, nil
		}
	}
	return true, nil
}
