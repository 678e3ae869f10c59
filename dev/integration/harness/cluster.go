package harness

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// stopTimeout is when a control plane that does not stop is killed.
const stopTimeout = poll.Deadline

// Main runs the tests of a package on a shared control plane, with the shipped rights and an audit log. It returns the exit code. Before the first
// test it calls ready with the control plane and a client of its administrator. It fails if a goroutine is left that is not ignored. It leaves no
// files behind, except the control plane's files if a test failed.
func Main(m *testing.M, name string, ready func(*localcluster.Cluster, *kubernetes.Clientset), ignored ...goleak.Option) int {
	return MainOn(m, name, func(*localcluster.Options) {}, ready, ignored...)
}

// MainOn is Main on a control plane that is made otherwise.
func MainOn(m *testing.M, name string, configure func(*localcluster.Options), ready func(*localcluster.Cluster, *kubernetes.Clientset),
	ignored ...goleak.Option,
) int {
	// Each manager has a logger of its test; these are for what is logged outside of all.
	logf.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	code, err := run(context.Background(), m, name, configure, ready, ignored)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(ctx context.Context, m *testing.M, name string, configure func(*localcluster.Options),
	ready func(*localcluster.Cluster, *kubernetes.Clientset), ignored []goleak.Option,
) (code int, err error) {
	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{
		Parts: []localcluster.Part{localcluster.ControlPlane}, Progress: os.Stderr,
	})
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mooring-"+name+"-test-")
	if err != nil {
		return 1, err
	}
	options := localcluster.Options{Binaries: binaries, Dir: dir, Audit: auditv1.LevelMetadata}
	configure(&options)
	cluster, err := managers.Open(ctx, options, managers.Mooring)
	if err != nil {
		return 1, err
	}
	ready(cluster.Cluster, cluster.Client)
	code = m.Run()
	stopping, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := cluster.Stop(stopping); err != nil {
		return 1, err
	}
	if code != 0 {
		return code, fmt.Errorf("logs and data of the control plane are kept in %s", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return 1, err
	}
	return 0, goleak.Find(ignored...)
}

// accounts are the client configurations of ServiceAccounts. Tests that run side by side share them.
var accounts = struct {
	sync.Mutex
	configs map[accountOf]*rest.Config
}{configs: map[accountOf]*rest.Config{}}

// accountOf is a ServiceAccount of a control plane.
type accountOf struct {
	cluster *localcluster.Cluster
	name    string
}

// ConfigOf returns a client configuration with the rights of a ServiceAccount in kube-system. It does not throttle.
func ConfigOf(t testing.TB, cluster *localcluster.Cluster, account string) *rest.Config {
	t.Helper()
	accounts.Lock()
	defer accounts.Unlock()
	key := accountOf{cluster, account}
	if accounts.configs[key] == nil {
		kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), managers.Namespace, account)
		must.NoError(t, err)
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		must.NoError(t, err)
		config.QPS = -1
		accounts.configs[key] = config
	}
	return rest.CopyConfig(accounts.configs[key])
}
