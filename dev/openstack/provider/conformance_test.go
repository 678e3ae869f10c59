package provider

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
	"github.com/mooring-ccm/mooring/dev/openstack/openstacktest"
	mooring "github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/conformance"
	provideropenstack "github.com/mooring-ccm/mooring/providers/openstack"
	"github.com/mooring-ccm/mooring/providers/openstack/config"
)

// fixture is a tenant, and the provider that is configured for it.
type fixture struct {
	tenancy
	clients  *openstack.Clients
	provider *provideropenstack.Cloud
}

func newFixture(t *testing.T, name string) *fixture {
	t.Helper()
	if os.Getenv(openstacktest.RequireVariable) != "1" {
		t.Skip("takes minutes: make test-openstack runs it")
	}
	f := &fixture{tenancy: newTenancy(t, name)}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	clients, err := f.cloud.Clients(ctx, f.tenant)
	must.NoError(t, err)
	f.clients = clients
	f.configure(t, "[Route]", "router-id="+f.environment.Router, "[LoadBalancer]", "enabled=false")
	return f
}

// configure makes the provider anew, with a cloud.conf that has more sections.
func (f *fixture) configure(t *testing.T, sections ...string) {
	t.Helper()
	source, err := config.Open(strings.NewReader(f.cloud.CloudConf(f.credentials, sections...)))
	if err != nil {
		t.Fatal(err)
	}
	f.provider = provideropenstack.New(source)
}

func serverOf(instance conformance.Instance) string {
	return strings.TrimPrefix(instance.ProviderID, "openstack:///")
}

func (f *fixture) hooks() conformance.Hooks {
	return conformance.Hooks{
		CreateInstance: func(ctx context.Context, name string) (conformance.Instance, error) {
			made, err := f.environment.CreateServers(ctx, openstack.ServerOptions{Names: []string{name}})
			if err != nil {
				return conformance.Instance{}, err
			}
			return conformance.Instance{NodeName: types.NodeName(name), ProviderID: "openstack:///" + made[0].ID}, nil
		},
		StopInstance: func(ctx context.Context, instance conformance.Instance) error {
			if err := servers.Stop(ctx, f.clients.Compute, serverOf(instance)).ExtractErr(); err != nil {
				return err
			}
			_, err := f.environment.AwaitServer(ctx, serverOf(instance), "SHUTOFF")
			return err
		},
		DeleteInstance: func(ctx context.Context, instance conformance.Instance) error {
			return f.environment.DeleteServers(ctx, serverOf(instance))
		},
		InjectFault: func(_ context.Context, fault conformance.Fault) (func(), error) {
			effects := map[conformance.Fault]httpfault.Effect{
				conformance.FaultError:    httpfault.Answer{Status: 500},
				conformance.FaultThrottle: httpfault.Answer{Status: 429, RetryAfter: 2 * time.Second},
				conformance.FaultHang:     httpfault.Hang,
			}
			return f.cloud.Faults().Inject(faultproxy.Fault{Effect: effects[fault]}), nil
		},
	}
}

// TestConformance tries the rules on the services.
func TestConformance(t *testing.T) {
	f := newFixture(t, "conformance")
	factory := func(context.Context) (*conformance.Subject, error) {
		return &conformance.Subject{Cloud: f.provider, Hooks: f.hooks()}, nil
	}
	var notRun []string
	options := conformance.Options{RuleTimeout: timeout, Progress: func(result conformance.Result) {
		if result.Outcome == conformance.NotRun {
			area, _, _ := strings.Cut(result.Rule.ID, "-")
			if area == "instances" || area == "routes" {
				area = result.Rule.ID
			}
			notRun = append(notRun, area)
		}
	}}
	t.Run("Join", f.join)
	conformance.Run(t, factory, options)
	slices.Sort(notRun)
	want := []string{"balancer", "legacy", "node", "routes-other-cluster", "watch", "zones"}
	if got := slices.Compact(notRun); !slices.Equal(got, want) {
		t.Errorf("rules about %q were not run, want %q", got, want)
	}
}

// join lists twelve servers by two calls.
func (f *fixture) join(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("worker-%d", i))
	}
	made, err := f.environment.CreateServers(ctx, openstack.ServerOptions{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	f.list(ctx, t) // logs in, and finds the services
	f.cloud.Faults().Reset()
	found := f.list(ctx, t)
	if calls := faultproxy.Count(f.cloud.Faults().Calls()); calls.Total() != 2 {
		t.Errorf("%d calls for a list of %d servers:\n%s", calls.Total(), len(found), calls)
	}
	for _, server := range made {
		instance, listed := found["openstack:///"+server.ID]
		if !listed || string(instance.NodeName) != server.Name || instance.State != mooring.InstanceRunning || len(instance.NodeAddresses) < 2 ||
			instance.InstanceType == "" || !slices.Contains(f.cloud.Zones(), instance.Zone) || instance.Region != f.cloud.Region() {
			t.Errorf("server %s is listed as %+v", server.Name, instance)
		}
	}
}

// list lists the servers of the project, by their provider IDs.
func (f *fixture) list(ctx context.Context, t *testing.T) map[string]mooring.Instance {
	t.Helper()
	found := map[string]mooring.Instance{}
	err := mooring.CapabilitiesOf(f.provider).ListInstances(ctx, func(page []mooring.Instance) error {
		for _, instance := range page {
			found[instance.ProviderID] = instance
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
