package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/check"
	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// TestCheck checks clusters on a real API server: an empty one, and one in which much is wrong, by callers with and without rights.
func TestCheck(t *testing.T) {
	cluster := localclustertest.Start(t)
	admin := kubernetes.NewForConfigOrDie(cluster.AdminConfig())
	t.Run("an empty cluster", func(t *testing.T) {
		report, code := checked(t, cluster.AdminKubeconfig())
		if code != cli.ExitFailed || report["leader"].State != check.Error || report["kubelets"].State != check.Absent ||
			report["api-server"].State != check.OK || report["pods"].State != check.Absent {
			t.Errorf("exit code %d: %+v", code, report)
		}
	})
	breakCluster(t, cluster, admin)
	t.Run("by its administrator", func(t *testing.T) {
		report, code := checked(t, cluster.AdminKubeconfig())
		if code != cli.ExitFailed {
			t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
		}
		findsAll(t, report)
		code, stdout, stderr := programtest.Call(t, newRoot(), "check", "--kubeconfig="+cluster.AdminKubeconfig())
		if code != cli.ExitFailed || !strings.Contains(stdout, "ERROR   Rights of the manager\n") || stderr != "" {
			t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
		}
	})
	t.Run("with the documented rights", func(t *testing.T) {
		must.NoError(t, cluster.Apply(t.Context(), documentedRole(t)))
		kubeconfig, err := cluster.UserKubeconfig("checker")
		must.NoError(t, err)
		report, _ := checked(t, kubeconfig)
		findsAll(t, report)
		for _, result := range report {
			if len(result.Unknown) > 0 {
				t.Errorf("%s: %q", result.Name, result.Unknown)
			}
		}
	})
	t.Run("without rights", func(t *testing.T) {
		kubeconfig, err := cluster.UserKubeconfig("stranger")
		must.NoError(t, err)
		report, code := checked(t, kubeconfig)
		if code != cli.ExitUnseen {
			t.Errorf("exit code %d, want %d", code, cli.ExitUnseen)
		}
		for name, result := range report {
			if known := name == "api-server"; known != (result.State == check.OK) || !known && result.State != check.Unknown {
				t.Errorf("%s is %q: %+v", name, result.State, result)
			}
		}
	})
}

// TestCheckWithoutAPIServer expects the exit code ExitUnseen when the API server does not answer.
func TestCheckWithoutAPIServer(t *testing.T) {
	kubeconfig, err := os.ReadFile(kubeconfigWith(t, "token"))
	must.NoError(t, err)
	unreachable := write(t, strings.ReplaceAll(string(kubeconfig), "192.0.2.1:6443", "127.0.0.1:1"))
	code, _, stderr := programtest.Call(t, newRoot(), "check", "--kubeconfig="+unreachable)
	if code != cli.ExitUnseen || !strings.Contains(stderr, "asking the API server for its version") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// breakCluster makes much of a cluster wrong. Its manager lacks the right to delete nodes.
func breakCluster(t *testing.T, cluster *localcluster.Cluster, admin *kubernetes.Clientset) {
	t.Helper()
	manifest, err := os.ReadFile("testdata/check.yaml")
	must.NoError(t, err)
	rights := strings.Replace(string(deploy.MetalRBAC), "[update, patch, delete]", "[update, patch]", 1)
	if rights == string(deploy.MetalRBAC) {
		t.Fatal("the manifest no longer grants the deletion of nodes in these words")
	}
	must.NoError(t, cluster.Apply(t.Context(), []byte(rights)))
	must.NoError(t, cluster.Apply(t.Context(), manifest))
	pod, err := admin.CoreV1().Pods("kube-system").Get(t.Context(), "mooring-a", metav1.GetOptions{})
	must.NoError(t, err)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "m", Image: "example/cloud-controller-manager:1", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"},
	}}}
	_, err = admin.CoreV1().Pods("kube-system").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must.NoError(t, err)
	_, err = admin.CoreV1().Nodes().Patch(t.Context(), "twin-a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		metav1.PatchOptions{FieldManager: "aws-cloud-controller-manager"})
	must.NoError(t, err)
	long := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	_, err = admin.CoordinationV1().Leases("kube-system").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("gone_1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &long, AcquireTime: &long},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
}

// findsAll checks that what is wrong is found.
func findsAll(t *testing.T, report map[string]check.Result) {
	t.Helper()
	for name, want := range map[string][]string{
		"kubelets":                {"1 node has neither a provider ID nor the taint"},
		"kube-controller-manager": {"--cloud-provider=aws"},
		"kube-proxy":              {"127.0.0.1:10256"},
		"pods":                    {`cannot be pulled: ErrImagePull: no such host`},
		"leader":                  {"gone_1 has not renewed the lease"},
		"rights":                  {"ServiceAccount kube-system/cloud-controller-manager may not delete nodes"},
		"other-managers":          {`"aws-cloud-controller-manager" has written 1 node`},
		"provider-ids":            {"twin-a and twin-b have one provider ID", "1 aws://, 2 sim://"},
	} {
		var seen []string
		for _, finding := range report[name].Findings {
			seen = append(seen, finding.Seen)
		}
		if len(seen) != len(want) {
			t.Errorf("%s: found %q, want %q", name, seen, want)
			continue
		}
		for i := range want {
			if !strings.Contains(seen[i], want[i]) {
				t.Errorf("%s: found %q, want %q", name, seen[i], want[i])
			}
		}
	}
	if report["api-server"].State != check.OK || report["taints"].State != check.OK {
		t.Errorf("%+v, %+v", report["api-server"], report["taints"])
	}
}

// checked returns the results of a check by name, and the exit code.
func checked(t *testing.T, kubeconfig string) (map[string]check.Result, int) {
	t.Helper()
	code, stdout, stderr := programtest.Call(t, newRoot(), "check", "--kubeconfig="+kubeconfig, "-o", "json")
	var report check.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("exit code %d, %v: %s\n%s", code, err, stderr, stdout)
	}
	results := map[string]check.Result{}
	for _, result := range report.Results {
		results[result.Name] = result
	}
	return results, code
}

// documentedRole is the ClusterRole of the documentation, bound to the user "checker".
func documentedRole(t *testing.T) []byte {
	t.Helper()
	page, err := os.ReadFile("../../docs/how-to/check-a-cluster.md")
	must.NoError(t, err)
	match := regexp.MustCompile("(?s)```yaml\n(.*?kind: ClusterRole\n.*?)```").FindSubmatch(page)
	if match == nil {
		t.Fatal("the page has no ClusterRole")
	}
	return append(match[1], []byte(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "mooring:check"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "mooring:check"}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: checker}]
`)...)
}

// Every check has its section in the documentation, to which its results lead.
func TestChecksAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/check-a-cluster.md")
	must.NoError(t, err)
	for _, name := range check.Names() {
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("the page has no section %q", name)
		}
	}
}
