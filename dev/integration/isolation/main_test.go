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
	logFile string // of all managers
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The scenarios wait most of the time, so all of them run at once on any machine.
	if err := flag.Set("test.parallel", "100"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(harness.MainOfWhole(m, "isolation", func(started *localcluster.Cluster, administrator *kubernetes.Clientset, name string) {
		cluster, admin, logFile = started, administrator, name
	}))
}

// awaitLogged waits until the managers have logged something.
func awaitLogged(t *testing.T, text string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the log contains %q", text), func(context.Context) error {
		content, err := os.ReadFile(logFile)
		return errors.Join(err, holds(strings.Contains(string(content), text), "it has %d bytes without it", len(content)))
	})
}
