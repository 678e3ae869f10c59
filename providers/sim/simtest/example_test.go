package simtest_test

import (
	"testing"

	cloudprovider "k8s.io/cloud-provider"

	_ "github.com/mooring-ccm/mooring/providers/sim" // registers the provider "sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// TestStart starts a cloud, puts an instance into it and has the cloud's config for a program, such as a manager that a test starts.
func TestStart(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{})
	created := cloud.Create(t, api.InstanceSpec{Name: "node-1", Zone: "sim-1a", MachineType: "sim.small"})
	found, err := cloud.Client.GetInstanceByName(t.Context(), "node-1")
	if err != nil || found.ID != created.ID || !cloudprovider.IsCloudProvider("sim") {
		t.Errorf("%+v %v", found, err)
	}
	t.Logf("--cloud-provider=sim --cloud-config=%s", cloud.ConfigFile)
}

func ExampleStart() {
	_ = func(t *testing.T) {
		cloud := simtest.Start(t, cloudsim.Options{})
		cloud.Create(t, api.InstanceSpec{Name: "node-1", Zone: "sim-1a", MachineType: "sim.small"})
		t.Logf("--cloud-provider=sim --cloud-config=%s", cloud.ConfigFile)
	}
}
