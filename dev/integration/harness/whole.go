package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// MainOfWhole is Main for tests that run whole managers. What these log goes to a file, whose name ready gets, and which stays if a test fails.
func MainOfWhole(m *testing.M, name string, ready func(cluster *localcluster.Cluster, administrator *kubernetes.Clientset, logFile string),
	ignored ...goleak.Option,
) int {
	code, err := mainOfWhole(m, name, ready, ignored)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

func mainOfWhole(m *testing.M, name string, ready func(*localcluster.Cluster, *kubernetes.Clientset, string), ignored []goleak.Option) (
	code int, err error,
) {
	logFile, err := os.CreateTemp("", "mooring-"+name+"-test-*.log")
	if err != nil {
		return 1, err
	}
	code = Main(m, name, func(cluster *localcluster.Cluster, administrator *kubernetes.Clientset) {
		ready(cluster, administrator, logFile.Name())
		err = logTo(logFile)
	}, append(wholeManagers(), ignored...)...)
	if err != nil || code != 0 {
		return max(code, 1), errors.Join(err, fmt.Errorf("the log of the managers is kept in %s", logFile.Name()))
	}
	return code, errors.Join(logFile.Close(), os.Remove(logFile.Name()))
}

// logTo sends the logs of all whole managers of this process to one writer. Without it, the first manager would choose its standard
// error for all.
func logTo(w io.Writer) error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if err := logsapi.ValidateAndApply(logs.NewOptions(), utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w))))
	return nil
}

// wholeManagers are the goroutines that stay after whole managers have run in this process.
func wholeManagers() []goleak.Option {
	return []goleak.Option{
		// client-go keeps idle connections in a cache of transports, for the next client of the process with the same credentials.
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		// klog flushes for as long as the process lives.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	}
}
