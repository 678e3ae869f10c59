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

	"go.uber.org/goleak"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// The control plane is shared. Each manager has nodes, Services, a lease and a cloud of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
	logFile *os.File // of all managers
)

// What every test of this package uses of the harness goes by its short names here.
var (
	must       = harness.Must
	eventually = harness.Eventually
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
		err = logToFile()
	},
		// client-go keeps idle connections in a cache of transports, for the next client of the process with the same credentials.
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		// klog flushes for as long as the process lives.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
	if err != nil || code != 0 {
		return max(code, 1), errors.Join(err, fmt.Errorf("the log of the managers is kept in %s", logFile.Name()))
	}
	return code, os.Remove(logFile.Name())
}

// logToFile has all managers of this process log to a file. The first of them would choose its standard error for all.
func logToFile() error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if err := logsapi.ValidateAndApply(logs.NewOptions(), utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logFile))))
	return nil
}

// awaitLogged waits until the managers have logged something.
func awaitLogged(t *testing.T, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the log contains %q", text), func(context.Context) error {
		content, err := os.ReadFile(logFile.Name())
		return errors.Join(err, holds(strings.Contains(string(content), text), "it has %d bytes without it", len(content)))
	})
}
