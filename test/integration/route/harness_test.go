package route_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/route"
	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/service"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	// deadline bounds every wait; nothing here takes more than a few seconds.
	deadline = time.Minute
	// never is a period that no test lives to see the end of.
	never = 24 * time.Hour
	// often is a period for tests that wait for a comparison.
	often = 200 * time.Millisecond
	// account is the ServiceAccount that the shipped rights are bound to.
	account = "cloud-controller-manager"
	user    = "system:serviceaccount:kube-system:" + account
)

// clusterCIDRs are the ranges of the pods.
var clusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}

// options say how a manager under test is made. Only Cloud is required.
type options struct {
	Cloud             cloudprovider.Interface
	Period, MaxPeriod time.Duration // zero: often
	Patience          time.Duration
	Writes            int
	Cache             cache.Options
	Schemes           []string
}

// manager is a cloud controller manager that runs nothing but the route controller.
type manager struct {
	registry *prometheus.Registry
	stop     func()
}

// start runs the route controller until the test ends, with the rights that ship and nothing else.
func start(t *testing.T, o options) *manager {
	t.Helper()
	m := &manager{registry: prometheus.NewRegistry()}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", account)
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running := m.assemble(t, ctx, config, o)
	ended := make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	t.Cleanup(m.stop)
	return m
}

func (m *manager) assemble(t *testing.T, ctx context.Context, config *rest.Config, o options) ctrl.Manager {
	t.Helper()
	log := testLogger(t)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}, Cache: o.Cache,
	})
	must(t, err)
	if o.Period == 0 {
		o.Period, o.MaxPeriod = often, often
	}
	decorated := cloud.Decorate(o.Cloud, cloud.Options{Registerer: m.registry})
	controller, err := route.New(route.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Recorder: recorder(t, ctx, config),
		Cloud: decorated, Inventory: inventory.New(inventory.Options{Cloud: decorated, Registerer: m.registry}),
		Ownership:   ownership.Rules{ProviderName: o.Cloud.ProviderName(), Schemes: provider.CapabilitiesOf(o.Cloud).ProviderIDSchemes},
		ClusterName: simtest.ClusterName, ClusterCIDRs: clusterCIDRs, Period: o.Period, MaxPeriod: o.MaxPeriod, Patience: o.Patience,
		Writes: o.Writes, Registerer: m.registry, Logger: log,
	})
	must(t, err)
	must(t, mgr.Add(controller))
	return mgr
}

// recorder writes events with the rights of the manager.
func recorder(t *testing.T, ctx context.Context, config *rest.Config) record.EventRecorder {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	t.Cleanup(broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: route.Name})
}

// testLogger logs to the test's output with MOORING_TEST_LOGS=1, and nowhere without.
func testLogger(t *testing.T) logr.Logger {
	if os.Getenv("MOORING_TEST_LOGS") == "" {
		return logr.Discard()
	}
	return testr.NewWithOptions(t, testr.Options{Verbosity: 1})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// metric returns the sum of a metric over all labels that match.
func (m *manager) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	must(t, err)
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.Metric {
			has := map[string]string{}
			for _, label := range metric.Label {
				has[label.GetName()] = label.GetValue()
			}
			matches := true
			for pair := range slices.Chunk(labels, 2) {
				matches = matches && has[pair[0]] == pair[1]
			}
			if matches {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return total
}

// passes returns how often the routes were compared with the nodes.
func (m *manager) passes(t testing.TB) int {
	return int(m.metric(t, "route_controller_route_sync_total"))
}

// settled waits for two more comparisons: what the state of things asks for has been decided and done then.
func (m *manager) settled(t testing.TB) {
	t.Helper()
	want := m.passes(t) + 2
	eventually(t, "two more comparisons", func(context.Context) error {
		if got := m.passes(t); got < want {
			return fmt.Errorf("%d comparisons, want %d", got, want)
		}
		return nil
	})
}

// simulated starts the simulated cloud and returns it with the provider that speaks to it.
func simulated(t *testing.T, o service.Options, edits ...func(*sim.Config)) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	running := simtest.Start(t, o)
	file, err := os.Open(running.ConfigFile)
	must(t, err)
	defer file.Close()
	config, err := sim.ReadConfig(file)
	must(t, err)
	for _, edit := range edits {
		edit(&config)
	}
	provider, err := sim.New(config)
	must(t, err)
	stop := make(chan struct{})
	provider.Initialize(nil, stop)
	t.Cleanup(func() { close(stop) })
	return running, provider
}

// eventually polls until problem returns none, and fails with the last one when that does not happen.
func eventually(t testing.TB, what string, problem func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := problem(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// table returns the routes of a cluster as "CIDR by target", sorted; those without a target are "CIDR by -".
func table(t testing.TB, cloud *simtest.Cloud, clusterName string) []string {
	t.Helper()
	lines := []string{}
	must(t, cloud.Client.ListRoutes(t.Context(), clusterName, func(page []api.Route) error {
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
	eventually(t, "the cluster's routes", func(context.Context) error {
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
	must(t, err)
	spec := api.RouteSpec{Cluster: clusterName, DestinationCIDR: cidr, TargetInstance: instance.ID}
	made, err := cloud.Client.CreateRoute(t.Context(), spec)
	must(t, err)
	return made
}

// changes returns how often each operation that changes routes was called.
func changes(cloud *simtest.Cloud) (creates, replacements, deletes int64) {
	counts := cloud.Service.Counts()
	return counts.Received(api.OpCreateRoute), counts.Received(api.OpReplaceRoute), counts.Received(api.OpDeleteRoute)
}
