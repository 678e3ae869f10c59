package localcluster_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/dev/program"
)

var allPrograms = []string{"etcd", "kube-apiserver", "kube-controller-manager"}

func TestStartAndStop(t *testing.T) {
	binaries := localclustertest.Build(t)
	begun := time.Now()
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{Binaries: binaries, ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(begun))
	running := programsIn(t, cluster.Dir())
	slices.Sort(running)
	if diff := cmp.Diff(allPrograms, running); diff != "" {
		t.Errorf("running programs (-want +got):\n%s", diff)
	}
	version, err := adminClient(t, cluster).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if want := binaries.Version(); version.GitVersion != want || !strings.HasPrefix(want, "v"+version.Major+"."+version.Minor+".") {
		t.Errorf("kube-apiserver says it is %+v, want %s", version, want)
	}
	begun = time.Now()
	if err := cluster.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %s", time.Since(begun))
	if left := programsIn(t, cluster.Dir()); len(left) > 0 {
		t.Errorf("after Stop there still are %v", left)
	}
	if _, err := os.Stat(cluster.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
	if err := cluster.Stop(t.Context()); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

func TestTwoAtOnce(t *testing.T) {
	one := localclustertest.Start(t)
	two := localclustertest.Start(t, func(options *localcluster.Options) { options.BindAddress = netip.IPv6Loopback() })
	if one.AdminConfig().Host == two.AdminConfig().Host {
		t.Fatalf("both listen on %s", one.AdminConfig().Host)
	}
	if err := one.Apply(t.Context(), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: only-one}}")); err != nil {
		t.Fatal(err)
	}
	_, err := adminClient(t, two).CoreV1().Namespaces().Get(t.Context(), "only-one", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of one cluster in the other: %v", err)
	}
	mixed := two.AdminConfig()
	mixed.Host = one.AdminConfig().Host
	_, err = kubernetes.NewForConfigOrDie(mixed).Discovery().ServerVersion()
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Errorf("one cluster's authority is trusted by the other's clients: %v", err)
	}
}

func TestParentKilled(t *testing.T) {
	localclustertest.Build(t)
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentDir+"="+dir)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "started\n" {
		t.Fatalf("the parent said %q: %v", line, err)
	}
	if running := programsIn(t, dir); len(running) != len(allPrograms) {
		t.Fatalf("running are %v, want %v", running, allPrograms)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	requireNothingRuns(t, dir)
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cluster, err := localcluster.Start(ctx, localcluster.Options{Binaries: localclustertest.Build(t), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	requireNothingRuns(t, cluster.Dir())
	if err := cluster.Stop(t.Context()); err != nil {
		t.Errorf("Stop after the context ended: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	t.Run("every wrong option is reported", func(t *testing.T) {
		_, err := localcluster.Start(t.Context(), localcluster.Options{Audit: "All", NodeMonitorPeriod: time.Second})
		must.ErrorContains(t, err, "Binaries: Required value", `Audit: Unsupported value: "All"`, "NodeMonitorPeriod: Forbidden")
	})
	t.Run("a directory of another control plane", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "etcd/member/file", "")
		_, err := localcluster.Start(t.Context(), localcluster.Options{Binaries: localclustertest.Build(t), Dir: dir})
		must.ErrorContains(t, err, dir+" holds a control plane already")
	})
	t.Run("a program that ends is quoted, its log kept, the others stopped", func(t *testing.T) {
		_, err := localcluster.Start(t.Context(), localcluster.Options{
			Binaries: localclustertest.Build(t), APIServerArgs: []string{"--no-such-flag"},
		})
		var exit *program.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("error %v, want an ExitError", err)
		}
		must.ErrorContains(t, err, "kube-apiserver", "unknown flag: --no-such-flag", exit.Log)
		if _, err := os.Stat(exit.Log); err != nil {
			t.Errorf("the log: %v", err)
		}
		dir := filepath.Dir(exit.Log)
		if left := programsIn(t, dir); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Run("the context ends while it starts", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		impatient := errors.New("impatient")
		cancel(impatient)
		dir := t.TempDir()
		_, err := localcluster.Start(ctx, localcluster.Options{Binaries: localclustertest.Build(t), Dir: dir})
		if !errors.Is(err, impatient) {
			t.Errorf("error %v, want the cause %v", err, impatient)
		}
		if left := programsIn(t, dir); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
	})
}

func TestAPIServerRestart(t *testing.T) {
	cluster := localclustertest.Start(t)
	client := adminClient(t, cluster)
	if err := cluster.Apply(t.Context(), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: kept}}")); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartAPIServer(t.Context()); err == nil {
		t.Error("starting a running kube-apiserver is no error")
	}
	if err := cluster.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := client.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error of a request while it is stopped: %v, want connection refused", err)
	}
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the same client after the restart: %v", err)
	}
}

// TestRights has one cluster for everything that is about who may do what.
func TestRights(t *testing.T) {
	cluster := localclustertest.Start(t, func(options *localcluster.Options) { options.Audit = auditv1.LevelMetadata })
	t.Run("service account", func(t *testing.T) { testServiceAccount(t, cluster) })
	t.Run("kubelet", func(t *testing.T) { testKubeletIdentity(t, cluster) })
	t.Run("audit", func(t *testing.T) { testAudit(t, cluster) })
	t.Run("audit of writes under way", func(t *testing.T) { testAuditOfWritesUnderWay(t, cluster) })
	t.Run("kubeconfigs", func(t *testing.T) { testKubeconfigsAreWhole(t, cluster) })
	t.Run("apply", func(t *testing.T) { testApply(t, cluster) })
	t.Run("audit of writes cut off", func(t *testing.T) { testAuditOfWritesCutOff(t, cluster) })
}

func testServiceAccount(t *testing.T, cluster *localcluster.Cluster) {
	path, err := cluster.ServiceAccountKubeconfig(t.Context(), "kube-system", "reader")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("listing nodes without a role: %v, want forbidden", err)
	}
	if err := cluster.Apply(t.Context(), []byte(readerRole)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the role is in effect", func(ctx context.Context) error {
		_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("creating a node with the right to read: %v, want forbidden", err)
	}
}

const readerRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: reader
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
---
# An empty document is no object.
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: reader
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: kube-system}
`

func testKubeletIdentity(t *testing.T, cluster *localcluster.Cluster) {
	config, err := cluster.UserConfig("system:node:mine", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	nodes := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes()
	for name, allowed := range map[string]bool{"mine": true, "other": false} {
		_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if got := err == nil; got != allowed {
			t.Errorf("a kubelet creates the node %q: %v, want allowed = %v", name, err, allowed)
		}
	}
}

// A program may be reading its kubeconfig while another one of the same user gets it.
func testKubeconfigsAreWhole(t *testing.T, cluster *localcluster.Cluster) {
	path, err := cluster.UserKubeconfig("reader")
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		var err error
		for range 100 {
			_, again := cluster.UserKubeconfig("reader")
			err = errors.Join(err, again)
		}
		written <- err
	}()
	for {
		if config, err := clientcmd.LoadFromFile(path); err != nil || config.CurrentContext == "" {
			t.Errorf("half a kubeconfig: %+v, %v", config, err)
		}
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

func testApply(t *testing.T, cluster *localcluster.Cluster) {
	for want, manifest := range map[string]string{
		"document 2: an object needs kind": "{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\nname: b",
		"document 1: ":                     "a: [",
		`no matches for kind "Unknown"`:    "{apiVersion: example.com/v1, kind: Unknown, metadata: {name: a}}",
	} {
		must.ErrorContains(t, cluster.Apply(t.Context(), []byte(manifest)), want)
	}
	for _, value := range []string{"one", "two"} {
		manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}, data: {key: " + value + "}}"
		if err := cluster.Apply(t.Context(), []byte(manifest)); err != nil {
			t.Fatal(err)
		}
		got, err := adminClient(t, cluster).CoreV1().ConfigMaps("default").Get(t.Context(), "c", metav1.GetOptions{})
		if err != nil || got.Data["key"] != value {
			t.Errorf("applied %q, got %v, %v", value, got, err)
		}
	}
}

func adminClient(t *testing.T, cluster *localcluster.Cluster) kubernetes.Interface {
	t.Helper()
	fromFile, err := clientcmd.BuildConfigFromFlags("", cluster.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(fromFile)
}
