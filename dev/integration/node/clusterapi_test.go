package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// nodeOf finds the node of a Machine as Cluster API does. The node is the only one with exactly the provider ID of the Machine (getNode in
// core/reconcilers/machine/machine_controller_noderef.go of kubernetes-sigs/cluster-api).
func nodeOf(ctx context.Context, providerID string) (*corev1.Node, error) {
	nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found *corev1.Node
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID != providerID {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("the nodes %s and %s both have the provider ID %s", found.Name, nodes.Items[i].Name, providerID)
		}
		found = &nodes.Items[i]
	}
	if found == nil {
		return nil, fmt.Errorf("no node has the provider ID %s", providerID)
	}
	return found, nil
}

// inventory is the provider metal with the machines n1, n2 and n3.
func inventory(t *testing.T) cloudprovider.Interface {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: metal.mooring.dev/v1alpha1\nkind: MetalCloudConfig\ninventory:\n  machines:\n")
	for i := 1; i <= 3; i++ {
		fmt.Fprintf(&text, "  - {name: n%d, id: serial-%d, zone: rack-%d, addresses: [{address: 10.0.0.%d}]}\n", i, i, i, i)
	}
	source, err := config.Open(strings.NewReader(text.String()))
	must.NoError(t, err)
	rack, err := metal.New(source)
	must.NoError(t, err)
	return rack
}

// TestMachinesOfClusterAPIFindTheirNodes has nodes join as the templates of infrastructure providers of Cluster API have them do, with a provider ID
// from the kubelet or from this manager.
func TestMachinesOfClusterAPIFindTheirNodes(t *testing.T) {
	for name, test := range map[string]struct {
		cloud func(*testing.T) cloudprovider.Interface
		// joining are nodes by the provider IDs of their Machines.
		joining map[string]nodeagent.Options
	}{
		"sim": {
			func(t *testing.T) cloudprovider.Interface {
				_, simulated := harness.Simulate(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})
				return simulated
			},
			map[string]nodeagent.Options{
				"sim://i-00000001": {Name: "node-001"},
				"sim://i-00000002": {Name: "node-002", ProviderID: "sim://i-00000002"},
				"sim://i-00000003": {Name: "renamed", ProviderID: "sim://i-00000003"},
			},
		},
		"metal": {inventory, map[string]nodeagent.Options{
			"metal://serial-1": {Name: "n1"},
			"metal://serial-2": {Name: "n2", ProviderID: "metal://serial-2"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, options{Cloud: test.cloud(t)})
			for _, agent := range test.joining {
				join(t, agent)
			}
			for id, agent := range test.joining {
				poll.Until(t, "the Machine "+id+" has an initialized node", func(ctx context.Context) error {
					node, err := nodeOf(ctx, id)
					switch {
					case err != nil:
						return err
					case node.Name != agent.Name:
						return fmt.Errorf("it has the node %s, want %s", node.Name, agent.Name)
					case node.Labels[corev1.LabelTopologyZone] == "":
						return errors.New("the node has no zone")
					}
					return nil
				})
			}
		})
	}
}

// TestNodesOfAnotherInfrastructureProviderAreLeftAlone has a node join whose provider ID Metal3 has written, although the inventory has a machine of
// its name: what Cluster API finds it by stays, and nothing else is written either, also at a refresh.
func TestNodesOfAnotherInfrastructureProviderAreLeftAlone(t *testing.T) {
	const theirs = "metal3://metal3/host-3/workers-3"
	join(t, nodeagent.Options{Name: "n3", ProviderID: theirs})
	before, err := nodeOf(t.Context(), theirs)
	must.NoError(t, err)
	start(t, options{Cloud: inventory(t), Refresh: 100 * time.Millisecond})
	join(t, named("n1"))
	initialized := func(what string) {
		poll.Until(t, what, func(ctx context.Context) error {
			node, err := nodeOf(ctx, "metal://serial-1")
			if err == nil && node.Labels[corev1.LabelTopologyZone] != "rack-1" {
				err = fmt.Errorf("its labels are %v", node.Labels)
			}
			return err
		})
	}
	initialized("a node of the rack is initialized")
	_, err = admin.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"topology.kubernetes.io/zone": "elsewhere"}}}`), metav1.PatchOptions{})
	must.NoError(t, err)
	initialized("a refresh has compared all nodes")
	after, err := nodeOf(t.Context(), theirs)
	must.NoError(t, err)
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the node of Metal3 was written: %+v", after.ManagedFields)
	}
	events, err := admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=n3"})
	must.NoError(t, err)
	for _, event := range events.Items {
		t.Errorf("the node of Metal3 has an event: %s %s", event.Reason, event.Message)
	}
	for _, taint := range after.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return
		}
	}
	t.Errorf("taints %v, want the taint of the kubelet's flag, which another manager removes", after.Spec.Taints)
}
