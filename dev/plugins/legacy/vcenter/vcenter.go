package vcenter

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/mooring-ccm/mooring/dev/plugins/compare"
)

const (
	// Datacenter is the name of the one datacenter.
	Datacenter = "DC0"
	// Host is what the plugin calls the vCenter.
	Host = "127.0.0.1"
	// User and Password are the only ones that may log in.
	User, Password = "cloud-controller", "a-password-of-the-simulator"
)

// VCenter is a simulated vCenter with a few virtual machines.
type VCenter struct {
	client   *govmomi.Client
	machines map[string]*object.VirtualMachine // by name
	endpoint *endpoint
}

// Start starts a vCenter that ends with the test. Simulator is the program vcsim.
func Start(t testing.TB, simulator string) *VCenter {
	t.Helper()
	v, err := open(t, simulator)
	if err != nil {
		t.Fatalf("start the simulated vCenter: %v", err)
	}
	return v
}

func open(t testing.TB, simulator string) (*VCenter, error) {
	simulated, err := startSimulator(t, simulator)
	if err != nil {
		return nil, err
	}
	ctx := t.Context()
	v := &VCenter{machines: map[string]*object.VirtualMachine{}}
	if v.client, err = govmomi.NewClient(ctx, simulated, true); err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	t.Cleanup(v.client.CloseIdleConnections)
	finder := find.NewFinder(v.client.Client)
	all, err := finder.VirtualMachineList(ctx, "/"+Datacenter+"/vm/*")
	if err != nil {
		return nil, err
	}
	for number, machine := range all {
		v.machines[machine.Name()] = machine
		if err := v.giveAddress(ctx, machine, fmt.Sprintf("10.20.0.%d", 10+number)); err != nil {
			return nil, fmt.Errorf("give an address to %s: %w", machine.Name(), err)
		}
	}
	if err := v.tag(ctx); err != nil {
		return nil, fmt.Errorf("tag regions and zones: %w", err)
	}
	v.endpoint = newEndpoint(t, simulated)
	return v, nil
}

// giveAddress has the simulator report an address from inside a machine, as VMware's tools do.
func (v *VCenter) giveAddress(ctx context.Context, machine *object.VirtualMachine, address string) error {
	task, err := machine.Reconfigure(ctx, types.VirtualMachineConfigSpec{
		ExtraConfig: []types.BaseOptionValue{&types.OptionValue{Key: "SET.guest.ipAddress", Value: address}},
	})
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// UUID returns the BIOS UUID of a machine, which its kubelet makes the provider ID of.
func (v *VCenter) UUID(ctx context.Context, name string) (string, error) {
	var found mo.VirtualMachine
	err := v.machines[name].Properties(ctx, v.machines[name].Reference(), []string{"config.uuid"}, &found)
	if err != nil {
		return "", fmt.Errorf("ask for the UUID of %s: %w", name, err)
	}
	return found.Config.Uuid, nil
}

// PowerOff switches a machine off.
func (v *VCenter) PowerOff(ctx context.Context, name string) error {
	task, err := v.machines[name].PowerOff(ctx)
	if err != nil {
		return fmt.Errorf("power %s off: %w", name, err)
	}
	return task.Wait(ctx)
}

// PowerOn switches a machine on.
func (v *VCenter) PowerOn(ctx context.Context, name string) error {
	task, err := v.machines[name].PowerOn(ctx)
	if err != nil {
		return fmt.Errorf("power %s on: %w", name, err)
	}
	return task.Wait(ctx)
}

// Destroy switches a machine off and deletes it.
func (v *VCenter) Destroy(ctx context.Context, name string) error {
	if err := v.PowerOff(ctx, name); err != nil {
		return err
	}
	task, err := v.machines[name].Destroy(ctx)
	if err != nil {
		return fmt.Errorf("destroy %s: %w", name, err)
	}
	return task.Wait(ctx)
}

// Observe implements compare.Cloud.
func (v *VCenter) Observe(ctx context.Context) (compare.Observation, error) {
	states, err := v.powerStates(ctx)
	if err != nil {
		return compare.Observation{}, fmt.Errorf("ask for the machines: %w", err)
	}
	observation := compare.Observation{State: map[string]string{}}
	for name, state := range states {
		observation.State["machine/"+name] = state
	}
	observation.Calls, observation.Problems = v.endpoint.seen()
	return observation, nil
}

func (v *VCenter) powerStates(ctx context.Context) (map[string]string, error) {
	finder := find.NewFinder(v.client.Client)
	all, err := finder.VirtualMachineList(ctx, path.Join("/", Datacenter, "vm", "*"))
	if err != nil {
		return nil, err
	}
	var references []types.ManagedObjectReference
	for _, machine := range all {
		references = append(references, machine.Reference())
	}
	var machines []mo.VirtualMachine
	err = property.DefaultCollector(v.client.Client).Retrieve(ctx, references, []string{"name", "runtime.powerState"}, &machines)
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for _, machine := range machines {
		states[machine.Name] = strings.ToLower(string(machine.Runtime.PowerState))
	}
	return states, nil
}
