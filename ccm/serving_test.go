package ccm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// endpoint is the secure port of a program.
type endpoint struct{ harness.Endpoint }

func newEndpoint(t *testing.T, port string) endpoint {
	t.Helper()
	// The certificate is made by the program for itself; kubelets that probe do not check it either.
	return endpoint{harness.Endpoint{Address: "127.0.0.1:" + port}}
}

// get returns the status and the body of an answer.
func (e endpoint) get(t *testing.T, path, token string) (int, string, error) {
	t.Helper()
	return e.Get(t.Context(), path, token)
}

// await waits until a path is answered with the status.
func (e endpoint) await(t *testing.T, path string, status int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%s is answered with %d", path, status), func(context.Context) error {
		code, body, err := e.get(t, path, "")
		if err != nil || code != status {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		return nil
	})
}

// scraperToken returns a token of a ServiceAccount that may get everything that is served, and of one that may nothing.
func tokens(t *testing.T, client kubernetes.Interface) (may, mayNot string) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "scraper"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "scraper"}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	// The API server sees the binding a little later, and programs keep an early denial for a while.
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:                  "system:serviceaccount:default:scraper",
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}}
	poll.Until(t, "the scraper may get what is served", func(ctx context.Context) error {
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return poll.Holds(answer.Status.Allowed)
	})
	token := func(name string) string {
		accounts := client.CoreV1().ServiceAccounts("default")
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		issued, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return issued.Status.Token
	}
	return token("scraper"), token("stranger")
}

func TestSecurePort(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	port := localclustertest.FreePort(t)
	r := newReplicas(t, cluster, kubeconfig, "--secure-port="+port, "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig, "--cluster-name=harbor")
	r.lead(t)
	secure := newEndpoint(t, port)
	secure.await(t, "/readyz", http.StatusOK)
	may, mayNot := tokens(t, r.client)

	for _, test := range []struct {
		path  string
		token string
		want  int
		body  []string
	}{
		{"/healthz", "", http.StatusOK, nil},
		{"/livez", "", http.StatusOK, nil},
		{"/readyz", "", http.StatusOK, nil},
		{"/healthz?verbose", "", http.StatusOK, []string{"[+]ping ok", "[+]leaderElection ok", "[+]" + beating + " ok"}},
		{"/readyz?verbose", "", http.StatusOK, []string{"[+]informer-sync ok", "[+]cloud-provider ok", "[+]leaderElection ok", "[+]" + beating + " ok"}},
		{"/readyz/" + beating, "", http.StatusForbidden, nil},
		{"/readyz/" + beating, may, http.StatusOK, nil},
		{"/metrics", "", http.StatusForbidden, nil},
		{"/metrics", "not.a.token", http.StatusUnauthorized, nil},
		{"/metrics", mayNot, http.StatusForbidden, nil},
		{"/metrics", may, http.StatusOK, []string{
			"\nmooring_build_info{", "\ngo_goroutines ", "\nprocess_cpu_seconds_total ", `leader_election_master_status{name="cloud-controller-manager"} 1`,
			`rest_client_requests_total{`, `running_managed_controllers{manager="cloud-controller-manager",name="` + beating + `"} 1`,
		}},
		{"/metrics/slis", may, http.StatusOK, []string{"kubernetes_healthcheck{"}},
		{"/configz", "", http.StatusForbidden, nil},
		{"/configz", may, http.StatusOK, nil},
		{"/debug/pprof/goroutine?debug=1", "", http.StatusForbidden, nil},
		{"/debug/pprof/goroutine?debug=1", may, http.StatusOK, []string{"goroutine profile:"}},
	} {
		t.Run(test.path, func(t *testing.T) {
			code, body, err := secure.get(t, test.path, test.token)
			if err != nil || code != test.want {
				t.Fatalf("%d %v, want %d:\n%s", code, err, test.want, body)
			}
			for _, want := range test.body {
				if !strings.Contains(body, want) {
					t.Errorf("the answer does not say %q:\n%s", want, body)
				}
			}
		})
	}
	t.Run("configz says what runs", func(t *testing.T) {
		_, body, err := secure.get(t, "/configz", may)
		if err != nil {
			t.Fatal(err)
		}
		var configz struct {
			Configuration struct {
				Kind            string
				Generic         struct{ Controllers []string }
				KubeCloudShared struct{ ClusterName string }
			} `json:"cloudcontrollermanager.config.k8s.io"`
		}
		if err := json.Unmarshal([]byte(body), &configz); err != nil {
			t.Fatal(err)
		}
		got := configz.Configuration
		if got.Kind != "CloudControllerManagerConfiguration" || got.KubeCloudShared.ClusterName != "harbor" ||
			len(got.Generic.Controllers) != 1 || got.Generic.Controllers[0] != beating {
			t.Errorf("%+v", got)
		}
	})
}

// TestReadinessOfEachReplica shows what an operator sees of a standby, and of a leader whose plugin does not come up.
func TestReadinessOfEachReplica(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	leading, waiting := localclustertest.FreePort(t), localclustertest.FreePort(t)
	r := newReplicas(t, cluster, kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	hanging, written := cloudConfig(t, func(settings *callLogConfig) { settings.Hang = true })

	leader := start(t, append(r.args, "--cloud-config="+hanging, "--secure-port="+leading)...)
	written.awaitEntry(t, leader.PID(), "Initialize")
	secure := newEndpoint(t, leading)
	secure.await(t, "/readyz", http.StatusInternalServerError)
	if _, body, _ := secure.get(t, "/readyz", ""); !strings.Contains(body, "[-]cloud-provider failed") || !strings.Contains(body, "[+]"+beating+" ok") {
		t.Errorf("readyz of a leader whose plugin hangs:\n%s", body)
	}
	may, _ := tokens(t, r.client)
	if _, body, _ := secure.get(t, "/readyz/cloud-provider", may); !strings.Contains(body, `cloud provider "callLog" has not returned from Initialize for`) {
		t.Errorf("the check does not say why: %s", body)
	}
	secure.await(t, "/livez", http.StatusOK)

	standby := start(t, append(r.args, "--secure-port="+waiting)...)
	newEndpoint(t, waiting).await(t, "/readyz", http.StatusOK)
	leader.signal(t, syscall.SIGTERM)
	if code := leader.wait(t); code != 0 {
		t.Errorf("exit code %d of the leader whose plugin hung until it was stopped, want 0", code)
	}
	for _, what := range r.callLog.of(t, leader.PID()) {
		if what == beating+" started" {
			t.Error("a controller ran before Initialize returned")
		}
	}
	r.callLog.awaitEntry(t, standby.PID(), beating+" started")
}

// TestServiceAccountCredentials shows who writes what, by the API server's own audit log.
func TestServiceAccountCredentials(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	for name, test := range map[string]struct {
		flag, writer string
	}{
		"one identity":     {"--use-service-account-credentials=false", "system:serviceaccount:kube-system:cloud-controller-manager"},
		"an identity each": {"--use-service-account-credentials", "system:serviceaccount:kube-system:node-controller"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplicas(t, cluster, kubeconfig, test.flag, "--controllers="+writing)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "written", Labels: map[string]string{"managed": "by-this-test"}}}
			if _, err := r.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.client.CoreV1().Nodes().Delete(t.Context(), "written", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}()
			before, err := cluster.AuditEvents(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := start(t, r.args...)
			r.callLog.awaitEntry(t, p.PID(), "node written")
			r.callLog.awaitEntry(t, p.PID(), "managed fields of the cached node: 0")
			poll.Until(t, "the controller's event is there", func(ctx context.Context) error {
				events, err := r.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=Written"})
				if err != nil || len(events.Items) == 0 || events.Items[0].Source.Component != writing {
					return fmt.Errorf("%v %v", events, err)
				}
				return nil
			})
			after, err := cluster.AuditEvents(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var writers []string
			for _, event := range after[len(before):] {
				if event.Verb == "patch" && event.ObjectRef.Resource == "nodes" {
					writers = append(writers, event.User.Username)
				}
			}
			if len(writers) != 1 || writers[0] != test.writer {
				t.Errorf("the node was written by %q, want %q", writers, test.writer)
			}
		})
	}
}

// TestJSONLogs shows that every line is JSON, whichever library wrote it.
func TestJSONLogs(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	r := newReplicas(t, cluster, kubeconfig, "--logging-format=json", "--v=2")
	p := r.lead(t)
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	lines := strings.Split(strings.TrimSpace(p.Output()), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if len(lines) < 10 {
		t.Errorf("only %d lines", len(lines))
	}
}
