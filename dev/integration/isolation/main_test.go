// Package isolation_test runs the whole cloud controller manager on a real API server with a provider that misbehaves, and holds
// it to one promise: what one object, one call or one API of the cloud does stays its own matter. While it goes on, the rest is
// served as if nothing was.
package isolation_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// The control plane is shared. Each manager has nodes, Services, a lease and a cloud of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
	logFile *os.File // of all managers
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// The scenarios wait most of the time, so that all of them run at once on any machine.
	if err := flag.Set("test.parallel", "100"); err != nil {
		return 1, err
	}
	if logFile, err = os.CreateTemp("", "mooring-isolation-test-*.log"); err != nil {
		return 1, err
	}
	code = harness.Main(m, "isolation", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
		err = harness.LogTo(logFile)
	}, harness.WholeManagers()...)
	if err != nil || code != 0 {
		return max(code, 1), errors.Join(err, fmt.Errorf("the log of the managers is kept in %s", logFile.Name()))
	}
	return code, os.Remove(logFile.Name())
}

// awaitLogged waits until the managers have logged something.
func awaitLogged(t *testing.T, text string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the log contains %q", text), func(context.Context) error {
		content, err := os.ReadFile(logFile.Name())
		return errors.Join(err, holds(strings.Contains(string(content), text), "it has %d bytes without it", len(content)))
	})
}
