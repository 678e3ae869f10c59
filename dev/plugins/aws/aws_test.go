// Package aws_test runs a scenario with AWS's own, unmodified plugin under both managers.
package aws_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/plugins/aws/standin"
	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

type (
	environment = compare.Environment[*standin.Cloud]
	step        = compare.Step[*standin.Cloud]
)

func TestPluginDoesTheSame(t *testing.T) {
	compare.Run(t, compare.Scenario[*standin.Cloud]{
		Provider:  "aws",
		Open:      standin.Start,
		Reference: compare.Build(t, "./cmd/reference-ccm"),
		Mooring:   compare.BuildMooring(t, "k8s.io/cloud-provider-aws/pkg/providers/v1"),
		Flags:     []string{"--configure-cloud-routes=false", "--node-monitor-period=1s"},
		// The scenario has no time to let nodes grow old.
		MooringFlags: []string{"--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s"},
		Steps:        append(append(nodes(), classic()...), network()...),
		Intended:     intended(),
		MoreCalls: map[string]string{
			"EC2 DescribeAvailabilityZones": "the plugin remembers all zones once it was told; Mooring asks for the first nodes side by side, " +
				"before it was",
			"EC2 DescribeInstanceTopology": "the plugin remembers which types of instances have no place in the network once it was " +
				"told; Mooring asks for the first nodes side by side, before it was",
			"EC2 DescribeSecurityGroups": "a balancer hears of its nodes' addresses when they change, as the public one of an instance " +
				"that is stopped and started does; the reference keeps that from it",
		},
	})
}

// nodes join, and one has its machine switched off and on.
func nodes() []step {
	return []step{
		{
			Name: "three nodes join",
			Act: func(ctx context.Context, e *environment) error {
				e.Cloud.Launch(1, 2, 3)
				return join(ctx, e, 1, 2, 3)
			},
			Until: func(ctx context.Context, e *environment) error {
				return e.Initialized(ctx, standin.NodeName(1), standin.NodeName(2), standin.NodeName(3))
			},
		},
		refreshed(),
	}
}

// refreshed waits until the cloud was asked about the nodes twice: what a manager writes because of the first answer is there
// before it asks again.
func refreshed() step {
	const ask = "EC2 DescribeInstances"
	before := map[*environment]int{}
	var mu sync.Mutex
	return step{
		Name: "nodes are refreshed",
		Until: func(ctx context.Context, e *environment) error {
			now, err := e.Cloud.Observe(ctx)
			if err != nil {
				return err
			}
			asked := 0
			for _, call := range now.Calls {
				if call.Action == ask {
					asked++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if _, begun := before[e]; !begun {
				before[e] = asked
			}
			if asked < before[e]+2 {
				return fmt.Errorf("the cloud was asked %d times for instances, and %d times before", asked, before[e])
			}
			return nil
		},
	}
}

// classic is the life of a Service with a classic load balancer.
func classic() []step {
	return []step{
		{
			Name: "a Service is created",
			Act: func(ctx context.Context, e *environment) error {
				return e.CreateService(ctx, "web", nil, port("http", 80, 30080))
			},
			Until: func(ctx context.Context, e *environment) error { return e.ServiceReady(ctx, "web") },
		},
		{
			Name: "a port is added",
			Act: func(ctx context.Context, e *environment) error {
				return e.EditService(ctx, "web", func(service *corev1.Service) {
					service.Spec.Ports = append(service.Spec.Ports, port("https", 443, 30443))
				})
			},
		},
		{
			Name: "a node joins",
			Act: func(ctx context.Context, e *environment) error {
				e.Cloud.Launch(4)
				return join(ctx, e, 4)
			},
			Until: func(ctx context.Context, e *environment) error { return e.Initialized(ctx, standin.NodeName(4)) },
		},
		{
			Name: "an instance is stopped",
			Act: func(ctx context.Context, e *environment) error {
				if err := e.Cloud.Stop(2); err != nil {
					return err
				}
				return e.FallSilent(ctx, standin.NodeName(2))
			},
			Until: func(ctx context.Context, e *environment) error { return e.ShutDown(ctx, standin.NodeName(2)) },
		},
		{
			Name: "that instance is started again",
			Act: func(ctx context.Context, e *environment) error {
				if err := e.Cloud.Boot(2); err != nil {
					return err
				}
				return join(ctx, e, 2)
			},
			Until: func(ctx context.Context, e *environment) error { return e.NotShutDown(ctx, standin.NodeName(2)) },
		},
		{
			Name: "an instance is terminated",
			Act: func(ctx context.Context, e *environment) error {
				if err := e.Cloud.Terminate(3); err != nil {
					return err
				}
				return e.FallSilent(ctx, standin.NodeName(3))
			},
			Until: func(ctx context.Context, e *environment) error { return e.NodeGone(ctx, standin.NodeName(3)) },
		},
		{
			Name: "an instance is gone without a trace",
			Act: func(ctx context.Context, e *environment) error {
				e.Cloud.Forget(4)
				return e.FallSilent(ctx, standin.NodeName(4))
			},
			Until: func(ctx context.Context, e *environment) error { return e.NodeGone(ctx, standin.NodeName(4)) },
		},
		{
			Name:  "the Service is deleted",
			Act:   func(ctx context.Context, e *environment) error { return e.DeleteService(ctx, "web") },
			Until: func(ctx context.Context, e *environment) error { return e.ServiceGone(ctx, "web") },
		},
	}
}

// network is the life of a Service with a network load balancer, which is another API with another way to name targets.
func network() []step {
	annotations := map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "nlb"}
	return []step{
		{
			Name: "a Service for a network load balancer is created",
			Act: func(ctx context.Context, e *environment) error {
				return e.CreateService(ctx, "feed", annotations, port("feed", 7000, 30700))
			},
			Until: func(ctx context.Context, e *environment) error { return e.ServiceReady(ctx, "feed") },
		},
		{
			Name: "a node joins behind a network load balancer",
			Act: func(ctx context.Context, e *environment) error {
				e.Cloud.Launch(5)
				return join(ctx, e, 5)
			},
			Until: func(ctx context.Context, e *environment) error {
				return e.Holds(ctx, "target group/", standin.InstanceID(5))
			},
		},
		{
			Name:  "that Service is deleted",
			Act:   func(ctx context.Context, e *environment) error { return e.DeleteService(ctx, "feed") },
			Until: func(ctx context.Context, e *environment) error { return e.ServiceGone(ctx, "feed") },
		},
	}
}

func join(ctx context.Context, e *environment, numbers ...int) error {
	var specs []nodeagent.Options
	for _, number := range numbers {
		specs = append(specs, nodeagent.Options{Name: standin.NodeName(number)})
	}
	return e.Join(ctx, specs...)
}

func port(name string, number, node int32) corev1.ServicePort {
	return corev1.ServicePort{
		Name: name, Protocol: corev1.ProtocolTCP, Port: number, TargetPort: intstr.FromInt32(8080), NodePort: node,
	}
}

func intended() []compare.Intended {
	return append(compare.OfServices(), compare.OfLostNodes()...)
}
