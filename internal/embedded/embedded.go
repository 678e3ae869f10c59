// Package embedded carries what the flags of the manager cannot say, for a program that runs it in memory: a connection to an API server
// that has no address, and a log that is not the one of the process. A simulation in virtual time is such a program.
package embedded

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Settings replace flags of one run of the command. The zero value replaces nothing.
type Settings struct {
	// APIServer is how the API server is reached, instead of --kubeconfig and --master. Nil leaves it to these flags. The other flags of
	// the connection, such as --kube-api-qps, apply to a copy of it.
	APIServer *rest.Config
	// Logger takes the log. Then no flag sets up klog, which belongs to the process and starts a goroutine that never ends. Nil: the flags
	// set up klog.
	Logger *logr.Logger
	// NewInformer makes the informers of the cache, such as ones that hand out objects in an order. Nil: cache.NewSharedIndexInformer does.
	NewInformer func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer
}

type key struct{}

// Into returns a context for the command that carries settings.
func Into(ctx context.Context, settings Settings) context.Context {
	return context.WithValue(ctx, key{}, settings)
}

// From returns the settings of a command, the zero value if its context carries none.
func From(ctx context.Context) Settings {
	settings, _ := ctx.Value(key{}).(Settings)
	return settings
}
