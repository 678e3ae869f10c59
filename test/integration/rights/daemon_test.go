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
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/test/integration/harness"
)

// What every test of this package uses of the harness goes by its short names here.
var (
	must       = harness.Must
	eventually = harness.Eventually
)

// daemon is a process of the manager.
type daemon struct {
	command *exec.Cmd
	dir     string
	port    string
	exited  chan struct{}
	err     error
}

// launch starts the daemon with a secure port of its own. It is killed when the test lifetime ends, and the end of its log is
// shown if that failed.
func launch(t, lifetime *testing.T, args ...string) *daemon {
	t.Helper()
	d := &daemon{dir: lifetime.TempDir(), port: localclustertest.FreePort(t), exited: make(chan struct{})}
	args = append([]string{"--bind-address=127.0.0.1", "--secure-port=" + d.port, "--cert-dir=" + d.dir, "--logging-format=json"}, args...)
	path, err := program()
	must(t, err)
	d.command = exec.Command(path, args...)
	log, err := os.Create(d.logFile())
	must(t, err)
	defer log.Close()
	d.command.Stdout, d.command.Stderr = log, log
	must(t, d.command.Start())
	go func() {
		defer close(d.exited)
		d.err = d.command.Wait()
	}()
	lifetime.Cleanup(func() {
		_ = d.command.Process.Kill() // an error says that it has ended
		<-d.exited
		if lifetime.Failed() {
			lifetime.Logf("the end of the log of process %d:\n%s", d.command.Process.Pid, strings.Join(d.lastLines(lifetime, 40), "\n"))
		}
	})
	return d
}

func (d *daemon) logFile() string { return filepath.Join(d.dir, programName+".log") }

func (d *daemon) lastLines(t *testing.T, count int) []string {
	t.Helper()
	content, err := os.ReadFile(d.logFile())
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return lines[max(0, len(lines)-count):]
}

// terminate asks the process to end, as Kubernetes does with a Pod, and waits until it has.
func (d *daemon) terminate(t *testing.T) {
	t.Helper()
	must(t, d.command.Process.Signal(syscall.SIGTERM))
	eventually(t, "the manager ends after SIGTERM", func(context.Context) error { return d.ended() })
	if d.err != nil {
		t.Errorf("the manager ended with %v after SIGTERM, want exit code 0", d.err)
	}
}

func (d *daemon) ended() error {
	select {
	case <-d.exited:
		return nil
	default:
		return fmt.Errorf("process %d runs", d.command.Process.Pid)
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

// awaitReady waits until the process says that it leads or can take over.
func (d *daemon) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the manager is ready", func(ctx context.Context) error {
		if d.ended() == nil {
			t.Fatalf("the manager ended by itself: %v", d.err)
		}
		return d.answers(ctx, "/readyz", "", http.StatusOK)
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
	file, err := os.Open(d.logFile())
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
