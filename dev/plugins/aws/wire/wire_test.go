package wire_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"

	"github.com/mooring-ccm/mooring/dev/plugins/aws/wire"
)

func form(t *testing.T, query string) url.Values {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestRequestsAreReadWhole(t *testing.T) {
	var in ec2.AuthorizeSecurityGroupIngressInput
	unknown, err := wire.EC2().Decode(form(t, "Action=AuthorizeSecurityGroupIngress&Version=2016-11-15&GroupId=sg-1"+
		"&IpPermissions.1.FromPort=80&IpPermissions.1.IpRanges.1.CidrIp=10.0.0.0/8&IpPermissions.1.IpRanges.2.CidrIp=10.1.0.0/16"+
		"&IpPermissions.2.Groups.1.GroupId=sg-2&IpPermissions.2.Color=red&Urgency=high"), &in)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.IpPermissions) != 2 || *in.IpPermissions[0].FromPort != 80 || len(in.IpPermissions[0].IpRanges) != 2 ||
		*in.IpPermissions[1].UserIdGroupPairs[0].GroupId != "sg-2" {
		t.Errorf("read %+v", in.IpPermissions)
	}
	if want := []string{"IpPermissions.2.Color", "Urgency"}; !slices.Equal(unknown, want) {
		t.Errorf("unknown are %q, want %q", unknown, want)
	}
}

func TestListsMayBeEmptyAndHaveNoGaps(t *testing.T) {
	var in elb.RegisterInstancesWithLoadBalancerInput
	unknown, err := wire.Query().Decode(form(t, "LoadBalancerName=a&Instances="), &in)
	if err != nil || len(unknown) > 0 || in.Instances == nil || len(in.Instances) > 0 {
		t.Errorf("an empty list is read as %v, unknown %q, error %v", in.Instances, unknown, err)
	}
	unknown, err = wire.Query().Decode(form(t, "Instances.member.1.InstanceId=i-1&Instances.member.3.InstanceId=i-3"), &in)
	if err != nil || len(in.Instances) != 1 || len(unknown) != 1 {
		t.Errorf("a list with a gap is read as %v, unknown %q, error %v", in.Instances, unknown, err)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for _, query := range []string{"MaxResults=many", "DryRun=perhaps", "MaxResults=99999999999"} {
		_, err := wire.EC2().Decode(form(t, query), &ec2.DescribeInstancesInput{})
		if name, _, _ := strings.Cut(query, "="); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is answered with %v", query, err)
		}
	}
}

func TestAnswersLeaveOutWhatIsAbsent(t *testing.T) {
	answer, err := wire.EC2().Encode("DeleteSecurityGroup", "r-1", &ec2.DeleteSecurityGroupOutput{Return: aws.Bool(true)})
	want := "<DeleteSecurityGroupResponse><requestId>r-1</requestId><return>true</return></DeleteSecurityGroupResponse>"
	if err != nil || string(answer) != want {
		t.Errorf("wrote %s, error %v", answer, err)
	}
	answer, err = wire.Query().EncodeError("r-1", "Denied", "no & never")
	want = "<ErrorResponse><Error><Code>Denied</Code><Message>no &amp; never</Message></Error><RequestId>r-1</RequestId></ErrorResponse>"
	if err != nil || string(answer) != want {
		t.Errorf("wrote %s, error %v", answer, err)
	}
}
