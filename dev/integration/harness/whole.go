package harness

import (
	"io"

	"go.uber.org/goleak"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// LogTo sends the logs of all whole managers of this process to one writer. Without it, the first manager would choose its standard
// error for all.
func LogTo(w io.Writer) error {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	if err := logsapi.ValidateAndApply(logs.NewOptions(), utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w))))
	return nil
}

// WholeManagers are the goroutines that stay after whole managers have run in this process.
func WholeManagers() []goleak.Option {
	return []goleak.Option{
		// client-go keeps idle connections in a cache of transports, for the next client of the process with the same credentials.
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
		// klog flushes for as long as the process lives.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	}
}
