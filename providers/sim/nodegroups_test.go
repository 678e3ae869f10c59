package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const groupsConfig = `
nodeGroups:
- name: workers
  minSize: 1
  maxSize: 4
  zone: sim-1b
  machineType: sim.medium
  network: 10.20.0.0/24
  labels: {disk: fast}
  taints: [{key: dedicated, value: batch, effect: NoSchedule}]
  options: {scaleDownUnneededTime: 1m, maxNodeProvisionTime: 5m, scaleDownUtilizationThreshold: 0.3}
- {name: others, maxSize: 2, zone: sim-1a, machineType: sim.small, network: 10.21.0.0/24}
`

// grouped returns a simulated cloud and the node groups of groupsConfig in it.
func grouped(t *testing.T, knobs api.Knobs) (*simtest.Cloud, provider.NodeGroups) {
	t.Helper()
	simulated := simtest.Start(t, cloudsim.Options{Knobs: knobs})
	config, err := ReadConfig(strings.NewReader(fmt.Sprintf("apiVersion: %s\nkind: %s\nendpoint: %s\ntokenFile: %s\nregion: sim-1\nclusterName: blue%s",
		ConfigAPIVersion, ConfigKind, simulated.URL, simulated.TokenFile, groupsConfig)))
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return simulated, cloud.Capabilities().NodeGroups
}

// What the config says of a group is what the autoscaler learns of it.
func TestNodeGroupsOfTheConfig(t *testing.T) {
	_, groups := grouped(t, api.Knobs{})
	all, err := groups.ListNodeGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unneeded, provision, threshold := time.Minute, 5*time.Minute, 0.3
	want := []provider.NodeGroup{
		{ID: "workers", Min: 1, Max: 4, Description: "sim.medium in sim-1b, 1 to 4", Options: provider.NodeGroupOptions{
			ScaleDownUnneededTime: &unneeded, MaxNodeProvisionTime: &provision, ScaleDownUtilizationThreshold: &threshold,
		}},
		{ID: "others", Max: 2, Description: "sim.small in sim-1a, 0 to 2"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	template, err := groups.NodeGroupTemplate(t.Context(), "workers")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{
		"disk": "fast", "sim.mooring.dev/node-group": "workers", "sim.mooring.dev/cluster": "blue", v1.LabelHostname: "workers-template",
		v1.LabelInstanceTypeStable: "sim.medium", v1.LabelTopologyZone: "sim-1b", v1.LabelTopologyRegion: "sim-1",
	}
	if diff := cmp.Diff(labels, template.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	taints := []v1.Taint{{Key: "dedicated", Value: "batch", Effect: v1.TaintEffectNoSchedule}}
	if diff := cmp.Diff(taints, template.Spec.Taints); diff != "" || template.Status.Allocatable.Cpu().Value() != 4 || template.Status.Allocatable.Memory().Value() != 16<<30 {
		t.Errorf("%v, taints (-want +got):\n%s", template.Status.Allocatable, diff)
	}
}

// An instance of a group has an address of its own, the group's labels, and passes through its states. One that fails says why, and
// is taken back first.
func TestInstancesOfAGroup(t *testing.T) {
	simulated, groups := grouped(t, api.Knobs{InstanceDelay: metav1.Duration{Duration: time.Hour}})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(groups.IncreaseNodeGroup(ctx, "workers", 2))
	must(simulated.Service.SetKnobs(api.Knobs{}))
	must(simulated.Service.AddFault(api.Fault{Operation: api.OpCreateInstance, Mode: api.FaultAsync, Count: 1}))
	must(groups.IncreaseNodeGroup(ctx, "workers", 1))
	must(groups.IncreaseNodeGroup(ctx, "workers", 1))
	status, err := groups.NodeGroupStatus(ctx, "workers")
	must(err)
	creating, running := provider.NodeGroupInstanceCreating, provider.NodeGroupInstanceRunning
	var states []provider.NodeGroupInstanceState
	for i, instance := range status.Instances {
		states = append(states, instance.State)
		if failed := instance.Error != nil && instance.Error.OutOfResources && instance.Error.Code != ""; failed != (i == 2) {
			t.Errorf("instance %d has the error %+v", i, instance.Error)
		}
	}
	if diff := cmp.Diff([]provider.NodeGroupInstanceState{creating, creating, creating, running}, states); diff != "" || status.TargetSize != 4 {
		t.Errorf("target size %d, states (-want +got):\n%s", status.TargetSize, diff)
	}
	for i, instance := range simulated.Service.Instances() {
		if want := fmt.Sprintf("10.20.0.%d", i+1); instance.Addresses[1].Address != want || instance.Labels["disk"] != "fast" || !strings.HasPrefix(instance.Name, "workers-") {
			t.Errorf("instance %+v, want the address %s", instance.InstanceSpec, want)
		}
	}
	if err := groups.DecreaseNodeGroupTarget(ctx, "workers", 4); !errors.Is(err, provider.ErrNodeGroupSize) {
		t.Errorf("a decrease by one that runs: %v", err)
	}
	must(groups.DecreaseNodeGroupTarget(ctx, "workers", 1))
	if status, err = groups.NodeGroupStatus(ctx, "workers"); err != nil || status.TargetSize != 3 || status.Instances[2].State != running {
		t.Errorf("after one was taken back: %+v %v", status, err)
	}
	if status, err = groups.NodeGroupStatus(ctx, "others"); err != nil || status.TargetSize != 0 || len(status.Instances) != 0 {
		t.Errorf("the other group: %+v %v", status, err)
	}
}

// Lists of the cloud lag behind. What this process has created and deleted counts at once all the same: a target size that lags would
// have the autoscaler make more.
func TestNodeGroupsWhileListsLag(t *testing.T) {
	_, groups := grouped(t, api.Knobs{ListLag: metav1.Duration{Duration: time.Hour}})
	ctx := t.Context()
	for size := 1; size <= 4; size++ {
		if err := groups.IncreaseNodeGroup(ctx, "workers", 1); err != nil {
			t.Fatal(err)
		}
		if status, err := groups.NodeGroupStatus(ctx, "workers"); err != nil || status.TargetSize != size {
			t.Fatalf("after %d: %+v %v", size, status, err)
		}
	}
	if err := groups.IncreaseNodeGroup(ctx, "workers", 1); !errors.Is(err, provider.ErrNodeGroupSize) {
		t.Errorf("beyond the maximum: %v", err)
	}
	status, err := groups.NodeGroupStatus(ctx, "workers")
	if err != nil {
		t.Fatal(err)
	}
	if err := groups.DeleteNodeGroupInstances(ctx, "workers", []string{status.Instances[0].ProviderID, status.Instances[1].ProviderID}); err != nil {
		t.Fatal(err)
	}
	if status, err := groups.NodeGroupStatus(ctx, "workers"); err != nil || status.TargetSize != 2 {
		t.Errorf("after the deletion: %+v %v", status, err)
	}
}
