package aws_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/plugins/aws/standin"
	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

// TestTheMainOfAWSDoesTheSame runs the program that AWS ships, as it is, and its port to Mooring, with the tagging controller.
func TestTheMainOfAWSDoesTheSame(t *testing.T) {
	compare.Run(t, compare.Scenario[*standin.Cloud]{
		Provider:  "aws",
		Open:      standin.Start,
		Reference: compare.Build(t, "k8s.io/cloud-provider-aws/cmd/aws-cloud-controller-manager"),
		Mooring:   compare.Build(t, "./cmd/tagging-ccm"),
		Flags: []string{"--configure-cloud-routes=false", "--node-monitor-period=1s", "--controllers=*,tagging",
			"--tags=team=blue,stage=test", "--resources=instance"},
		MooringFlags: []string{"--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s"},
		Steps:        tagged(),
		Intended:     append(compare.OfLostNodes(), taggedAgain()),
		MoreCalls: map[string]string{
			"EC2 DescribeInstanceTopology": "as in the scenario of the plugin",
			"EC2 DescribeInstances":        "before a node is deleted its instance has to be denied twice, and others affirmed",
		},
	})
}

// taggedAgain is in the changes of the cloud, of which each is a call for tags. What tags an instance has then is compared as all else is.
func taggedAgain() compare.Intended {
	const tagging = `((EC2 (Create|Delete)Tags .*|[ {}\[\]].*)\n?)*`
	return compare.Intended{
		Name: "how often an instance is tagged",
		Reason: "the tagging controller works on each update of a node until it sees its own label there, and the reference updates a node " +
			"more often while it joins",
		Fact: "changes of the cloud", Reference: tagging, Mooring: tagging,
		Sometimes: true,
	}
}

// tagged is the life of two nodes whose instances are tagged.
func tagged() []step {
	return []step{
		{
			Name: "two nodes join and their instances are tagged",
			Act: func(ctx context.Context, e *environment) error {
				e.Cloud.Launch(1, 2)
				return join(ctx, e, 1, 2)
			},
			Until: func(ctx context.Context, e *environment) error {
				if err := e.Initialized(ctx, standin.NodeName(1), standin.NodeName(2)); err != nil {
					return err
				}
				return labeled(ctx, e, 1, 2)
			},
		},
		{
			Name: "an instance is terminated",
			Act: func(ctx context.Context, e *environment) error {
				if err := e.Cloud.Terminate(2); err != nil {
					return err
				}
				return e.FallSilent(ctx, standin.NodeName(2))
			},
			Until: func(ctx context.Context, e *environment) error { return e.NodeGone(ctx, standin.NodeName(2)) },
		},
	}
}

// labeled returns an error unless the tagging controller has noted on the nodes that it has tagged their instances.
func labeled(ctx context.Context, e *environment, numbers ...int) error {
	for _, number := range numbers {
		node, err := e.Client.CoreV1().Nodes().Get(ctx, standin.NodeName(number), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if node.Labels["k8s.io/cloud-provider-aws"] == "" {
			return fmt.Errorf("the instance of node %s is not tagged", node.Name)
		}
	}
	return nil
}
