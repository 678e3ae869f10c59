package rights_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	managers "github.com/mooring-ccm/mooring/dev/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	processes "github.com/mooring-ccm/mooring/dev/program"
)

// terminationLog is the name of the file with the termination message, in the folder of a daemon.
const terminationLog = "termination-log"

// daemon is a process of the manager.
type daemon struct {
	*processes.Program
	// Endpoint is its secure port.
	managers.Endpoint
	dir  string
	port string
}

// launch starts the daemon with a secure port of its own. It is killed when the test lifetime ends, and its log is shown if that
// failed.
func launch(t, lifetime *testing.T, args ...string) *daemon {
	t.Helper()
	port, err := processes.FreePort()
	must.NoError(t, err)
	dir := lifetime.TempDir()
	// It has only the kubeconfigs that the arguments name, because these tests show which identity needs which right.
	manager := managers.Manager{Name: programName, Dir: dir, Certs: dir, Port: port, Flags: append([]string{"--logging-format=json"}, args...)}
	d := &daemon{Endpoint: manager.Endpoint(), dir: dir, port: strconv.Itoa(port)}
	path, err := program()
	must.NoError(t, err)
	message := filepath.Join(d.dir, terminationLog)
	must.NoError(t, os.WriteFile(message, nil, 0o600))
	d.Program = localclustertest.StartProgram(lifetime, processes.Options{Name: programName, Path: path, Args: manager.Args(), Dir: d.dir, Env: []string{
		// As in a Pod of its own, which does not exist.
		"POD_NAME=" + d.pod(), "POD_NAMESPACE=" + metav1.NamespaceSystem, "POD_UID=" + string(uuid.NewUUID()), "TERMINATION_MESSAGE_PATH=" + message,
	}})
	return d
}

// pod is the name of the Pod in which the process says that it runs.
func (d *daemon) pod() string { return "replica-" + d.port }

// terminate asks the process to end, as Kubernetes does with a Pod, and waits until it has.
func (d *daemon) terminate(t *testing.T) {
	t.Helper()
	must.NoError(t, d.Signal(syscall.SIGTERM))
	if code := localclustertest.AwaitEnd(t, d.Program); code != 0 {
		t.Errorf("the manager ended with exit code %d after SIGTERM, want 0", code)
	}
}

// await waits until the process answers that all is well at a path such as /readyz: that it leads or can take over.
func (d *daemon) await(t *testing.T, path string) {
	t.Helper()
	poll.Until(t, "the manager says OK at "+path, func(ctx context.Context) error {
		must.NoError(t, d.Exited())
		return d.answers(ctx, path, "", http.StatusOK)
	})
}

// answers returns an error unless a path is answered with a status.
func (d *daemon) answers(ctx context.Context, path, token string, want int) error {
	status, _, err := d.Get(ctx, path, token)
	if err == nil && status != want {
		err = fmt.Errorf("%s is answered with %d, want %d", path, status, want)
	}
	return err
}

// dispensable returns what the process has reported as missing and done without, in the form "user may not verb resource".
func (d *daemon) dispensable(t *testing.T) map[string]bool {
	t.Helper()
	file, err := os.Open(d.LogPath())
	must.NoError(t, err)
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
	must.NoError(t, lines.Err())
	return found
}
