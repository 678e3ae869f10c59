package autoscaler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/harness"
	controllers "github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/nodeagent"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/extensions/autoscaler"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// The node groups.
const (
	small, large = "small", "large"
)

const taintKey = names.TaintToBeDeleted

// fixture is a cloud with two node groups, a manager, and an autoscaler.
type fixture struct {
	*driver
	cloud  *simtest.Cloud
	faults *faults
	ca     *authority
	dir    string
	args   []string
	port   string
	// secure is the port of health and metrics.
	secure harness.Endpoint
	ended  chan error
	stop   func()
}

// newFixture starts everything. The cloud has one instance outside the groups, whose node neither the manager nor the autoscaler may delete.
func newFixture(t *testing.T, args ...string) *fixture {
	t.Helper()
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(1)})
	return startFixture(t, cloud, append([]string{"--cloud-provider=groups", "--cloud-config=" + cloud.ConfigFile}, args...)...)
}

// startFixture starts a manager and an autoscaler. The cloud is nil where the arguments name a provider that is registered.
func startFixture(t *testing.T, cloud *simtest.Cloud, args ...string) *fixture {
	t.Helper()
	f := &fixture{
		cloud: cloud, faults: newFaults(), dir: t.TempDir(), port: localclustertest.FreePort(t),
	}
	securePort, err := program.FreePort()
	must.NoError(t, err)
	f.ca = newAuthority(t, f.dir, "ca")
	server := f.ca.sign(t, f.dir, "server")
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceSystem, "cloud-controller-manager")
	must.NoError(t, err)
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--controllers=") }) {
		args = append(args, "--controllers=*,cluster-autoscaler-provider")
	}
	manager := harness.Manager{Kubeconfig: kubeconfig, Port: securePort, Certs: t.TempDir(), Flags: append([]string{
		"--autoscaler-bind-address=127.0.0.1", "--autoscaler-port=" + f.port,
		"--autoscaler-tls-cert-file=" + server.certificate, "--autoscaler-tls-private-key-file=" + server.key, "--autoscaler-client-ca-file=" + f.ca.file,
		"--leader-elect=false", "--configure-cloud-routes=false", "--load-balancer-target-delay=1s",
		"--node-monitor-period=1s", "--node-deletion-min-age=0s", "--node-deletion-min-denial-time=0s", "--graceful-shutdown-timeout=10s",
		"--cloud-api-timeout=5s", "--cloud-api-write-timeout=10s",
	}, args...)} // the last one of a flag counts
	f.args, f.secure = manager.Args(), manager.Endpoint()
	f.driver = newDriver(t, "127.0.0.1:"+f.port, f.ca.file, f.ca.sign(t, f.dir, "autoscaler"))
	t.Cleanup(func() {
		f.faults.release()
		f.end(t)
		list, err := admin.CoreV1().Nodes().List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		must.NoError(t, err)
		for _, node := range list.Items {
			must.NoError(t, admin.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node.Name, metav1.DeleteOptions{}))
		}
	})
	f.launch(t)
	return f
}

// launch starts the manager.
func (f *fixture) launch(t *testing.T) {
	t.Helper()
	built := make(chan struct{})
	var once sync.Once
	command := ccm.NewCommand(ccm.WithController(autoscaler.Controller()), ccm.WithProvider("groups", func(_ context.Context, environment ccm.ProviderEnvironment) (cloudprovider.Interface, error) {
		defer once.Do(func() { close(built) })
		config, err := environment.Config()
		if err != nil {
			return nil, err
		}
		defer config.Close()
		return f.faults.provider(config)
	}))
	command.SetArgs(f.args)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f.stop, f.ended = cancel, make(chan error, 1)
	go func(ended chan error) { ended <- command.ExecuteContext(ctx) }(f.ended)
	if f.cloud == nil {
		return // whether it has started is seen in what it answers
	}
	select {
	case <-built:
	case err := <-f.ended:
		cancel()
		t.Fatalf("the manager has not started: %v", err)
	}
}

// end stops the manager.
func (f *fixture) end(t *testing.T) {
	t.Helper()
	if f.stop == nil {
		return
	}
	f.stop()
	f.stop = nil
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the manager has not stopped")
	}
}

// faults are what goes wrong in the provider.
type faults struct {
	mu       sync.Mutex
	hanging  map[string]chan struct{} // by group
	deletes  []string                 // the instances whose deletion the manager has asked for, in order
	atDelete func(providerID string)
	hold     bool // deletions fail
}

func newFaults() *faults { return &faults{hanging: map[string]chan struct{}{}} }

// provider is the provider of the simulated cloud, with two groups and the faults.
func (f *faults) provider(config io.Reader) (cloudprovider.Interface, error) {
	parsed, err := sim.ReadConfig(config)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{small, large} {
		parsed.NodeGroups = append(parsed.NodeGroups, sim.NodeGroup{
			Name: name, MinSize: 1, MaxSize: 4, Zone: cloudsim.DefaultSeed(1).Zones[0].Name, MachineType: cloudsim.DefaultSeed(1).MachineTypes[0].Name,
			Network: fmt.Sprintf("10.77.%d.0/24", i),
		})
	}
	built, err := sim.New(parsed)
	if err != nil {
		return nil, err
	}
	capabilities := built.Capabilities()
	capabilities.NodeGroups = &faultyGroups{capabilities.NodeGroups, f}
	return provider.WithCapabilities(built, capabilities), nil
}

// hang has all calls about a group hang, deaf to their contexts, until they are released.
func (f *faults) hang(group string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hanging[group] = make(chan struct{})
}

func (f *faults) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for group, hanging := range f.hanging {
		close(hanging)
		delete(f.hanging, group)
	}
}

func (f *faults) wait(group string) {
	f.mu.Lock()
	hanging := f.hanging[group]
	f.mu.Unlock()
	if hanging != nil {
		<-hanging
	}
}

func (f *faults) set(hold bool, atDelete func(string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hold, f.atDelete = hold, atDelete
}

func (f *faults) deleted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.deletes)
}

type faultyGroups struct {
	provider.NodeGroups
	*faults
}

func (g *faultyGroups) NodeGroupStatus(ctx context.Context, group string) (provider.NodeGroupStatus, error) {
	g.wait(group)
	return g.NodeGroups.NodeGroupStatus(ctx, group)
}

func (g *faultyGroups) NodeGroupTemplate(ctx context.Context, group string) (*corev1.Node, error) {
	g.wait(group)
	return g.NodeGroups.NodeGroupTemplate(ctx, group)
}

func (g *faultyGroups) IncreaseNodeGroup(ctx context.Context, group string, delta int) error {
	g.wait(group)
	return g.NodeGroups.IncreaseNodeGroup(ctx, group, delta)
}

func (g *faultyGroups) DeleteNodeGroupInstances(ctx context.Context, group string, providerIDs []string) error {
	g.wait(group)
	g.mu.Lock()
	hold, look := g.hold, g.atDelete
	if !hold {
		g.deletes = append(g.deletes, providerIDs...)
	}
	g.mu.Unlock()
	if hold {
		return errors.New("the cloud is out of order")
	}
	if look != nil {
		look(providerIDs[0])
	}
	return g.NodeGroups.DeleteNodeGroupInstances(ctx, group, providerIDs)
}

// instances returns those of a group, in the order of their IDs.
func (f *fixture) instances(ctx context.Context, group string) (found []api.Instance, err error) {
	err = f.cloud.Client.ListInstances(ctx, func(page []api.Instance) error {
		for _, instance := range page {
			if strings.HasPrefix(instance.Name, group+"-") {
				found = append(found, instance)
			}
		}
		return nil
	})
	return found, err
}

// join has the kubelets of a group's instances register, and waits until their nodes are initialized. It returns the names.
func (f *fixture) join(t *testing.T, group string, want int) (names []string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d instances of %s run", want, group), func(ctx context.Context) error {
		found, err := f.instances(ctx, group)
		names = nil
		for _, instance := range found {
			if instance.State == api.InstanceRunning {
				names = append(names, instance.Name)
			}
		}
		if err == nil && len(names) != want {
			err = fmt.Errorf("%v do", names)
		}
		return err
	})
	for _, name := range names {
		f.register(t, name)
	}
	return names
}

// register has a kubelet register, and waits until its node is initialized.
func (f *fixture) register(t *testing.T, name string) {
	t.Helper()
	agent, err := nodeagent.New(cluster.AdminConfig(), nodeagent.Options{Name: name})
	must.NoError(t, err)
	must.NoError(t, agent.Register(t.Context()))
	f.awaitNode(t, name, "is initialized", func(node *corev1.Node) error {
		if node.Spec.ProviderID == "" || hasTaint(node, "node.cloudprovider.kubernetes.io/uninitialized") {
			return fmt.Errorf("it has the provider ID %q and the taints %v", node.Spec.ProviderID, node.Spec.Taints)
		}
		return nil
	})
}

// awaitNode waits until nothing is wrong with a node.
func (f *fixture) awaitNode(t *testing.T, name, what string, problem func(*corev1.Node) error) (found *corev1.Node) {
	t.Helper()
	poll.Until(t, "node "+name+" "+what, func(ctx context.Context) (err error) {
		if found, err = admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return problem(found)
	})
	return found
}

// awaitGone waits until the instance of a node is gone, and then the node.
func (f *fixture) awaitGone(t *testing.T, group, name string) {
	t.Helper()
	poll.Until(t, "the instance of "+name+" is gone", func(ctx context.Context) error {
		found, err := f.instances(ctx, group)
		if err == nil && slices.ContainsFunc(found, func(i api.Instance) bool { return i.Name == name }) {
			err = errors.New("it is there")
		}
		return err
	})
	f.awaitNoNode(t, name)
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}

// taint puts the autoscaler's taint on a node: MarkToBeDeleted in utils/taints/taints.go.
func taint(t *testing.T, name string) *corev1.Node {
	t.Helper()
	return edit(t, name, func(node *corev1.Node) {
		if !hasTaint(node, taintKey) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taintKey, Value: fmt.Sprint(time.Now().Unix()), Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

// untaint takes it off: CleanToBeDeleted in the same file.
func untaint(t *testing.T, name string) {
	t.Helper()
	if _, err := admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return
	}
	edit(t, name, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == taintKey })
	})
}

func edit(t *testing.T, name string, change func(*corev1.Node)) (changed *corev1.Node) {
	t.Helper()
	return controllers.ChangeNode(t, admin, name, change)
}

// balancer makes a Service of type LoadBalancer.
func (f *fixture) balancer(t *testing.T, name string) {
	t.Helper()
	services := admin.CoreV1().Services("default")
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		poll.Until(t, "the Service "+name+" is gone", func(context.Context) error {
			err := services.Delete(ctx, name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("it is there"))
		})
	})
}

// targets returns the provider IDs behind all load balancers.
func (f *fixture) targets(ctx context.Context) (all []string, err error) {
	err = f.cloud.Client.ListLoadBalancers(ctx, nil, func(page []api.LoadBalancer) error {
		for _, balancer := range page {
			for _, target := range balancer.Targets {
				all = append(all, sim.ProviderID(target))
			}
		}
		return nil
	})
	return all, err
}

// awaitTargets waits until load balancers have just these nodes as targets.
func (f *fixture) awaitTargets(t *testing.T, nodes ...string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("load balancers have the targets %v", nodes), func(ctx context.Context) error {
		var want []string
		for _, name := range nodes {
			node, err := admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			want = append(want, node.Spec.ProviderID)
		}
		got, err := f.targets(ctx)
		slices.Sort(want)
		slices.Sort(got)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("they have %v, not %v", got, want)
		}
		return err
	})
}
