package nodelifecycle_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/nodelifecycle"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// period is the time between two passes.
	period = 50 * time.Millisecond
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
	Account   string // empty: harness.Account
	Crashes   bool   // the manager is made to end with an error
	Period    time.Duration
}

// manager is a cloud controller manager that runs nothing but the node lifecycle controller.
type manager struct{ *harness.Manager }

// settings are those of the flags, but for nodes that a test has made a moment ago, and for tests that have no half minute.
func settings(change func(*nodelifecycle.Settings)) nodelifecycle.Settings {
	s := nodelifecycle.DefaultSettings()
	s.MinAge, s.MinDenialTime = 0, 0
	if change != nil {
		change(&s)
	}
	return s
}

// start runs the node lifecycle controller until the test ends, with the rights that ship and nothing else.
func start(t *testing.T, o options) manager {
	t.Helper()
	if o.Cluster == nil {
		o.Cluster = cluster
		forgetDeletions(t)
	}
	return resume(t, o)
}

// resume is start with the deletion log of an earlier manager.
func resume(t *testing.T, o options) manager {
	t.Helper()
	if o.Cluster == nil {
		o.Cluster = cluster
	}
	if o.Lease == "" {
		o.Lease = lease
	}
	return manager{harness.Start(t, harness.Options{
		Cluster: o.Cluster, Account: o.Account, Transport: o.Transport, Crashes: o.Crashes,
		Component: nodelifecycle.Name, Build: o.build,
	})}
}

// build makes the controller.
func (o options) build(parts harness.Parts) (ctrl.Runnable, error) {
	o.Rules.ProviderName = o.Cloud.ProviderName()
	o.Rules.Schemes = append(o.Rules.Schemes, provider.CapabilitiesOf(o.Cloud).ProviderIDSchemes...)
	inventory := instances.New(instances.Options{Cloud: cloud.Decorate(o.Cloud, o.Calls), Registerer: parts.Registry})
	return nodelifecycle.New(nodelifecycle.Options{
		Client: parts.GetClient(), Cache: parts.GetCache(), Recorder: parts.Recorder,
		Inventory: inventory, Owners: o.Rules, Settings: settings(o.Settings), Period: cmp.Or(o.Period, period), Registerer: parts.Registry, Logger: parts.Logger,
		DeletionLog: &nodelifecycle.DeletionLog{Leases: parts.Clients.CoordinationV1(), Namespace: "kube-system", Name: o.Lease},
	}), nil
}

// passes returns how many passes are over.
func (m manager) passes(t testing.TB) int {
	t.Helper()
	return int(m.Metric(t, "mooring_node_lifecycle_pass_duration_seconds"))
}

// waitPasses waits until a number of passes have begun and ended from now on.
func (m manager) waitPasses(t testing.TB, count int) {
	t.Helper()
	before := m.passes(t)
	poll.Until(t, fmt.Sprintf("%d passes", count), func(context.Context) error {
		if done := m.passes(t) - before; done <= count { // the first may have begun before
			return fmt.Errorf("%d are over", done)
		}
		return nil
	})
}

// waitMetric waits until a metric has a value.
func (m manager) waitMetric(t testing.TB, want float64, name string, keysAndValues ...string) {
	t.Helper()
	poll.Until(t, name, func(context.Context) error {
		if got := m.Metric(t, name, keysAndValues...); got != want {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}

// writes returns what the manager wrote to nodes, by node: "patch status 200", in the order of the answers.
func (m manager) writes(t testing.TB) map[string][]string {
	t.Helper()
	byNode := map[string][]string{}
	for _, done := range m.Writes(t, "nodes") {
		byNode[done.Name] = append(byNode[done.Name], done.What)
	}
	return byNode
}
