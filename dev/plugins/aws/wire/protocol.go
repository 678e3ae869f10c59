package wire

import (
	"reflect"
	"strings"
	"unicode"
)

// Protocol is one of the two.
type Protocol struct {
	// RequestName and AnswerName are what a field is called on the wire.
	requestName, answerName func(owner reflect.Type, field reflect.StructField) string
	// requestMember stands between a list and the numbers of its elements; empty means nothing does. AnswerMember is the name
	// of an element.
	requestMember, answerMember string
	// wrapped says that answers are inside an element RESULT.
	wrapped bool
}

// Query is awsQuery.
func Query() Protocol {
	same := func(_ reflect.Type, field reflect.StructField) string { return field.Name }
	return Protocol{requestName: same, answerName: same, requestMember: "member", answerMember: "member", wrapped: true}
}

// EC2 is ec2Query.
func EC2() Protocol {
	return Protocol{requestName: ec2RequestName, answerName: ec2AnswerName, answerMember: "item"}
}

// ec2RequestNames are names that do not follow the rule. A test with the SDK's client finds the ones that are missing.
var ec2RequestNames = map[string]string{
	"CreateSecurityGroupInput.Description": "GroupDescription",
	"CreateTagsInput.Resources":            "ResourceId",
	"DeleteTagsInput.Resources":            "ResourceId",
	"IpPermission.UserIdGroupPairs":        "Groups",
	"IpPermission.IpRanges":                "IpRanges",
	"IpPermission.Ipv6Ranges":              "Ipv6Ranges",
	"IpPermission.PrefixListIds":           "PrefixListIds",

	"AuthorizeSecurityGroupIngressInput.IpPermissions": "IpPermissions",
	"RevokeSecurityGroupIngressInput.IpPermissions":    "IpPermissions",
}

// ec2RequestName is the field's name, of a list in the singular.
func ec2RequestName(owner reflect.Type, field reflect.StructField) string {
	if name, found := ec2RequestNames[owner.Name()+"."+field.Name]; found {
		return name
	}
	if field.Type.Kind() == reflect.Slice {
		return strings.TrimSuffix(field.Name, "s")
	}
	return field.Name
}

// ec2AnswerNames are names that do not follow the rule.
var ec2AnswerNames = map[string]string{
	"AvailabilityZone.State":                                 "zoneState",
	"DescribeAvailabilityZonesOutput.AvailabilityZones":      "availabilityZoneInfo",
	"DescribeSecurityGroupsOutput.SecurityGroups":            "securityGroupInfo",
	"Instance.PublicDnsName":                                 "dnsName",
	"Instance.PublicIpAddress":                               "ipAddress",
	"Instance.SecurityGroups":                                "groupSet",
	"Instance.State":                                         "instanceState",
	"InstanceNetworkInterface.PrivateIpAddresses":            "privateIpAddressesSet",
	"IpPermission.IpRanges":                                  "ipRanges",
	"IpPermission.Ipv6Ranges":                                "ipv6Ranges",
	"IpPermission.PrefixListIds":                             "prefixListIds",
	"IpPermission.UserIdGroupPairs":                          "groups",
	"Reservation.Instances":                                  "instancesSet",
	"SecurityGroup.Description":                              "groupDescription",
	"SecurityGroup.IpPermissions":                            "ipPermissions",
	"SecurityGroup.IpPermissionsEgress":                      "ipPermissionsEgress",
	"AuthorizeSecurityGroupIngressOutput.SecurityGroupRules": "securityGroupRuleSet",
}

// ec2AnswerName is the field's name with a small first letter, of a list in the singular with "Set" behind it.
func ec2AnswerName(owner reflect.Type, field reflect.StructField) string {
	if name, found := ec2AnswerNames[owner.Name()+"."+field.Name]; found {
		return name
	}
	name := string(unicode.ToLower(rune(field.Name[0]))) + field.Name[1:]
	if field.Type.Kind() == reflect.Slice {
		return strings.TrimSuffix(name, "s") + "Set"
	}
	return name
}
