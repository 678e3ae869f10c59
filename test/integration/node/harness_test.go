package node_test

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
	"github.com/mooring-ccm/mooring/localcluster/nodeagent"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/service"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	// deadline bounds every wait; nothing here takes more than a few seconds.
	deadline = time.Minute
	// never is a refresh interval that no test lives to see.
	never = 24 * time.Hour
	// account is the ServiceAccount that the shipped rights are bound to.
	account = "cloud-controller-manager"
)

// options say how a manager under test is made. Only Cloud is required.
type options struct {
	Cloud     cloudprovider.Interface
	Refresh   time.Duration   // zero: never
	Rules     ownership.Rules // the provider's name and schemes are filled in
	Pool      string          // not empty: only nodes of this pool are the manager's, see inPool
	Account   string          // empty: the one that the shipped rights are bound to
	Transport func(http.RoundTripper) http.RoundTripper
	Calls     cloud.Options
	Workers   int
	Inventory *inventory.Inventory // nil: one that has not asked the cloud anything yet
}

// manager is a cloud controller manager that runs nothing but the node controller.
type manager struct {
	registry *prometheus.Registry
	user     string
	since    int // how many requests the API server had answered when it started
	stop     func()
}

// start runs the node controller until the test ends, with the rights that ship and nothing else.
func start(t *testing.T, o options) *manager {
	t.Helper()
	if o.Account == "" {
		o.Account = account
	}
	before, err := cluster.AuditEvents()
	must(t, err)
	m := &manager{registry: prometheus.NewRegistry(), user: "system:serviceaccount:kube-system:" + o.Account, since: len(before)}
	config := configOf(t, o.Account)
	if o.Transport != nil {
		config.Wrap(o.Transport)
	}
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

// accounts are the client configurations of ServiceAccounts. Tests that run side by side share them.
var accounts = struct {
	sync.Mutex
	configs map[string]*rest.Config
}{configs: map[string]*rest.Config{}}

// configOf returns a client configuration with the rights of a ServiceAccount in kube-system. It does not throttle.
func configOf(t *testing.T, account string) *rest.Config {
	t.Helper()
	accounts.Lock()
	defer accounts.Unlock()
	if accounts.configs[account] == nil {
		kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", account)
		must(t, err)
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		must(t, err)
		config.QPS = -1
		accounts.configs[account] = config
	}
	return rest.CopyConfig(accounts.configs[account])
}

func (m *manager) assemble(t *testing.T, ctx context.Context, config *rest.Config, o options) ctrl.Manager {
	t.Helper()
	log := testLogger(t)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(t, err)
	decorated := cloud.Decorate(o.Cloud, o.Calls)
	if o.Pool != "" {
		o.Rules.Selector = labels.SelectorFromSet(labels.Set{"pool": o.Pool})
	}
	o.Rules.ProviderName = o.Cloud.ProviderName()
	o.Rules.Schemes = append(o.Rules.Schemes, provider.CapabilitiesOf(o.Cloud).ProviderIDSchemes...)
	if o.Refresh == 0 {
		o.Refresh = never
	}
	if o.Inventory == nil {
		o.Inventory = inventory.New(inventory.Options{Cloud: decorated, Registerer: m.registry})
	}
	controller, err := node.New(node.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Recorder: recorder(t, ctx, config),
		Inventory: o.Inventory,
		Ownership: o.Rules, StatusUpdateFrequency: o.Refresh, Workers: o.Workers, Registerer: m.registry, Logger: log,
	})
	must(t, err)
	must(t, mgr.Add(controller))
	return mgr
}

// recorder writes events with the rights of the manager.
func recorder(t *testing.T, ctx context.Context, config *rest.Config) record.EventRecorder {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("")})
	t.Cleanup(broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: node.Name})
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

// metric returns the sum of a metric over all labels that match; of a histogram, the number of observations.
func (m *manager) metric(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	return sumOf(t, m.registry, name, labels...)
}

func sumOf(t testing.TB, gatherer prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := gatherer.Gather()
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
			if matchesAll(has, labels) {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}

func matchesAll(has map[string]string, keysAndValues []string) bool {
	for pair := range slices.Chunk(keysAndValues, 2) {
		if has[pair[0]] != pair[1] {
			return false
		}
	}
	return true
}

// simulated starts the simulated cloud and returns it with the provider that speaks to it.
func simulated(t *testing.T, o service.Options) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	running := simtest.Start(t, o)
	file, err := os.Open(running.ConfigFile)
	must(t, err)
	defer file.Close()
	config, err := sim.ReadConfig(file)
	must(t, err)
	provider, err := sim.New(config)
	must(t, err)
	stop := make(chan struct{})
	provider.Initialize(nil, stop)
	t.Cleanup(func() { close(stop) })
	return running, provider
}

// join registers nodes as kubelets with an external cloud provider do, and deletes them when the test ends.
func join(t *testing.T, joining ...nodeagent.Options) {
	t.Helper()
	t.Cleanup(func() { deleteNodes(t, joining) })
	var group errgroup.Group
	group.SetLimit(16)
	for _, o := range joining {
		agent, err := nodeagent.New(cluster.AdminConfig(), o)
		must(t, err)
		group.Go(func() error { return agent.Register(t.Context()) })
	}
	must(t, group.Wait())
}

func deleteNodes(t *testing.T, joined []nodeagent.Options) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), deadline)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(16)
	for _, o := range joined {
		group.Go(func() error {
			return client.IgnoreNotFound(admin.CoreV1().Nodes().Delete(ctx, o.Name, metav1.DeleteOptions{}))
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func named(name string) nodeagent.Options { return nodeagent.Options{Name: name} }

// inPool puts a node into a pool, so that tests whose managers have different pools can run side by side.
func inPool(pool string, o nodeagent.Options) nodeagent.Options {
	o.Labels = map[string]string{"pool": pool}
	return o
}

// seedOf is the default seed with names of a pool's own: "POOL-node-001".
func seedOf(pool string, instances int) *api.Seed {
	seed := service.DefaultSeed(instances)
	for i := range seed.Instances {
		seed.Instances[i].Name = pool + "-" + seed.Instances[i].Name
	}
	return seed
}

func ips(addresses ...string) []netip.Addr {
	parsed := make([]netip.Addr, len(addresses))
	for i, address := range addresses {
		parsed[i] = netip.MustParseAddr(address)
	}
	return parsed
}
