package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/harness/harnesstest"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	processes "github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// fixture is a cluster with something to do, its cloud, and how a manager under --dry-run is reached.
type fixture struct {
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
	cloud   *simtest.Cloud
	// server and authority are how the manager is reached.
	server, authority string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{cluster: localclustertest.Start(t), cloud: simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(3)})}
	var err error
	w.admin, err = kubernetes.NewForConfig(w.cluster.AdminConfig())
	must.NoError(t, err)
	poll.Within(t, programtest.Patience, "there is the Service kubernetes, whose UID is the cluster's", func(ctx context.Context) error {
		_, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
	known, err := w.cloud.Client.GetInstanceByName(t.Context(), "node-002")
	must.NoError(t, err)
	for _, node := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "node-001"}, Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "node-002"}, Spec: corev1.NodeSpec{
			ProviderID: "sim://" + known.ID, PodCIDR: "10.244.2.0/24", PodCIDRs: []string{"10.244.2.0/24"},
		}},
	} {
		_, err := w.admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		must.NoError(t, err)
	}
	_, err = w.admin.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	return w
}

// dryRun starts a manager under --dry-run.
func (w *fixture) dryRun(t *testing.T) {
	t.Helper()
	w.start(t, "--dry-run")
}

// start starts a manager that ends with the test, or when the returned function is called.
func (w *fixture) start(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	port, err := processes.FreePort()
	must.NoError(t, err)
	manager := harness.Manager{
		Name: "manager", Dir: t.TempDir(), Path: programtest.Daemon(t), Kubeconfig: w.cluster.AdminKubeconfig(), CloudConfig: w.cloud.ConfigFile, Port: port,
		Flags: append(args, "--cloud-provider=sim", "--cluster-name="+simtest.ClusterName, "--cluster-cidr=10.244.0.0/16", "--configure-cloud-routes=true"),
	}
	running := harnesstest.Start(t, nil, manager)
	w.server, w.authority = "https://"+manager.Endpoint().Address, manager.Certificate()
	poll.Within(t, programtest.Patience, "the manager has made itself a certificate", func(context.Context) error {
		_, err := os.Stat(w.authority)
		return errors.Join(err, running.Exited())
	})
	return func() { must.NoError(t, running.Kill()) }
}

// asking returns args with the flags that query the manager with the credentials of a kubeconfig.
func (w *fixture) asking(kubeconfig string, args ...string) []string {
	return append(args, "--kubeconfig="+kubeconfig, "--server="+w.server, "--certificate-authority="+w.authority)
}

// TestReports shows a real cluster, with a manager under --dry-run, by all commands that report.
func TestReports(t *testing.T) {
	w := newFixture(t)
	w.dryRun(t)
	t.Run("plan", w.plan)
	t.Run("status", w.status)
	t.Run("orphans", w.orphans)
	t.Run("port-forward", w.portForward)
}

// TestPlanOfWhatIsDone has a manager do all there is to do, and plans what another one would do in its place: nothing.
func TestPlanOfWhatIsDone(t *testing.T) {
	w := newFixture(t)
	stop := w.start(t)
	poll.Within(t, programtest.Patience, "the Service has its address, and both nodes are targets", func(ctx context.Context) error {
		web, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		balancers, routes := w.cloud.Service.LoadBalancers(), w.cloud.Service.Counts().Received(api.OpCreateRoute)
		if len(web.Status.LoadBalancer.Ingress) == 0 || len(balancers) != 1 || len(balancers[0].Targets) != 2 || routes != 1 {
			return fmt.Errorf("the status is %v, the load balancers are %v, with %d routes", web.Status, balancers, routes)
		}
		return nil
	})
	stop()
	w.dryRun(t)
	admin := w.cluster.AdminKubeconfig()
	poll.Within(t, programtest.Patience, "the plan has compared the load balancer, and has nothing to do", func(context.Context) error {
		code, stdout, stderr := programtest.Call(t, newRoot(), w.asking(admin, "plan", "--exit-code")...)
		if code != cli.ExitOK || !strings.Contains(stdout, "There is nothing to do.") || !strings.Contains(stdout, "Of 1 load balancer nothing differs.") {
			return fmt.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
		}
		return nil
	})
}

func (w *fixture) plan(t *testing.T) {
	admin := w.cluster.AdminKubeconfig()
	var last string
	poll.Within(t, programtest.Patience, "the plan has come together", func(context.Context) error {
		code, stdout, stderr := programtest.Call(t, newRoot(), w.asking(admin, "plan", "--exit-code")...)
		last = stdout
		for _, want := range []string{
			`Plan for cluster "test", provider "sim"`, "\nNode node-001\n", "+ /spec/providerID: \"sim://", "\nRoute 10.244.2.0/24\n",
			"+ CreateRoute in the cloud", "\nService default/web\n", "+ EnsureLoadBalancer in the cloud",
		} {
			if code != cli.ExitDiffers || !strings.Contains(stdout, want) {
				return fmt.Errorf("exit code %d, and it lacks %q:\n%s%s", code, want, stdout, stderr)
			}
		}
		return nil
	})
	if !strings.Contains(last, "2 to create, ") || !strings.HasSuffix(last, " 0 to delete, 0 held\n") {
		t.Errorf("the last line:\n%s", last)
	}
	code, stdout, stderr := programtest.Call(t, newRoot(), w.asking(admin, "plan", "-o", "json")...)
	var plan view.Plan
	err := json.Unmarshal([]byte(stdout), &plan)
	if err != nil || code != cli.ExitOK || plan.Cluster != simtest.ClusterName || len(plan.Intents) < 4 {
		t.Errorf("exit code %d, %v: %s\n%s", code, err, stderr, stdout)
	}
	stranger, err := w.cluster.UserKubeconfig("stranger")
	must.NoError(t, err)
	code, _, stderr = programtest.Call(t, newRoot(), w.asking(stranger, "plan")...)
	if code != cli.ExitFailed || !strings.Contains(stderr, `nonResourceURLs: ["/plan"]`) {
		t.Errorf("a user without rights: exit code %d: %s", code, stderr)
	}
}

func (w *fixture) status(t *testing.T) {
	admin := w.cluster.AdminKubeconfig()
	code, stdout, stderr := programtest.Call(t, newRoot(), w.asking(admin, "status")...)
	for _, want := range []string{
		"Leader: none, there is no such lease", "Cloud: 3 instances by listing, ", "Calls: ", "Nodes: 1 initialized, 1 uninitialized",
		"node-001  uninitialized", "node-002  initialized", "Load balancers: 1 untouched", "default/web  untouched",
	} {
		if code != cli.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, and it lacks %q:\n%s%s", code, want, stdout, stderr)
		}
	}
	code, stdout, stderr = programtest.Call(t, newRoot(), "status", "--kubeconfig="+admin, "-o", "json")
	var status view.Status
	err := json.Unmarshal([]byte(stdout), &status)
	if err != nil || code != cli.ExitOK || len(status.Nodes) != 2 || status.Manager != nil {
		t.Errorf("exit code %d, %v: %s\n%s", code, err, stderr, stdout)
	}
	w.page(t)
	stranger, err := w.cluster.UserKubeconfig("stranger")
	must.NoError(t, err)
	code, stdout, _ = programtest.Call(t, newRoot(), "status", "--kubeconfig="+stranger)
	if code != cli.ExitUnseen || !strings.Contains(stdout, "Not known: the nodes, which you may not read: ") ||
		!strings.Contains(stdout, "Leader: not known") || !strings.Contains(stdout, "Nodes: not known") {
		t.Errorf("a user without rights: exit code %d\n%s", code, stdout)
	}
}

// page runs status --html: the page goes to a file that only the user may read, and the file's name to standard output.
func (w *fixture) page(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "status.html")
	code, stdout, stderr := programtest.Call(t, newRoot(), w.asking(w.cluster.AdminKubeconfig(), "status", "--html="+file)...)
	page, err := os.ReadFile(file)
	must.NoError(t, err)
	for _, want := range []string{"node-001", "default/web", "ListInstances", "without a zone"} {
		if code != cli.ExitOK || stdout != "Wrote "+file+"\n" || !strings.Contains(string(page), want) {
			t.Errorf("exit code %d, and it lacks %q:\n%s%s%s", code, want, page, stdout, stderr)
		}
	}
	// The words by which it tells failures are the running manager's: nothing has failed here.
	if !regexp.MustCompile(`>ListInstances</td><td class="number">[1-9]\d*</td><td class="number">0</td>`).Match(page) {
		t.Errorf("calls that went well are shown as failed:\n%s", page)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if code, stdout, _ := programtest.Call(t, newRoot(), "status", "--kubeconfig="+w.cluster.AdminKubeconfig(), "--html=-"); code != cli.ExitOK ||
		!strings.Contains(stdout, "No manager was asked.") || !strings.HasSuffix(stdout, "</html>\n") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

// leave makes load balancers and routes in the cloud, of which some belong to no object.
func (w *fixture) leave(t *testing.T) {
	t.Helper()
	config, err := os.Open(w.cloud.ConfigFile)
	must.NoError(t, err)
	defer func() { _ = config.Close() }()
	cloud, err := cloudprovider.GetCloudProvider("sim", config)
	must.NoError(t, err)
	balancers, _ := cloud.LoadBalancer()
	own, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	must.NoError(t, err)
	web, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	must.NoError(t, err)
	for service, cluster := range map[types.UID]types.UID{
		web.UID: own.UID, "gone": own.UID, "unmarked": "", "another": "another-cluster",
	} {
		_, err := balancers.EnsureLoadBalancer(provider.WithClusterUID(t.Context(), cluster), simtest.ClusterName, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(service), UID: service}, Spec: web.Spec,
		}, nil)
		must.NoError(t, err)
	}
	known, err := w.cloud.Client.GetInstanceByName(t.Context(), "node-002")
	must.NoError(t, err)
	other, err := w.cloud.Client.GetInstanceByName(t.Context(), "node-003")
	must.NoError(t, err)
	for destination, target := range map[string]string{"10.244.2.0/24": known.ID, "10.244.7.0/24": other.ID, "192.0.2.0/24": other.ID} {
		_, err := w.cloud.Client.CreateRoute(t.Context(), api.RouteSpec{
			Cluster: simtest.ClusterName, Name: "to-" + strings.NewReplacer(".", "-", "/", "-").Replace(destination),
			DestinationCIDR: destination, TargetInstance: target,
		})
		must.NoError(t, err)
	}
}

// counts returns how much is is in the cloud.
func (w *fixture) counts(t *testing.T) (balancers, routes int) {
	t.Helper()
	client := w.cloud.Client
	must.NoError(t, client.ListLoadBalancers(t.Context(), nil, func(page []api.LoadBalancer) error { balancers += len(page); return nil }))
	must.NoError(t, client.ListRoutes(t.Context(), "", func(page []api.Route) error { routes += len(page); return nil }))
	return balancers, routes
}

func (w *fixture) orphans(t *testing.T) {
	w.leave(t)
	args := []string{
		"orphans", "--cloud-provider=sim", "--cloud-config=" + w.cloud.ConfigFile, "--kubeconfig=" + w.cluster.AdminKubeconfig(),
	}
	named := append(args, "--cluster-name="+simtest.ClusterName)
	code, stdout, stderr := programtest.Call(t, newRoot(), append(args, "--cluster-cidr=10.244.0.0/16")...)
	if code != cli.ExitOK || !strings.Contains(stdout, "2 routes to no node; this cluster's beyond doubt: 1\n") {
		t.Errorf("without the cluster's name: exit code %d\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = programtest.Call(t, newRoot(), append(named, "--remove", "--yes")...)
	if code != cli.ExitOK || !strings.Contains(stdout, "2 load balancers of no Service and 2 routes to no node; this cluster's beyond doubt: 1\n") ||
		!strings.Contains(stdout, "unknown, not touched") || strings.Contains(stdout, `"shop/another"`) {
		t.Errorf("without ranges: exit code %d\n%s%s", code, stdout, stderr)
	}
	if balancers, routes := w.counts(t); balancers != 3 || routes != 3 || !strings.Contains(stderr+stdout, "shop/gone") {
		t.Errorf("%d load balancers and %d routes are left, want 3 and 3", balancers, routes)
	}
	w.confirm(t, append(named, "--cluster-cidr=10.244.0.0/16", "--remove"))
	code, stdout, stderr = programtest.Call(t, newRoot(), append(named, "--cluster-cidr=10.244.0.0/16", "-o", "json")...)
	if code != cli.ExitOK || !strings.Contains(stdout, `"destination": "192.0.2.0/24"`) ||
		strings.Contains(stdout, `"proven": true`) {
		t.Errorf("afterwards: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// confirm declines at a terminal first, and agrees then.
func (w *fixture) confirm(t *testing.T, args []string) {
	w.answer(t, args, "y\n", cli.ExitFailed, 3)
	w.answer(t, args, "yes\n", cli.ExitOK, 2)
}

func (w *fixture) answer(t *testing.T, args []string, typed string, code, routes int) {
	t.Helper()
	p := programtest.Prepare(t, args...)
	terminal := p.OnTerminal(100, 30)
	p.Await("Remove 0 load balancers and 1 route of cluster")
	terminal.Write(typed)
	if got := p.Exit(); got != code {
		t.Errorf("%q: exit code %d, want %d", typed, got, code)
	}
	if _, got := w.counts(t); got != routes {
		t.Errorf("%q: %d routes are left, want %d", typed, got, routes)
	}
}
