// Package gce_test shows that the plugin of Google's cloud does the same under Mooring as under the reference cloud controller
// manager: InstancesV2, the informers that it asks for, an external and an internal load balancer, and a finalizer of its own.
package gce_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/plugins/compare"
	"github.com/mooring-ccm/mooring/dev/plugins/gce/compute"
)

// rights are what the plugin needs besides what the managers need.
//
//go:embed rights.yaml
var rights []byte

// clusterID is the ID that the plugin makes up for a cluster and keeps in a ConfigMap.
var clusterID = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

// internal asks the plugin for a balancer that only the network reaches.
var internal = map[string]string{"networking.gke.io/load-balancer-type": "Internal"}

type environment = compare.Environment[*compute.Cloud]

type step = compare.Step[*compute.Cloud]

func TestScenario(t *testing.T) {
	compare.Run(t, compare.Scenario[*compute.Cloud]{
		Provider: "gce",
		Open: func(t testing.TB) (*compute.Cloud, compare.Launch) {
			cloud := compute.New()
			t.Cleanup(cloud.Close)
			return cloud, cloud.Launch()
		},
		Reference: compare.Build(t, "./cmd/reference-ccm"),
		Mooring:   compare.BuildMooring(t, "k8s.io/cloud-provider-gcp/providers/gce"),
		Flags:     []string{"--node-monitor-period=1s", "--configure-cloud-routes=false"},
		// Mooring would not look after nodes that have just been made.
		MooringFlags: []string{"--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s"},
		Rights:       rights,
		Parallel:     true,
		// How often a node that is not ready is asked for depends on when, and Mooring asks twice before it deletes one.
		MoreCalls: map[string]string{"GET zones/instances": "a node is only deleted when its instance has been denied twice"},
		Intended:  append(compare.OfServices(), compare.OfLostNodes()...),
		Normalize: func(text string) string { return clusterID.ReplaceAllString(text, "<cluster>") },
		Steps:     steps(),
	})
}

func steps() []step {
	return []step{
		{Name: "nodes join", Act: join("a", "b", "c"), Until: initialized("a", "b", "c")},
		{Name: "a service", Act: createService("web", 30080, nil), Until: serviceReady("web")},
		{Name: "a second port", Act: addPort("web"), Until: holds("forwardingRules/", `"portRange": "80-443"`)},
		{Name: "an internal service", Act: createService("inside", 30081, internal),
			Until: serviceReady("inside")},
		{Name: "a node joins", Act: join("d"), Until: all(initialized("d"),
			holds("targetPools/", "instances/d"), holds("instanceGroups/", "instances/d"))},
		{Name: "an instance is stopped", Act: func(ctx context.Context, e *environment) error {
			return errors.Join(e.Cloud.StopInstance("b"), e.FallSilent(ctx, "b"))
		}},
		{Name: "an instance is deleted", Act: func(ctx context.Context, e *environment) error {
			return errors.Join(e.Cloud.DeleteInstance("d"), e.FallSilent(ctx, "d"))
		}, Until: all(nodeGone("d"), holdsNot("targetPools/", "instances/d"))},
		{Name: "the internal service is deleted", Act: deleteService("inside"), Until: serviceGone("inside")},
		{Name: "the service is deleted", Act: deleteService("web"), Until: serviceGone("web")},
	}
}

// join starts an instance for each node and registers the nodes. The zones take turns.
func join(names ...string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error {
		for _, name := range names {
			number := int(name[0] - 'a')
			e.Cloud.AddInstance(name, compute.Zones[number%len(compute.Zones)], "e2-standard-4",
				fmt.Sprintf("10.128.0.%d", 10+number), fmt.Sprintf("198.51.100.%d", 10+number))
			if err := e.Join(ctx, nodeagent.Options{Name: name}); err != nil {
				return err
			}
		}
		return nil
	}
}

func createService(name string, nodePort int32, annotations map[string]string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error {
		return e.CreateService(ctx, name, annotations, corev1.ServicePort{Name: "http", Port: 80, NodePort: nodePort})
	}
}

func addPort(name string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error {
		return e.EditService(ctx, name, func(service *corev1.Service) {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, NodePort: 30443})
		})
	}
}

func deleteService(name string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error { return e.DeleteService(ctx, name) }
}

func initialized(names ...string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error { return e.Initialized(ctx, names...) }
}

func serviceReady(name string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error { return e.ServiceReady(ctx, name) }
}

func serviceGone(name string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error { return e.ServiceGone(ctx, name) }
}

func nodeGone(name string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error { return e.NodeGone(ctx, name) }
}

func holds(path, content string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error { return e.Holds(ctx, path, content) }
}

func holdsNot(path, content string) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error {
		if e.Holds(ctx, path, content) == nil {
			return fmt.Errorf("a resource of %q still holds %q", path, content)
		}
		return nil
	}
}

func all(conditions ...func(context.Context, *environment) error) func(context.Context, *environment) error {
	return func(ctx context.Context, e *environment) error {
		var errs []error
		for _, condition := range conditions {
			errs = append(errs, condition(ctx, e))
		}
		return errors.Join(errs...)
	}
}
