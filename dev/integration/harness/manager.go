package harness

import (
	"context"
	"net/http"
	"os"
	"runtime/pprof"
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
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

const (
	// Account is the ServiceAccount that the shipped rights are bound to.
	Account = "cloud-controller-manager"
	// patience is how long a manager may take to stop before its goroutines are shown. Its own grace period is longer.
	patience = poll.Deadline
)

// Options say how a manager under test is made. Cluster and Build are required.
type Options struct {
	Cluster   *localcluster.Cluster
	Account   string // empty: Account
	Transport func(http.RoundTripper) http.RoundTripper
	Cache     cache.Options
	// Crashes says that the manager is made to end with an error.
	Crashes bool
	// Component is what the manager's events come from, and Build makes the controller that it runs.
	Component string
	Build     func(Parts) (manager.Runnable, error)
}

// Parts are what a controller under test is made of.
type Parts struct {
	ctrl.Manager
	// Clients have the rights of the manager.
	Clients  kubernetes.Interface
	Recorder record.EventRecorder
	Registry *prometheus.Registry
	Logger   logr.Logger
}

// Manager is a cloud controller manager that runs nothing but one controller.
type Manager struct {
	// Registry has the manager's metrics.
	Registry *prometheus.Registry
	// Stop stops the manager and waits for its end, if that has not been done before.
	Stop func()

	cluster  *managers.Cluster
	identity managers.Identity
	since    managers.Mark // how far the API server was when the manager started
}

// Start runs a manager until the test ends, with the rights that ship and nothing else.
func Start(t *testing.T, o Options) *Manager {
	t.Helper()
	if o.Account == "" {
		o.Account = Account
	}
	m := &Manager{
		Registry: prometheus.NewRegistry(), cluster: harnesstest.Of(t, o.Cluster), identity: managers.Identity{Account: o.Account},
	}
	var err error
	m.since, err = m.cluster.Mark(t.Context())
	must.NoError(t, err)
	config := ConfigOf(t, o.Cluster, o.Account)
	if o.Transport != nil {
		config.Wrap(o.Transport)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running, closeEvents, err := Assemble(ctx, config, m.Registry, logger(t), o)
	must.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	m.Stop = sync.OnceFunc(func() {
		cancel()
		if err := awaitEnd(t, ended); err != nil && !o.Crashes {
			t.Errorf("the manager ended with %v", err)
		}
		closeEvents()
	})
	t.Cleanup(m.Stop)
	return m
}

// awaitEnd waits for the end of a manager that is to stop. If that takes long, it shows what the process is at.
func awaitEnd(t *testing.T, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
	}
	var goroutines strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&goroutines, 2); err != nil {
		t.Error(err)
	}
	t.Errorf("the manager has not stopped within %s:\n%s", patience, goroutines.String())
	return <-ended
}

// Assemble builds a manager with a controller in it. Its events are written until the returned function is called.
func Assemble(ctx context.Context, config *rest.Config, registry *prometheus.Registry, log logr.Logger, o Options,
) (ctrl.Manager, func(), error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}, Cache: o.Cache,
	})
	if err != nil {
		return nil, nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("")})
	controller, err := o.Build(Parts{
		Manager: mgr, Clients: clients, Registry: registry, Logger: log,
		Recorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: o.Component}),
	})
	if err != nil {
		broadcaster.Shutdown()
		return nil, nil, err
	}
	return mgr, broadcaster.Shutdown, mgr.Add(controller)
}

// logger logs to the test's output with MOORING_TEST_LOGS=1, and nowhere without.
func logger(t *testing.T) logr.Logger {
	if os.Getenv("MOORING_TEST_LOGS") == "" {
		return logr.Discard()
	}
	return testr.NewWithOptions(t, testr.Options{Verbosity: 1})
}
