package cloudsim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

func TestReadSeed(t *testing.T) {
	seed, errs := cloudsim.ReadSeed([]byte(`
apiVersion: sim.mooring.dev/v1alpha1
kind: Seed
zones:
- {name: moon-1, region: moon}
instances:
- name: apollo
  zone: moon-1
  machineType: sim.small
  addresses:
  - {type: InternalIP, address: "2001:db8::11"}
`))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	cloud := simtest.Start(t, cloudsim.Options{Seed: seed})
	got, err := cloud.Client.GetInstanceByName(t.Context(), "apollo")
	if err != nil {
		t.Fatal(err)
	}
	if got.Region != "moon" || got.Addresses[0].Family != api.IPv6 || got.State != api.InstanceRunning {
		t.Errorf("seeded instance: %+v", got)
	}
}

func TestSeedErrorsAllAtOnce(t *testing.T) {
	_, errs := cloudsim.ReadSeed([]byte(`
apiVersion: v2
kind: Seed
zones: [{name: a, region: r}, {name: a, region: R}]
machineTypes: [{name: tiny}]
instances:
- {name: one, zone: b, machineType: tiny}
- {name: one, zone: a, machineType: tiny}
`))
	got := []string{}
	for _, e := range errs {
		got = append(got, e.Error())
	}
	want := []string{
		`apiVersion: Unsupported value: "v2": supported values: "sim.mooring.dev/v1alpha1"`,
		`zones[1].name: Duplicate value: "a"`,
		`zones[1].region: Invalid value: "R": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`machineTypes[0].cpus: Invalid value: 0: must be at least 1`,
		`machineTypes[0].memoryMiB: Invalid value: 0: must be at least 1`,
		`instances[1].name: Duplicate value: "one"`,
		`instances[0].zone: Invalid value: "b": must be one of a`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
