package service_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/mooring-ccm/mooring/internal/controller/service"
	"github.com/mooring-ccm/mooring/internal/inventory"
	"github.com/mooring-ccm/mooring/internal/ownership"
	"github.com/mooring-ccm/mooring/localcluster"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	simservice "github.com/mooring-ccm/mooring/providers/sim/service"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

const (
	// deadline bounds every wait; nothing here takes more than a few seconds.
	deadline = time.Minute
	// namespace is where the Services of the tests are.
	namespace = "default"
	// never is a period that no test lives to see the end of.
	never = -1
	// ours is the load balancer class of the manager under test where it has one.
	ours = "mooring.dev/lb"
)

// manager is a cloud controller manager that runs nothing but the service controller.
type manager struct {
	registry *prometheus.Registry
	cluster  *localcluster.Cluster
	since    int // how many requests the API server had answered when it started
	stop     func()
}

// startManager runs the service controller until the test ends, with the rights that ship and nothing else. Unless the edits
// say otherwise it retries soon, hears of nodes soon, and never compares load balancers with the cloud.
func startManager(t *testing.T, in *localcluster.Cluster, plugin cloudprovider.Interface, edits ...func(*service.Options)) *manager {
	t.Helper()
	before, err := in.AuditEvents()
	must(t, err)
	m := &manager{registry: prometheus.NewRegistry(), cluster: in, since: len(before)}
	kubeconfig, err := in.ServiceAccountKubeconfig(t.Context(), "kube-system", "cloud-controller-manager")
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running, closeEvents, err := assemble(ctx, config, plugin, m.registry, testLogger(t), edits...)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
		closeEvents()
	})
	t.Cleanup(m.stop)
	return m
}

// assemble builds a manager with the service controller in it.
func assemble(ctx context.Context, config *rest.Config, plugin cloudprovider.Interface, registry *prometheus.Registry, log logr.Logger,
	edits ...func(*service.Options),
) (ctrl.Manager, func(), error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme.Scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	decorated := cloud.Decorate(plugin, cloud.Options{Registerer: registry})
	options := service.Options{
		Client: mgr.GetClient(), LiveReader: mgr.GetAPIReader(), Cache: mgr.GetCache(),
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: service.Name}),
		Cloud:    decorated, ClusterName: "kubernetes",
		Inventory: inventory.New(inventory.Options{Cloud: decorated}),
		Ownership: ownership.Rules{ProviderName: plugin.ProviderName(), Schemes: provider.CapabilitiesOf(plugin).ProviderIDSchemes},
		Classes:   service.Classes{Default: true}, Registerer: registry, Logger: log,
		TargetQuiet: 300 * time.Millisecond, TargetDelay: 20 * time.Second,
		FirstRetry: 50 * time.Millisecond, LongestRetry: time.Second, AuditPeriod: never,
	}
	for _, edit := range edits {
		edit(&options)
	}
	controller, err := service.New(options)
	if err != nil {
		return nil, nil, err
	}
	return mgr, broadcaster.Shutdown, mgr.Add(controller)
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
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}

// simulate starts the simulated cloud, with as many instances as nodes are needed, and returns it with its provider.
func simulate(t *testing.T, instances int, knobs api.Knobs) (*simtest.Cloud, *sim.Cloud) {
	t.Helper()
	running := simtest.Start(t, simservice.Options{Seed: simservice.DefaultSeed(instances), Knobs: knobs})
	return running, providerOf(t, running.ConfigFile)
}

// providerOf builds the provider for a cloud config.
func providerOf(t *testing.T, configFile string) *sim.Cloud {
	t.Helper()
	file, err := os.Open(configFile)
	must(t, err)
	defer file.Close()
	config, err := sim.ReadConfig(file)
	must(t, err)
	built, err := sim.New(config)
	must(t, err)
	stop := make(chan struct{})
	built.Initialize(nil, stop)
	t.Cleanup(func() { close(stop) })
	return built
}

// nodeName and instanceID are those of the simulated cloud's instances, counted from one.
func nodeName(number int) string   { return fmt.Sprintf("node-%03d", number) }
func instanceID(number int) string { return fmt.Sprintf("i-%08d", number) }

// joinNodes creates initialised nodes for instances, and deletes them when the test ends.
func joinNodes(t *testing.T, numbers ...int) {
	t.Helper()
	for _, number := range numbers {
		createNode(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(number)}, Spec: corev1.NodeSpec{ProviderID: "sim://" + instanceID(number)},
		})
	}
}

func createNode(t *testing.T, node *corev1.Node) {
	t.Helper()
	_, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { deleteNode(t, node.Name) })
}

func deleteNode(t *testing.T, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), deadline)
	defer cancel()
	if err := admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func changeNode(t *testing.T, name string, edit func(*corev1.Node)) {
	t.Helper()
	eventually(t, "changing node "+name, func(ctx context.Context) error {
		found, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(found)
		_, err = admin.CoreV1().Nodes().Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// createService creates a Service of type LoadBalancer, and sees to it that it is gone when the test ends.
func createService(t *testing.T, name string, edits ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	wanted := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, edit := range edits {
		edit(wanted)
	}
	created, err := admin.CoreV1().Services(namespace).Create(t.Context(), wanted, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("events of %s: %q", name, eventsOf(t, name))
		}
		strip(t, name)
	})
	return created
}

// strip deletes what a test has left of a Service, whatever holds it.
func strip(t *testing.T, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), deadline)
	defer cancel()
	services := admin.CoreV1().Services(namespace)
	err := services.Delete(ctx, name, metav1.DeleteOptions{})
	for err == nil { // a manager that still runs may take it on again before it hears of the deletion
		_, err = services.Patch(ctx, name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	if !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func deleteService(t testing.TB, name string) {
	t.Helper()
	must(t, admin.CoreV1().Services(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func changeService(t testing.TB, name string, edit func(*corev1.Service)) {
	t.Helper()
	eventually(t, "changing service "+name, func(ctx context.Context) error {
		found, err := admin.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(found)
		_, err = admin.CoreV1().Services(namespace).Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

func getService(t testing.TB, name string) *corev1.Service {
	t.Helper()
	found, err := admin.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return found
}
