package node_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/node"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

// never is a refresh interval that no test lives to see.
const never = 24 * time.Hour

// options say how a manager under test is made. Only Cloud is required.
type options struct {
	Cloud     cloudprovider.Interface
	Refresh   time.Duration   // zero: never
	Full      time.Duration   // within which a plugin that cannot list is asked for each node; zero: Refresh, and all of them at once
	Rules     ownership.Rules // the provider's name and schemes are filled in
	Pool      string          // not empty: only nodes of this pool are the manager's, see inPool
	Account   string          // empty: harness.Account
	Transport func(http.RoundTripper) http.RoundTripper
	Calls     cloud.Options
	Workers   int
	Inventory *instances.Inventory // nil: one that has not asked the cloud anything yet
	Patches   bool                 // nodes are patched as if the cache did not hold them whole
}

// start runs the node controller until the test ends, with the rights that ship and nothing else.
func start(t *testing.T, o options) *harness.Manager {
	t.Helper()
	return harness.Start(t, harness.Options{
		Cluster: cluster, Account: o.Account, Transport: o.Transport, Component: node.Name, Build: o.build,
	})
}

// build makes the controller.
func (o options) build(parts harness.Parts) (manager.Runnable, error) {
	decorated := cloud.Decorate(o.Cloud, o.Calls)
	if o.Pool != "" {
		o.Rules.Selector = labels.SelectorFromSet(labels.Set{"pool": o.Pool})
	}
	o.Rules.ProviderName = o.Cloud.ProviderName()
	o.Rules.Schemes = append(o.Rules.Schemes, provider.CapabilitiesOf(o.Cloud).ProviderIDSchemes...)
	if o.Refresh == 0 {
		o.Refresh = never
	}
	if o.Full == 0 {
		o.Full = o.Refresh
	}
	if o.Inventory == nil {
		o.Inventory = instances.New(instances.Options{Cloud: decorated, Registerer: parts.Registry})
	}
	whole := ownership.Uninitialized
	if o.Patches {
		whole = nil
	}
	return node.New(node.Options{
		Whole:  whole,
		Client: parts.GetClient(), LiveReader: parts.GetAPIReader(), LabelManagers: []string{"cloud-controller-manager"}, Cache: parts.GetCache(), Recorder: parts.Recorder, Inventory: o.Inventory,
		Owners: o.Rules, StatusUpdateFrequency: o.Refresh, FullRefreshPeriod: o.Full, Workers: o.Workers,
		Registerer: parts.Registry, Logger: parts.Logger,
	})
}

// join creates nodes as kubelets with an external cloud provider do, and deletes them when the test ends. It creates each ready, in one write. A
// kubelet's second write could come between a manager's look and its update, which becomes a patch.
func join(t *testing.T, joining ...nodeagent.Options) {
	t.Helper()
	t.Cleanup(func() { deleteNodes(t, joining) })
	var group errgroup.Group
	group.SetLimit(16)
	for _, o := range joining {
		group.Go(func() error {
			_, err := admin.CoreV1().Nodes().Create(t.Context(), nodeagent.Node(o), metav1.CreateOptions{})
			return err
		})
	}
	must.NoError(t, group.Wait())
}

func deleteNodes(t *testing.T, joined []nodeagent.Options) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), poll.Deadline)
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

// inPool puts a node into a pool, so tests whose managers have different pools can run side by side.
func inPool(pool string, o nodeagent.Options) nodeagent.Options {
	o.Labels = map[string]string{"pool": pool}
	return o
}

// seedOf is the default seed with names of a pool's own: "POOL-node-001".
func seedOf(pool string, instances int) *api.Seed {
	seed := cloudsim.DefaultSeed(instances)
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
