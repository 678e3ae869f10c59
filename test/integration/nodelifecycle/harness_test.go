package nodelifecycle_test

import (
	"context"
	"fmt"
	"net/http"
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
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/service"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	// deadline bounds every wait; nothing here takes more than a few seconds.
	deadline = time.Minute
	// period is the time between two passes.
	period = 50 * time.Millisecond
	// account is the ServiceAccount that the shipped rights are bound to.
	account = "cloud-controller-manager"
	// lease is the one that those rights are for.
	lease = "cloud-controller-manager-node-deletions"
)

// options say how a manager under test is made. Only Cloud is required.
type options struct {
	Cloud     cloudprovider.Interface
	Settings  func(*nodelifecycle.Settings)
	Rules     ownership.Rules // the provider's name and schemes are filled in
	Cluster   *localcluster.Cluster
	Transport func(http.RoundTripper) http.RoundTripper
	Calls     cloud.Options
	Lease     string // empty: the one that the shipped rights are for
	Account   string // empty: the one that the shipped rights are bound to
	Crashes   bool   // the manager is made to end with an error
}

// manager is a cloud controller manager that runs nothing but the node lifecycle controller.
type manager struct {
	registry *prometheus.Registry
	user     string
	// earlier is how many requests the audit log held when the manager was started.
	earlier int
	stop    func()
}

// settings are those of the flags, but for nodes that a test has made a moment ago.
func settings(change func(*nodelifecycle.Settings)) nodelifecycle.Settings {
	s := nodelifecycle.DefaultSettings()
	s.MinAge, s.InitializationGrace = 0, 0
	if change != nil {
		change(&s)
	}
	return s
}

// start runs the node lifecycle controller until the test ends, with the rights that ship and nothing else.
func start(t *testing.T, o options) *manager {
	t.Helper()
	if o.Cluster == nil {
		o.Cluster = cluster
		forgetDeletions(t)
	}
	return resume(t, o)
}

// resume is start with the journal of an earlier manager.
func resume(t *testing.T, o options) *manager {
	t.Helper()
	if o.Cluster == nil {
		o.Cluster = cluster
	}
	if o.Account == "" {
		o.Account = account
	}
	if o.Lease == "" {
		o.Lease = lease
	}
	m := &manager{registry: prometheus.NewRegistry(), user: "system:serviceaccount:kube-system:" + o.Account}
	kubeconfig, err := o.Cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", o.Account)
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	config.QPS = -1
	if o.Transport != nil {
		config.Wrap(o.Transport)
	}
	if o.Cluster == cluster {
		logged, err := cluster.AuditEvents()
		must(t, err)
		m.earlier = len(logged)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running := m.assemble(t, ctx, config, o)
	ended := make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !o.Crashes {
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
		Scheme: scheme.Scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(t, err)
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	decorated := cloud.Decorate(o.Cloud, o.Calls)
	o.Rules.ProviderName = o.Cloud.ProviderName()
	o.Rules.Schemes = append(o.Rules.Schemes, provider.CapabilitiesOf(o.Cloud).ProviderIDSchemes...)
	controller, err := nodelifecycle.New(nodelifecycle.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Recorder: recorder(t, ctx, clients),
		Inventory: inventory.New(inventory.Options{Cloud: decorated, Registerer: m.registry}),
		Ownership: o.Rules, Settings: settings(o.Settings), Period: period, Registerer: m.registry, Logger: log,
		Journal: &nodelifecycle.Journal{Leases: clients.CoordinationV1(), Namespace: "kube-system", Name: o.Lease},
	})
	must(t, err)
	must(t, mgr.Add(controller))
	return mgr
}

// recorder writes events with the rights of the manager.
func recorder(t *testing.T, ctx context.Context, client kubernetes.Interface) record.EventRecorder {
	t.Helper()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	t.Cleanup(broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: nodelifecycle.Name})
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
func (m *manager) metric(t testing.TB, name string, keysAndValues ...string) float64 {
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
			for pair := range slices.Chunk(keysAndValues, 2) {
				matches = matches && has[pair[0]] == pair[1]
			}
			if matches {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}

// passes returns how many passes are over.
func (m *manager) passes(t testing.TB) int {
	t.Helper()
	return int(m.metric(t, "mooring_node_lifecycle_pass_duration_seconds"))
}

// waitPasses waits until a number of passes have begun and ended from now on.
func (m *manager) waitPasses(t testing.TB, count int) {
	t.Helper()
	before := m.passes(t)
	eventually(t, fmt.Sprintf("%d passes", count), func(context.Context) error {
		if done := m.passes(t) - before; done <= count { // the first may have begun before
			return fmt.Errorf("%d are over", done)
		}
		return nil
	})
}

// waitMetric waits until a metric has a value.
func (m *manager) waitMetric(t testing.TB, want float64, name string, keysAndValues ...string) {
	t.Helper()
	eventually(t, name, func(context.Context) error {
		if got := m.metric(t, name, keysAndValues...); got != want {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
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

// writes returns what the manager wrote to nodes, by node: "patch status 200", in the order of the answers.
func (m *manager) writes(t testing.TB) map[string][]string {
	t.Helper()
	events, err := cluster.AuditEvents()
	must(t, err)
	byNode := map[string][]string{}
	for _, event := range events[m.earlier:] {
		if event.Stage != auditv1.StageResponseComplete || !localcluster.IsWrite(event) || event.User.Username != m.user ||
			event.ObjectRef == nil || event.ObjectRef.Resource != "nodes" {
			continue
		}
		what := strings.Join(slices.DeleteFunc([]string{event.Verb, event.ObjectRef.Subresource}, func(s string) bool { return s == "" }), " ")
		byNode[event.ObjectRef.Name] = append(byNode[event.ObjectRef.Name], fmt.Sprintf("%s %d", what, event.ResponseStatus.Code))
	}
	return byNode
}
