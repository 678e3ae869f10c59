package rights_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
	processes "github.com/mooring-ccm/mooring/localcluster/program"
	"github.com/mooring-ccm/mooring/test/integration/harness"
)

// What every test of this package uses of the harness goes by its short names here.
var (
	must       = harness.Must
	eventually = harness.Eventually
)

// terminationLog is the name of the file with the termination message, in the folder of a daemon.
const terminationLog = "termination-log"

// daemon is a process of the manager.
type daemon struct {
	*processes.Program
	dir  string
	port string
}

// launch starts the daemon with a secure port of its own. It is killed when the test lifetime ends, and its log is shown if that
// failed.
func launch(t, lifetime *testing.T, args ...string) *daemon {
	t.Helper()
	d := &daemon{dir: lifetime.TempDir(), port: localclustertest.FreePort(t)}
	args = append([]string{"--bind-address=127.0.0.1", "--secure-port=" + d.port, "--cert-dir=" + d.dir, "--logging-format=json"}, args...)
	path, err := program()
	must(t, err)
	message := filepath.Join(d.dir, terminationLog)
	must(t, os.WriteFile(message, nil, 0o600))
	d.Program = localclustertest.StartProgram(lifetime, processes.Options{Name: programName, Path: path, Args: args, Dir: d.dir, Env: []string{
		// As in a Pod of its own, which nobody has created.
		"POD_NAME=" + d.pod(), "POD_NAMESPACE=" + metav1.NamespaceSystem, "POD_UID=" + string(uuid.NewUUID()), "TERMINATION_MESSAGE_PATH=" + message,
	}})
	return d
}

// pod is the name of the Pod in which the process says that it runs.
func (d *daemon) pod() string { return "replica-" + d.port }

// terminate asks the process to end, as Kubernetes does with a Pod, and waits until it has.
func (d *daemon) terminate(t *testing.T) {
	t.Helper()
	must(t, d.Signal(syscall.SIGTERM))
	if code := localclustertest.AwaitEnd(t, d.Program); code != 0 {
		t.Errorf("the manager ended with exit code %d after SIGTERM, want 0", code)
	}
}

// get asks the secure port for a path, with a bearer token unless that is empty, and returns the status of the answer.
func (d *daemon) get(ctx context.Context, path, token string) (int, error) {
	certificate, err := os.ReadFile(filepath.Join(d.dir, programName+".crt")) // the daemon has made it for itself
	if err != nil {
		return 0, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort("127.0.0.1", d.port)+path, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// await waits until the process answers that all is well at a path such as /readyz: that it leads or can take over.
func (d *daemon) await(t *testing.T, path string) {
	t.Helper()
	eventually(t, "the manager says OK at "+path, func(ctx context.Context) error {
		must(t, d.Exited())
		return d.answers(ctx, path, "", http.StatusOK)
	})
}

// answers returns an error unless a path is answered with a status.
func (d *daemon) answers(ctx context.Context, path, token string, want int) error {
	status, err := d.get(ctx, path, token)
	if err == nil && status != want {
		err = fmt.Errorf("%s is answered with %d, want %d", path, status, want)
	}
	return err
}

// dispensable returns what the process has reported as missing and done without, in the form "user may not verb resource".
func (d *daemon) dispensable(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open(d.LogPath())
	must(t, err)
	defer file.Close()
	found := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Missing string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Missing != "" {
			found[line.Missing] = true
		}
	}
	must(t, lines.Err())
	return found
}
