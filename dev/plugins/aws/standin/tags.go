package standin

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// createTags gives instances new tags, or new values for their tags:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateTags.html
func (c *Cloud) createTags(input *ec2.CreateTagsInput) (*ec2.CreateTagsOutput, error) {
	return &ec2.CreateTagsOutput{}, c.retag(input.Resources, func(tags []ec2types.Tag) []ec2types.Tag {
		return append(untagged(tags, input.Tags), input.Tags...)
	})
}

// deleteTags takes tags away, by their keys:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteTags.html
func (c *Cloud) deleteTags(input *ec2.DeleteTagsInput) (*ec2.DeleteTagsOutput, error) {
	return &ec2.DeleteTagsOutput{}, c.retag(input.Resources, func(tags []ec2types.Tag) []ec2types.Tag {
		return untagged(tags, input.Tags)
	})
}

// retag changes the tags of instances, or of none if one of them does not exist.
func (c *Cloud) retag(ids []string, change func([]ec2types.Tag) []ec2types.Tag) error {
	var found []*ec2types.Instance
	for _, id := range ids {
		i := slices.IndexFunc(c.instances, func(instance *ec2types.Instance) bool { return *instance.InstanceId == id })
		if i < 0 {
			return refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		found = append(found, c.instances[i])
	}
	for _, instance := range found {
		instance.Tags = change(instance.Tags)
		slices.SortFunc(instance.Tags, func(a, b ec2types.Tag) int { return cmp.Compare(aws.ToString(a.Key), aws.ToString(b.Key)) })
	}
	return nil
}

// untagged returns the tags that have other keys than those given.
func untagged(tags, given []ec2types.Tag) []ec2types.Tag {
	return slices.DeleteFunc(slices.Clone(tags), func(tag ec2types.Tag) bool {
		return slices.ContainsFunc(given, func(other ec2types.Tag) bool { return aws.ToString(other.Key) == aws.ToString(tag.Key) })
	})
}
