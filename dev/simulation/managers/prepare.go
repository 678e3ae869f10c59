package managers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // go:linkname

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// once is for Prepare, and prepared says that it has been called.
var (
	once     sync.Once
	prepared atomic.Bool
)

// parsing is held while flags are parsed, because both managers add the same flags of the process to their own. It is never held while virtual
// time has to pass.
var parsing sync.Mutex

// Prepare replaces what Kubernetes' libraries keep for the whole process. Call it outside of any bubble, before the first manager starts,
// such as in TestMain. The first call decides where the managers log.
func Prepare(logger logr.Logger) {
	once.Do(func() { prepare(logger) })
}

func prepare(logger logr.Logger) {
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{logError}
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	klog.OsExit = func(int) { panic(exited{}) }
	log.SetLogger(logger)
	jitterRand = jitter
	prepared.Store(true)
}

// jitterRand draws all jitter of k8s.io/apimachinery/pkg/util/wait: of client-go, of the reference and of Mooring. The package has it as a
// variable for its own tests.
//
//go:linkname jitterRand k8s.io/apimachinery/pkg/util/wait.jitterRand
var jitterRand func() float64

// jitter draws from the clock, which is the same whenever a draw is run: what it returns does not depend on who asked before. The steps are those
// of splitmix64.
func jitter() float64 {
	z := uint64(time.Now().UnixNano()) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// exited is the panic of a process that ends itself by klog, in whatever goroutine.
type exited struct{}

// exitable runs the life of a process, or a part of it, until it returns or ends the process by klog.
func exitable(run func() error) (err error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case exited{}:
			err = errExited
		default:
			panic(value)
		}
	}()
	return run()
}

// logError logs an error that client-go does not return, without a pause.
func logError(ctx context.Context, err error, message string, keysAndValues ...any) {
	klog.FromContext(ctx).WithCallDepth(3).Error(err, message, keysAndValues...)
}
