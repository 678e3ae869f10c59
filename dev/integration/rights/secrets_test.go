package rights_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// secrets are values that must not appear anywhere, by their description.
type secrets map[string]string

// add makes a value that occurs nowhere by chance.
func (s secrets) add(what string) string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	s[what] = "secret" + hex.EncodeToString(random[:])
	return s[what]
}

// file makes a value in a file of its own, and returns its path.
func (s secrets) file(t *testing.T, what string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	must.NoError(t, os.WriteFile(path, []byte(s.add(what)), 0o600))
	return path
}

// addToken adds the token of a kubeconfig.
func (s secrets) addToken(t *testing.T, what, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must.NoError(t, err)
	s[what] = config.BearerToken
	return config.BearerToken
}

// requireAbsent fails if a text holds one of them, as it is, in Base64 as in a header for Basic authentication, or in parts, as in a dump
// of bytes.
func (s secrets) requireAbsent(t *testing.T, where, text string) {
	t.Helper()
	if text == "" {
		t.Errorf("there is nothing in %s: this test looks in the wrong place", where)
	}
	for what, value := range s {
		parts := map[string]string{"": value, " in Base64": base64.StdEncoding.EncodeToString([]byte("admin:" + value)),
			" as bytes": hex.Dump([]byte(value))[10:34]}
		for how, part := range parts {
			if at := strings.Index(text, part); at >= 0 {
				t.Errorf("%s%s is in %s: %s", what, how, where, text[max(0, at-400):min(len(text), at+100)])
			}
		}
	}
}

// echo is a server that answers everything with 401 and what it was sent, or passes it on.
type echo struct {
	url    string
	broken atomic.Bool
}

// newEcho serves with TLS or without until the test ends. Once it is not broken, it passes everything on to a simulated cloud, with the
// token that this one takes.
func newEcho(t *testing.T, to string, secure bool) *echo {
	t.Helper()
	e := &echo{}
	e.broken.Store(true)
	target, err := url.Parse(to)
	must.NoError(t, err)
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.broken.Load() {
			r.Header.Set("Authorization", "Bearer "+simtest.Token)
			forward.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, password, _ := r.BasicAuth()
		w.Header().Set("WWW-Authenticate", r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		said, _ := json.Marshal(r.Header.Get("Authorization") + password + string(body))
		_, _ = fmt.Fprintf(w, `{"error": {"code": %s, "message": %s}, "reason": %s, "message": %s}`, said, said, said, said)
	}))
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// TestSecretsOfACloudStaySecret has the manager log everything while a cloud refuses its token, repeats it, and goes away.
func TestSecretsOfACloudStaySecret(t *testing.T) {
	s := newSimScenario(t, deploy.SeparateIdentitiesRBAC)
	known := secrets{}
	s.delegate()
	known.addToken(t, "the manager's token", s.kubeconfig)
	scraping := s.mayReadAll(t, known)
	s.throughEcho(t, known)
	spans := s.traced(t)
	s.args = append(s.args, "--v=10", "--logging-format=text", "--use-service-account-credentials", "--service-account-prefix=cloud-controller-manager-")
	s.ready = "/livez"
	s.run(t, []step{{"the cloud refuses", func(t *testing.T, s *scenario) {
		s.launch(t)
		s.register(t, "node-001")
		s.awaitEvent(t, "node-001", "CloudError", 1)
	}}})
	s.requireSecretReports(t, known)
	s.requireSecret(t, known, scraping)
	if requireSecretSpans(t, known, spans) == 0 {
		t.Error("no span carries an error: this test looks in the wrong place")
	}
}

// throughEcho has the manager reach its cloud through an echo, with a token that is a secret, as is one in its environment.
func (s *scenario) throughEcho(t *testing.T, known secrets) *echo {
	t.Helper()
	cloud := newEcho(t, s.cloud.URL, false)
	config := filepath.Join(t.TempDir(), "cloud.yaml")
	text, err := os.ReadFile(s.cloud.ConfigFile)
	must.NoError(t, err)
	replaced := strings.NewReplacer(s.cloud.URL, cloud.url, s.cloud.TokenFile, known.file(t, "the cloud's token")).Replace(string(text))
	must.NoError(t, os.WriteFile(config, []byte(replaced), 0o600))
	t.Setenv("TEST_PLUGIN_SECRET", known.add("the plugin's environment"))
	s.args = append(s.args, "--cloud-config="+config)
	return cloud
}

// TestSecretsOfMachinesStaySecret has the manager log everything while management controllers and routers refuse passwords.
func TestSecretsOfMachinesStaySecret(t *testing.T) {
	s := newScenario(t, deploy.MetalRBAC)
	known := secrets{}
	s.delegate()
	known.addToken(t, "the manager's token", s.kubeconfig)
	scraping := s.mayReadAll(t, known)
	bmc, another := newEcho(t, "", true), newEcho(t, "", true)
	config := fmt.Sprintf(`apiVersion: metal.mooring.dev/v1alpha1
kind: MetalCloudConfig
pools: [{name: public, addresses: [192.0.2.0/28]}]
announcement: {podRoutes: false}
bgp: {asn: 64512, peers: [{name: rack, address: 127.0.0.1, port: 1, asn: 64512, passwordFile: %s}]}
power: {interval: 1s, timeout: 500ms}
inventory:
  defaults: {bmc: {credentials: {username: admin, passwordFile: %s}}}
  machines:
  - {name: m1, addresses: [{address: 10.0.0.1}], bmc: {redfish: {endpoint: "%s", insecureSkipVerify: true, auth: Basic}}}
  - {name: m2, addresses: [{address: 10.0.0.2}], bmc: {redfish: {endpoint: "%s", insecureSkipVerify: true, auth: Session}}}
  - {name: m3, addresses: [{address: 10.0.0.3}], bmc: {redfish: {endpoint: "https://127.0.0.1:1", auth: Basic}}}
  - {name: m4, addresses: [{address: 10.0.0.4}], bmc: {ipmi: {address: "127.0.0.1:2"}}}
`, known.file(t, "the router's password"), known.file(t, "the password of management controllers"), bmc.url, another.url)
	// As an operator who keeps everything in one Secret: the manager reads and watches the object.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "clouds"},
		StringData: map[string]string{"cloud.yaml": config, "other": known.add("another key of the Secret")}}
	_, err := s.admin.CoreV1().Secrets("kube-system").Create(t.Context(), secret, metav1.CreateOptions{})
	must.NoError(t, err)
	must.NoError(t, s.cluster.Apply(t.Context(), []byte(configReader)))
	spans := s.traced(t)
	s.args = append(s.args, "--cloud-provider=metal", "--cloud-config-object=secret/kube-system/clouds/cloud.yaml", "--v=10")
	s.ready = "/livez"
	s.run(t, []step{{"management controllers refuse", func(t *testing.T, s *scenario) {
		s.launch(t)
		s.join(t, "m1")
		poll.Until(t, "the log says of every machine that it cannot be asked", func(context.Context) error {
			text, err := os.ReadFile(s.leader().LogPath())
			if said := strings.Count(string(text), "does not report the power state"); err == nil && said < 4 {
				err = fmt.Errorf("it does of %d", said)
			}
			return err
		})
	}}})
	s.requireSecretReports(t, known)
	s.requireSecret(t, known, scraping)
	requireSecretSpans(t, known, spans)
}

// configReader lets the manager read its cloud config.
const configReader = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: clouds, namespace: kube-system}
rules: [{apiGroups: [""], resources: [secrets], resourceNames: [clouds], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: clouds, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: clouds}
subjects: [{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}]
`

// allReader is a ServiceAccount default/reader that may read everything that is served, and what the tool reports of.
const allReader = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {nonResourceURLs: ["*"], verbs: [get]}
- {apiGroups: ["", coordination.k8s.io], resources: [nodes, services, events, leases], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
`

// mayReadAll returns the token of default/reader, which is a secret as well: the manager has it looked at.
func (s *scenario) mayReadAll(t *testing.T, known secrets) string {
	t.Helper()
	must.NoError(t, s.cluster.Apply(t.Context(), []byte(allReader)))
	var err error
	s.reader, err = s.cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceDefault, "reader")
	must.NoError(t, err)
	return known.addToken(t, "the token of a caller", s.reader)
}

// requireSecret looks for secrets in everything that a run has produced: what is served, at more paths too, what is in the API, the log
// and all files. It ends the manager.
func (s *scenario) requireSecret(t *testing.T, known secrets, token string, more ...string) {
	t.Helper()
	for _, path := range append([]string{
		"/healthz?verbose", "/readyz?verbose", "/livez?verbose", "/metrics", "/metrics/slis", "/configz",
		"/debug/pprof/", "/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1",
	}, more...) {
		var body string
		poll.Until(t, path+" is served", func(ctx context.Context) (err error) {
			body, err = s.leader().read(ctx, path, token)
			return err
		})
		known.requireAbsent(t, path, body)
	}
	for kind, list := range s.objects(t) {
		text, err := json.Marshal(list)
		must.NoError(t, err)
		known.requireAbsent(t, "the "+kind+" of the API", string(text))
	}
	s.leader().terminate(t)
	must.NoError(t, filepath.WalkDir(s.leader().dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if len(text) > 0 || entry.Name() != terminationLog { // no replica leads in a dry run
			known.requireAbsent(t, "file "+entry.Name(), string(text))
		}
		return err
	}))
	log, err := os.ReadFile(s.leader().LogPath())
	must.NoError(t, err)
	known.requireAbsent(t, "the log", string(log))
}

// objects returns all objects that the manager may have written, by their kind.
func (s *scenario) objects(t *testing.T) map[string]runtime.Object {
	t.Helper()
	core, all := s.admin.CoreV1(), metav1.ListOptions{}
	nodes, err := core.Nodes().List(t.Context(), all)
	must.NoError(t, err)
	services, err := core.Services("").List(t.Context(), all)
	must.NoError(t, err)
	events, err := core.Events("").List(t.Context(), all)
	must.NoError(t, err)
	accounts, err := core.ServiceAccounts("").List(t.Context(), all)
	must.NoError(t, err)
	maps, err := core.ConfigMaps("").List(t.Context(), all)
	must.NoError(t, err)
	leases, err := s.admin.CoordinationV1().Leases("").List(t.Context(), all)
	must.NoError(t, err)
	return map[string]runtime.Object{
		"Nodes": nodes, "Services": services, "Events": events, "ServiceAccounts": accounts, "ConfigMaps": maps, "Leases": leases,
	}
}

// read returns what the secure port answers.
func (d *daemon) read(ctx context.Context, path, token string) (string, error) {
	status, body, err := d.Get(ctx, path, token)
	if err == nil && status != http.StatusOK && !strings.HasPrefix(path, "/readyz") {
		err = fmt.Errorf("%s is answered with %d", path, status)
	}
	return body, err
}
