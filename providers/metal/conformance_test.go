package metal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/conformance"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

// cloud is a provider of nothing but instances.
type cloud struct{ machines *Instances }

func (c cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (c cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c.machines, true }
func (c cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c cloud) ProviderName() string                                              { return "metal" }
func (c cloud) HasClusterID() bool                                                { return true }

// Capabilities are those of the machines, within the limits of the whole provider.
func (c cloud) Capabilities() provider.Capabilities {
	all := c.machines.Capabilities()
	all.Limits.InFlight = callsInFlight
	return all
}

// TestConformance holds instances to every rule that is about them.
func TestConformance(t *testing.T) {
	r := newRack(t, "first id: first")
	r.grid.set("first", power.On)
	created := 0
	hooks := conformance.Hooks{
		CreateInstance: func(ctx context.Context, name string) (conformance.Instance, error) {
			created++
			r.grid.set(name, power.On)
			err := r.set(ctx, name, fmt.Sprintf("{name: %s, machineType: big, zone: a, region: b, labels: {c: d}, addresses: ["+
				"{address: 10.1.%d.%d}, {address: 'fd00::%x'}, {type: ExternalIP, address: 192.0.2.1}]}", name, created/200, 1+created%200, created))
			return conformance.Instance{NodeName: types.NodeName(name), ProviderID: "metal://" + name}, err
		},
		StopInstance: func(_ context.Context, instance conformance.Instance) error {
			r.grid.set(string(instance.NodeName), power.Off)
			return nil
		},
		DeleteInstance: func(ctx context.Context, instance conformance.Instance) error {
			return r.set(ctx, string(instance.NodeName), "")
		},
		InjectFault: func(ctx context.Context, _ conformance.Fault) (func(), error) {
			err := os.WriteFile(r.list, []byte("machines: ["), 0o600)
			if r.source.Reload(ctx) == nil {
				err = errors.Join(err, errors.New("a broken list was taken"))
			}
			return func() { _ = errors.Join(r.write(), r.source.Reload(ctx)) }, err
		},
	}
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: cloud{r.Instances}, Hooks: hooks}, nil
	}
	var notRun []string
	conformance.Run(t, factory, conformance.Options{Progress: func(result conformance.Result) {
		if result.Outcome == conformance.NotRun {
			area, _, _ := strings.Cut(result.Rule.ID, "-")
			if area == "instances" { // one rule of them at most: a machine's provider ID is made of its name
				area = result.Rule.ID
			}
			notRun = append(notRun, area)
		}
	}})
	slices.Sort(notRun)
	if got, want := slices.Compact(notRun), []string{"balancer", "instances-name-reused", "legacy", "node", "routes", "zones"}; !slices.Equal(got, want) {
		t.Errorf("rules about %q were not run, want %q", got, want)
	}
}
