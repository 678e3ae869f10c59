package rights_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// TestSecurePortIsClosed requests every path, the plan of a dry run included: anonymously, with an invalid token, without rights, and with the right
// to read. Health is open, for kubelets. No answer contains a secret, and the plan in particular does not.
func TestSecurePortIsClosed(t *testing.T) {
	s := newSimScenario(t, deploy.DryRunRBAC)
	s.delegate()
	known := secrets{}
	known.addToken(t, "the manager's token", s.kubeconfig)
	s.workForAll(t)
	s.throughEcho(t, known).broken.Store(false)
	s.args = append(s.args, "--dry-run")
	may := s.mayReadAll(t, known)
	kubeconfig, err := s.cluster.ServiceAccountKubeconfig(t.Context(), metav1.NamespaceDefault, "stranger")
	must.NoError(t, err)
	mayNot := known.addToken(t, "the token of a stranger", kubeconfig)
	s.launch(t)
	open := []string{"/healthz", "/livez", "/readyz", "/readyz?verbose"}
	closed := []string{
		"/healthz/ping", "/livez/ping", "/readyz/ping", "/metrics", "/metrics/slis", "/configz", "/plan", "/debug/flags/v",
		"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/symbol", "/debug/pprof/trace?seconds=1",
	}
	absent := []string{"/", "/status", "/debug/pprof/cmdline", "/metrics/../configz"}
	for _, path := range slices.Concat(open, closed, absent) {
		for who, token := range map[string]string{"no token": "", "an invalid token": "not.a.token", "a user without rights": mayNot} {
			want := http.StatusForbidden
			switch {
			case slices.Contains(open, path):
				want = http.StatusOK
			case token == "not.a.token":
				want = http.StatusUnauthorized
			}
			if want == http.StatusOK && token == "not.a.token" {
				want = http.StatusUnauthorized // the server verifies every token that it gets
			}
			poll.Until(t, path+" is as closed as it should be to "+who, func(ctx context.Context) error {
				return s.leader().answers(ctx, path, token, want)
			})
		}
		if slices.Contains(closed, path) && path != "/debug/flags/v" { // which is to be written, and not read
			poll.Until(t, path+" is served to a user with rights", func(ctx context.Context) error {
				return s.leader().answers(ctx, path, may, http.StatusOK)
			})
		}
	}
	t.Run("to read is not to write", func(t *testing.T) {
		status, _, err := s.leader().Do(t.Context(), http.MethodPut, "/debug/flags/v", may, strings.NewReader("10"))
		must.NoError(t, err)
		if status != http.StatusForbidden {
			t.Errorf("who may get everything sets the verbosity: %d", status)
		}
	})
	t.Run("TLS", func(t *testing.T) { requireStrongTLS(t, s.leader()) })
	s.requireSecretPlan(t, known, may)
}

// requireStrongTLS fails if a process takes a version of TLS or a cipher that should be history.
func requireStrongTLS(t *testing.T, d *daemon) {
	t.Helper()
	dial := func(config *tls.Config) error {
		config.InsecureSkipVerify = true // the certificate is not what is tested
		dialer := &tls.Dialer{Config: config}
		connection, err := dialer.DialContext(t.Context(), "tcp", d.Address)
		if err == nil {
			err = connection.Close()
		}
		return err
	}
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		if err := dial(&tls.Config{MinVersion: version, MaxVersion: version}); (err == nil) != (version >= tls.VersionTLS12) { //nolint:gosec // to be refused
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	for _, suite := range tls.InsecureCipherSuites() {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		if err := dial(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}); err == nil { //nolint:gosec // to be refused
			t.Errorf("%s is taken", suite.Name)
		}
	}
}
