// Package autoscaler_test plays the Cluster Autoscaler against the whole daemon on a real control plane, with the simulated cloud and with
// machines that have simulated BMCs, by its protocol over mutual TLS and in the order of its own calls.
package autoscaler_test

import (
	"flag"
	"fmt"
	"os"
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

// The control plane is shared: the tests run one after the other, each with a cloud, node groups and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

// What every test of this package uses of the harness goes by its short names here.
var (
	must       = harness.Must
	eventually = harness.Eventually
)

func TestMain(m *testing.M) {
	flag.Parse()
	logFile, err := os.CreateTemp("", "mooring-autoscaler-test-*.log")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := harness.Main(m, "autoscaler", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
		logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
		err = logsapi.ValidateAndApply(logs.NewOptions(), utilfeature.DefaultFeatureGate)
		klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logFile))))
	},
		// client-go keeps idle connections in a cache of transports, for the next client of the process with the same credentials.
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		// klog flushes for as long as the process lives.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
	if err != nil || code != 0 {
		fmt.Fprintln(os.Stderr, err, "the log of the managers is kept in", logFile.Name())
		code = max(code, 1)
	} else {
		_ = os.Remove(logFile.Name())
	}
	os.Exit(code)
}
