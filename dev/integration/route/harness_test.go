package route_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/route"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// user is who the shipped rights are for.
var user = managers.Mooring.User()

const (
	// never is a period that no test lives to see the end of.
	never = 24 * time.Hour
	// often is a period for tests that wait for a comparison.
	often = 200 * time.Millisecond
)

// clusterCIDRs are the ranges of the pods.
var clusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}

// options say how a manager under test is made. Only Cloud is required.
type options struct {
	Cloud    cloudprovider.Interface
	Period   time.Duration // zero: often
	Patience time.Duration
	Writes   int
	Cache    cache.Options
	Schemes  []string
}

// manager is a cloud controller manager that runs nothing but the route controller.
type manager struct{ *harness.Manager }

// start runs the route controller until the test ends, with the rights that ship and nothing else.
func start(t *testing.T, o options) manager {
	t.Helper()
	return manager{harness.Start(t, harness.Options{Cluster: cluster, Cache: o.Cache, Component: route.Name, Build: o.build})}
}

// build makes the controller.
func (o options) build(parts harness.Parts) (ctrl.Runnable, error) {
	if o.Period == 0 {
		o.Period = often
	}
	decorated := cloud.Decorate(o.Cloud, cloud.Options{Registerer: parts.Registry})
	rules := ownership.Rules{ProviderName: o.Cloud.ProviderName(), Schemes: provider.CapabilitiesOf(o.Cloud).ProviderIDSchemes}
	return route.New(route.Options{
		Client: parts.GetClient(), Live: parts.GetAPIReader(), Cache: parts.GetCache(), Recorder: parts.Recorder, Cloud: decorated,
		Owners:      rules,
		ClusterName: simtest.ClusterName, ClusterCIDRs: clusterCIDRs, Period: o.Period, Patience: o.Patience,
		Writes: o.Writes, Registerer: parts.Registry, Logger: parts.Logger,
	})
}

// passes returns how often the routes were compared with the nodes.
func (m manager) passes(t testing.TB) int {
	return int(m.Metric(t, "route_controller_route_sync_total"))
}

// settled waits for two more comparisons: what the state of things asks for has been decided and done then.
func (m manager) settled(t testing.TB) {
	t.Helper()
	want := m.passes(t) + 2
	poll.Until(t, "two more comparisons", func(context.Context) error {
		if got := m.passes(t); got < want {
			return fmt.Errorf("%d comparisons, want %d", got, want)
		}
		return nil
	})
}

// table returns the routes of a cluster as "CIDR by target", sorted; those without a target are "CIDR by -".
func table(t testing.TB, cloud *simtest.Cloud, clusterName string) []string {
	t.Helper()
	lines := []string{}
	must.NoError(t, cloud.Client.ListRoutes(t.Context(), clusterName, func(page []api.Route) error {
		for _, r := range page {
			target := r.TargetName
			if r.Blackhole {
				target = "-"
			}
			lines = append(lines, r.DestinationCIDR+" by "+target)
		}
		return nil
	}))
	slices.Sort(lines)
	return lines
}

// waitForTable polls until the cluster's routes are as given.
func waitForTable(t testing.TB, cloud *simtest.Cloud, want ...string) {
	t.Helper()
	poll.Until(t, "the cluster's routes", func(context.Context) error {
		if got := table(t, cloud, simtest.ClusterName); !slices.Equal(got, want) {
			return fmt.Errorf("they are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
		return nil
	})
}

// addRoute makes a route that the controller has not made.
func addRoute(t testing.TB, cloud *simtest.Cloud, clusterName, cidr, target string) *api.Route {
	t.Helper()
	instance, err := cloud.Client.GetInstanceByName(t.Context(), target)
	must.NoError(t, err)
	spec := api.RouteSpec{Cluster: clusterName, DestinationCIDR: cidr, TargetInstance: instance.ID}
	made, err := cloud.Client.CreateRoute(t.Context(), spec)
	must.NoError(t, err)
	return made
}

// changes returns how often each operation that changes routes was called.
func changes(cloud *simtest.Cloud) (creates, replacements, deletes int64) {
	counts := cloud.Service.Counts()
	return counts.Received(api.OpCreateRoute), counts.Received(api.OpReplaceRoute), counts.Received(api.OpDeleteRoute)
}
