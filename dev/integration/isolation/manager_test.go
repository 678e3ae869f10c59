package isolation_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
)

const (
	// limit is how long a step may take while something else misbehaves; what prepares for that may take longer. It is far below what
	// the faults cause where they spread, which is a minute to forever, and far above what the step takes.
	limit = 25 * time.Second
	// startLimit is how long a manager may take to start, beside several others on a busy machine.
	startLimit = 5 * time.Minute
	// stopLimit is how long a manager may take to stop once the calls that hang are released.
	stopLimit = 20 * time.Second
	// labelManager is the label of nodes by the manager that looks after them.
	labelManager = "isolation.test/manager"
)

// shortDeadlines are the deadlines of calls where calls hang.
var shortDeadlines = []string{"--cloud-api-timeout=3s", "--cloud-api-write-timeout=5s"}

// manager is a cloud controller manager in this process, with a faulty cloud.
type manager struct {
	name  string
	cloud *faulty.Cloud
	args  []string
	ended chan error
	stop  func()
	// Endpoint is its secure port, for the administrator.
	harness.Endpoint
}

// parsing is held while a manager is built and reads its flags: some of them are shared by all commands of a process.
var parsing sync.Mutex

// start runs a manager until the test ends, and returns when it leads. Unless the options say otherwise, its provider declares the
// scheme of its provider IDs.
func start(t *testing.T, name string, o faulty.Options, args ...string) *manager {
	t.Helper()
	name += "-" + utilrand.String(5) // so a test can run again on the same control plane
	if o.Schemes == nil {
		o.Schemes = []string{name}
	}
	port, err := program.FreePort()
	must.NoError(t, err)
	command := harness.Manager{Name: name, Kubeconfig: cluster.AdminKubeconfig(), Port: port, Certs: t.TempDir()}
	// The manager has signed its certificate itself, and is in this process.
	m := &manager{name: name, cloud: faulty.New(name, o), ended: make(chan error, 1), Endpoint: harness.Endpoint{
		Address: command.Endpoint().Address, As: cluster.AdminConfig(),
	}}
	command.Flags = append([]string{
		"--cloud-provider=" + name,
		// None of these tests is about a lease that is lost. All managers of a busy machine have to renew theirs in time.
		"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s", "--leader-elect-resource-name=" + name, "--node-selector=" + labelManager + "=" + name,
		"--load-balancer-classes=" + m.class(), "--load-balancer-default-class=false", "--load-balancer-target-delay=1s",
		"--node-monitor-period=1s", "--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s", "--node-deletion-limit=100%",
		"--configure-cloud-routes", "--cluster-cidr=10.0.0.0/8", "--route-reconciliation-period=1s",
		"--graceful-shutdown-timeout=10s",
	}, args...)
	m.args = command.Args()
	m.launch(t)
	t.Cleanup(func() {
		m.cloud.Release()
		m.end(t)
	})
	m.awaitStart(t)
	return m
}

// end stops the manager.
func (m *manager) end(t *testing.T) {
	t.Helper()
	m.stop()
	select {
	case err := <-m.ended:
		if err != nil {
			t.Errorf("manager %s ended with %v", m.name, err)
		}
	case <-time.After(stopLimit):
		t.Errorf("manager %s has not stopped within %s", m.name, stopLimit)
	}
}

// restart stops the manager, does something, and starts another one in its place.
func (m *manager) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	m.end(t)
	meanwhile()
	m.launch(t)
	m.awaitStart(t)
}

// launch runs the command. It returns when that has read its flags.
func (m *manager) launch(t *testing.T) {
	t.Helper()
	parsing.Lock()
	defer parsing.Unlock()
	command := ccm.NewCommand()
	command.SetArgs(m.args)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	m.stop = cancel
	go func() { m.ended <- command.ExecuteContext(ctx) }()
	select {
	case <-m.cloud.Built():
	case err := <-m.ended:
		cancel()
		t.Fatalf("manager %s has not started: %v", m.name, err)
	}
}

// class is the class of the Services that the manager serves.
func (m *manager) class() string { return "isolation.test/" + m.name }

// awaitStart waits until the manager is ready.
func (m *manager) awaitStart(t *testing.T) {
	t.Helper()
	poll.Within(t, startLimit, m.name+" is ready", func(ctx context.Context) error {
		_, err := m.probe(ctx, t, "/readyz", http.StatusOK)
		return err
	})
}

// awaitProbe waits until a health check has a status, and returns what it says.
func (m *manager) awaitProbe(t *testing.T, path string, want int) (body string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%s of %s answers %d", path, m.name, want), func(ctx context.Context) (err error) {
		body, err = m.probe(ctx, t, path, want)
		return err
	})
	return body
}

// probe returns what a health check says, and an error if its status is another one.
func (m *manager) probe(ctx context.Context, t *testing.T, path string, want int) (said string, err error) {
	t.Helper()
	select {
	case err := <-m.ended:
		m.ended <- err
		t.Fatalf("manager %s ended: %v", m.name, err)
	default:
	}
	status, said, err := m.Get(ctx, path+"?verbose", "")
	if err == nil && status != want {
		err = fmt.Errorf("it answers %d: %s", status, said)
	}
	return said, err
}
