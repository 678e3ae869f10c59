package legacy_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/plugins/compare"
	"github.com/mooring-ccm/mooring/dev/plugins/legacy/arm"
)

type azureEnvironment = compare.Environment[*arm.Cloud]

type azureStep = compare.Step[*arm.Cloud]

// azureScenario runs with the Azure plugin, which offers the legacy Instances and Zones behind a cache of its own, knows from an
// informer of its own which nodes to leave out, and keeps one load balancer for all Services.
func azureScenario() compare.Scenario[*arm.Cloud] {
	return compare.Scenario[*arm.Cloud]{
		Provider: "azure",
		Open: func(t testing.TB) (*arm.Cloud, compare.Launch) {
			cloud := arm.New()
			t.Cleanup(cloud.Close)
			return cloud, cloud.Launch()
		},
		Flags:        append([]string{"--configure-cloud-routes=false"}, monitoring...),
		MooringFlags: mooringMonitoring,
		Parallel:     true,
		Steps:        azureSteps(),
		Intended:     append(append(compare.OfServices(), compare.OfLostNodes()...), azureIntended...),
		MoreCalls:    map[string]string{"GET Microsoft.Compute/virtualMachines": denial},
		Refreshed:    map[string]int{"GET Microsoft.Network/networkInterfaces": 3 * 4}, // three in a lookup of each of four nodes
	}
}

// What an update writes for a node that joins: its interface, and the balancer's address once more.
const (
	joined    = `PUT Microsoft.Network/networkInterfaces \S+/d-nic`
	addressed = `\nPUT Microsoft.Network/publicIPAddresses \S+/kubernetes-a<service web>`
)

// azureIntended are differences of this plugin, which writes the balancer's address anew whenever it is to update its targets.
var azureIntended = []compare.Intended{{
	Name: "fewer updates for a node that joins",
	Reason: "the reference updates the targets when a node appears and again when it has its provider ID, Mooring when the node " +
		"is initialized",
	Step:      "a node joins",
	Fact:      "changes of the cloud",
	Reference: joined + addressed + addressed,
	Mooring:   joined + addressed,
	Sometimes: true,
}}

func azureSteps() []azureStep {
	return []azureStep{
		{Name: "nodes join", Act: joinAzure("a", "b", "c"), Until: func(ctx context.Context, e *azureEnvironment) error {
			return e.Initialized(ctx, "a", "b", "c")
		}},
		{Name: "a service", Act: func(ctx context.Context, e *azureEnvironment) error {
			return e.CreateService(ctx, "web", nil, corev1.ServicePort{Name: "http", Port: 80, NodePort: 30080})
		}, Until: func(ctx context.Context, e *azureEnvironment) error { return e.ServiceReady(ctx, "web") }},
		{Name: "a second port", Act: func(ctx context.Context, e *azureEnvironment) error {
			return e.EditService(ctx, "web", func(service *corev1.Service) {
				service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, NodePort: 30443})
			})
		}, Until: func(ctx context.Context, e *azureEnvironment) error {
			return e.Holds(ctx, "loadBalancers/", `"frontendPort": 443`)
		}},
		{Name: "a node joins", Act: joinAzure("d"), Until: func(ctx context.Context, e *azureEnvironment) error {
			return e.Holds(ctx, "networkInterfaces/d-nic", "backendAddressPools/")
		}},
		{Name: "a machine is deallocated", Act: func(ctx context.Context, e *azureEnvironment) error {
			return errors.Join(e.Cloud.Deallocate("b"), e.FallSilent(ctx, "b"))
		}, Until: func(ctx context.Context, e *azureEnvironment) error { return e.ShutDown(ctx, "b") }},
		{Name: "it is started again", Act: func(ctx context.Context, e *azureEnvironment) error {
			return errors.Join(e.Cloud.Start("b"), e.Join(ctx, nodeagent.Options{Name: "b"}))
		}, Until: func(ctx context.Context, e *azureEnvironment) error { return e.NotShutDown(ctx, "b") }},
		{Name: "a machine is deleted", Act: func(ctx context.Context, e *azureEnvironment) error {
			return errors.Join(e.Cloud.Delete("d"), e.FallSilent(ctx, "d"))
		}, Until: func(ctx context.Context, e *azureEnvironment) error { return e.NodeGone(ctx, "d") }},
		{Name: "the service is deleted", Act: func(ctx context.Context, e *azureEnvironment) error {
			return e.DeleteService(ctx, "web")
		}, Until: func(ctx context.Context, e *azureEnvironment) error { return e.ServiceGone(ctx, "web") }},
	}
}

// joinAzure starts a machine for each node, each in the next zone, and registers the nodes.
func joinAzure(names ...string) func(context.Context, *azureEnvironment) error {
	return func(ctx context.Context, e *azureEnvironment) error {
		for _, name := range names {
			number := int(name[0] - 'a')
			e.Cloud.AddMachine(name, fmt.Sprint(1+number%3), fmt.Sprintf("10.30.0.%d", 10+number))
			if err := e.Join(ctx, nodeagent.Options{Name: name}); err != nil {
				return err
			}
		}
		return nil
	}
}
