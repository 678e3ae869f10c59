package standin

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mooring-ccm/mooring/dev/must"
)

// These tests call the stand-in with the SDK's own clients: what they read is what was meant.

func config(c *Cloud) aws.Config {
	return aws.Config{
		Region: Region, BaseEndpoint: aws.String(c.server.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: "secret"}, nil
		}),
	}
}

// ignored is the field of all the SDK's types that is no data.
var ignored = cmp.FilterPath(func(path cmp.Path) bool { return path.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())

func same(t *testing.T, what string, held, read any) {
	t.Helper()
	if diff := cmp.Diff(held, read, ignored, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s, held (-) and read (+):\n%s", what, diff)
	}
}

func code(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	return ""
}

// quiet fails the test if the stand-in was asked for something that it does not know.
func quiet(t *testing.T, c *Cloud) {
	t.Helper()
	for _, problem := range must.Value(c.Observe(t.Context()))(t).Problems {
		t.Error(problem)
	}
}

func TestInstancesAreReadAsHeld(t *testing.T) {
	c, _ := Start(t)
	client := ec2.NewFromConfig(config(c))
	c.Launch(1, 2)
	read := must.Value(client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{InstanceID(2)}}))(t)
	same(t, "instance 2", *c.instance(InstanceID(2)), read.Reservations[0].Instances[0])
	if err := c.Stop(2); err != nil {
		t.Fatal(err)
	}
	up := must.Value(client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{
		{Name: aws.String("instance-state-name"), Values: []string{"running", "pending"}},
	}}))(t)
	if len(up.Reservations) != 1 || *up.Reservations[0].Instances[0].InstanceId != InstanceID(1) {
		t.Errorf("the running instances are %v", up.Reservations)
	}
	_, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{InstanceID(3)}})
	if code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("asked for an instance that is not there, it says %v", err)
	}
	quiet(t, c)
}

func TestSecurityGroupsKeepRulesForOneSource(t *testing.T) {
	c, _ := Start(t)
	client := ec2.NewFromConfig(config(c))
	made := must.Value(client.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{
		GroupName: aws.String("web"), Description: aws.String("Of web"), VpcId: aws.String(vpc),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: clusterTags()}},
	}))(t)
	open := func(port int32, ranges ...string) ec2types.IpPermission {
		p := ec2types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(port), ToPort: aws.Int32(port)}
		for _, cidr := range ranges {
			p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: aws.String(cidr)})
		}
		return p
	}
	authorize := func(permission ec2types.IpPermission) error {
		_, err := client.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: made.GroupId, IpPermissions: []ec2types.IpPermission{permission},
		})
		return err
	}
	for _, permission := range []ec2types.IpPermission{open(80, "10.0.0.0/8"), open(80, "192.0.2.0/24"), open(443, "10.0.0.0/8")} {
		if err := authorize(permission); err != nil {
			t.Fatal(err)
		}
	}
	if err := authorize(open(80, "192.0.2.0/24")); code(err) != "InvalidPermission.Duplicate" {
		t.Errorf("a rule that is there already is answered with %v", err)
	}
	must.Value(client.RevokeSecurityGroupIngress(t.Context(), &ec2.RevokeSecurityGroupIngressInput{
		GroupId: made.GroupId, IpPermissions: []ec2types.IpPermission{open(443, "10.0.0.0/8")},
	}))(t)
	read := must.Value(client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{*made.GroupId}}))(t)
	same(t, "the rules", []ec2types.IpPermission{open(80, "10.0.0.0/8", "192.0.2.0/24")}, read.SecurityGroups[0].IpPermissions)
	fromNodes := []ec2types.UserIdGroupPair{{GroupId: aws.String(nodesGroupID)}}
	if err := authorize(ec2types.IpPermission{IpProtocol: aws.String("-1"), UserIdGroupPairs: fromNodes}); err != nil {
		t.Fatal(err)
	}
	_, err := client.DeleteSecurityGroup(t.Context(), &ec2.DeleteSecurityGroupInput{GroupId: aws.String(nodesGroupID)})
	if code(err) != "DependencyViolation" {
		t.Errorf("a group that another one refers to is deleted: %v", err)
	}
	quiet(t, c)
}

func TestClassicBalancersAreReadAsHeld(t *testing.T) {
	c, _ := Start(t)
	c.Launch(1)
	client := elb.NewFromConfig(config(c))
	listener := elbtypes.Listener{
		LoadBalancerPort: 80, InstancePort: aws.Int32(30080), Protocol: aws.String("TCP"), InstanceProtocol: aws.String("TCP"),
	}
	must.Value(client.CreateLoadBalancer(t.Context(), &elb.CreateLoadBalancerInput{
		LoadBalancerName: aws.String("web"), Listeners: []elbtypes.Listener{listener}, Subnets: []string{"subnet-0", "subnet-1"},
		SecurityGroups: []string{nodesGroupID}, Tags: []elbtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
	}))(t)
	must.Value(client.RegisterInstancesWithLoadBalancer(t.Context(), &elb.RegisterInstancesWithLoadBalancerInput{
		LoadBalancerName: aws.String("web"), Instances: []elbtypes.Instance{{InstanceId: aws.String(InstanceID(1))}},
	}))(t)
	read := must.Value(client.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{"web"}}))(t)
	same(t, "the balancer", c.balancers[0].LoadBalancerDescription, read.LoadBalancerDescriptions[0])
	attributes := must.Value(client.DescribeLoadBalancerAttributes(t.Context(), &elb.DescribeLoadBalancerAttributesInput{
		LoadBalancerName: aws.String("web"),
	}))(t)
	same(t, "its attributes", c.balancers[0].attributes, *attributes.LoadBalancerAttributes)
	_, err := client.DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{LoadBalancerNames: []string{"other"}})
	if code(err) != "LoadBalancerNotFound" {
		t.Errorf("asked for a balancer that is not there, it says %v", err)
	}
	quiet(t, c)
}

func TestNetworkBalancersAreReadAsHeld(t *testing.T) {
	c, _ := Start(t)
	client := elbv2.NewFromConfig(config(c))
	made := must.Value(client.CreateLoadBalancer(t.Context(), &elbv2.CreateLoadBalancerInput{
		Name: aws.String("feed"), Type: elbv2types.LoadBalancerTypeEnumNetwork,
		SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: aws.String("subnet-0")}},
	}))(t)
	same(t, "the balancer", c.networkBalancers[0].LoadBalancer, made.LoadBalancers[0])
	group := must.Value(client.CreateTargetGroup(t.Context(), &elbv2.CreateTargetGroupInput{
		Name: aws.String("feed-80"), Port: aws.Int32(30700), Protocol: elbv2types.ProtocolEnumTcp, VpcId: aws.String(vpc),
	}))(t)
	target := group.TargetGroups[0].TargetGroupArn
	must.Value(client.CreateListener(t.Context(), &elbv2.CreateListenerInput{
		LoadBalancerArn: made.LoadBalancers[0].LoadBalancerArn, Port: aws.Int32(80), Protocol: elbv2types.ProtocolEnumTcp,
		DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: target}},
	}))(t)
	read := must.Value(client.DescribeTargetGroups(t.Context(), &elbv2.DescribeTargetGroupsInput{
		LoadBalancerArn: made.LoadBalancers[0].LoadBalancerArn,
	}))(t)
	same(t, "its target groups", c.targetGroups[0].TargetGroup, read.TargetGroups[0])
	_, err := client.DeleteTargetGroup(t.Context(), &elbv2.DeleteTargetGroupInput{TargetGroupArn: target})
	if code(err) != "ResourceInUse" {
		t.Errorf("a target group in use is deleted: %v", err)
	}
	quiet(t, c)
}

func TestWhatIsUnknownIsAProblem(t *testing.T) {
	for name, ask := range map[string]func(context.Context, aws.Config) error{
		"an action": func(ctx context.Context, config aws.Config) error {
			_, err := ec2.NewFromConfig(config).DescribeVolumes(ctx, &ec2.DescribeVolumesInput{})
			return err
		},
		"a filter": func(ctx context.Context, config aws.Config) error {
			_, err := ec2.NewFromConfig(config).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{
				Filters: []ec2types.Filter{{Name: aws.String("tag:Name"), Values: []string{"a"}}},
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := Start(t)
			c.Launch(1)
			if err := ask(t.Context(), config(c)); err == nil {
				t.Error("it is answered")
			}
			if len(must.Value(c.Observe(t.Context()))(t).Problems) != 1 {
				t.Error("it is not remembered as a problem")
			}
		})
	}
}
