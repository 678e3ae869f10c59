package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/internal/secrets"
)

// lifecycle is the life of the plugin on the leader, and with it the life of every controller. No controller acts before the plugin is initialized.
// The plugin stops only after all controllers have stopped, and the lease is released only after that.
type lifecycle struct {
	plugin cloudprovider.Interface
	// calls is the client of the cloud, which knows of calls that the controllers no longer wait for.
	calls         cloudprovider.Interface
	clients       cloudprovider.ControllerClientBuilder
	informers     informers.SharedInformerFactory
	allowUntagged bool
	// fence ends the plugin's life when the lease is lost.
	fence *fence
	// secrets are what the plugin's errors may not repeat.
	secrets *secrets.Set

	// controllers admits them once the plugin is initialized.
	controllers *startBarrier

	mu      sync.Mutex
	phase   phase
	entered time.Time // when the phase began
}

// phase is how far the plugin's life has come.
type phase int

const (
	standby phase = iota
	initializing
	leading
	ended
)

// newLifecycle returns the lifecycle of a replica that does not lead.
func newLifecycle(plugin, calls cloudprovider.Interface, clients cloudprovider.ControllerClientBuilder, factory informers.SharedInformerFactory,
	allowUntagged bool, fence *fence, known *secrets.Set) *lifecycle {
	return &lifecycle{
		plugin: plugin, calls: calls, clients: clients, informers: factory, allowUntagged: allowUntagged, fence: fence, secrets: known,
		controllers: newStartBarrier(),
	}
}

// NeedLeaderElection makes the manager start the plugin on the leader only.
func (l *lifecycle) NeedLeaderElection() bool { return true }

// Start leads the plugin through its life. The manager ends ctx on shutdown, waits for Start, and releases the lease then. The loss
// of the lease ends that life, too.
func (l *lifecycle) Start(ctx context.Context) error {
	ctx, cancel := l.fence.within(ctx)
	defer cancel()
	l.enter(initializing)
	stop := make(chan struct{})
	initialized, err := make(chan struct{}), errNotReturned // until it has
	go func() {
		defer close(initialized)
		err = l.initialize(ctx, stop)
	}()
	select {
	case <-initialized:
		if err != nil {
			l.enter(ended)
			return err
		}
		l.informers.Start(stop)
		l.enter(leading)
		l.controllers.open()
		<-ctx.Done()
	case <-ctx.Done():
	}
	l.controllers.drain()
	log.FromContext(ctx).Info("Controllers have stopped, stopping the cloud provider", "provider", l.plugin.ProviderName())
	close(stop)
	l.informers.Shutdown()
	<-initialized // one that still runs may still act on the cloud
	l.enter(ended)
	return nil
}

// initialize makes the first calls to the plugin, in the order of the reference. They take no context and cannot be made to
// give up other than by the stop channel.
func (l *lifecycle) initialize(ctx context.Context, stop <-chan struct{}) error {
	started := time.Now()
	err := l.secrets.Bound(guard.Protect("Initialize", func() error { return l.begin(ctx, stop) }, nil), cloud.MaxErrorText)
	if err != nil {
		logPanic(ctx, err)
		return err
	}
	log.FromContext(ctx).Info("Initialized the cloud provider", "provider", l.plugin.ProviderName(),
		"took", time.Since(started).Round(time.Millisecond).String())
	return nil
}

// errNotReturned is a plugin that ended its goroutine in Initialize.
var errNotReturned = errors.New("the cloud provider did not return from Initialize: it ended its goroutine")

// begin makes the first calls.
func (l *lifecycle) begin(ctx context.Context, stop <-chan struct{}) error {
	if err := l.checkClusterID(ctx); err != nil {
		return err
	}
	l.plugin.Initialize(l.clients, stop)
	if user, ok := l.plugin.(cloudprovider.InformerUser); ok {
		user.SetInformers(l.informers)
	}
	return nil
}

// logPanic logs the stack of a panic of the plugin, which is not in the error's text.
func logPanic(ctx context.Context, err error) {
	var panicked *guard.PanicError
	if errors.As(err, &panicked) {
		log.FromContext(ctx).Error(err, "The cloud provider panicked", "operation", panicked.Operation, "stack", string(panicked.Stack))
	}
}

// checkClusterID refuses a cluster that the cloud does not know as one, unless --allow-untagged-cloud says that this is fine.
func (l *lifecycle) checkClusterID(ctx context.Context) error {
	switch {
	case l.plugin.HasClusterID():
		return ctx.Err()
	case l.allowUntagged:
		log.FromContext(ctx).Info("The cloud provider found no cluster ID; continuing because of --allow-untagged-cloud",
			"provider", l.plugin.ProviderName())
		return ctx.Err()
	default:
		return fmt.Errorf("cloud provider %q has found no cluster ID (HasClusterID is false): tag the cluster as its documentation says, or set "+
			"--allow-untagged-cloud, as for every provider whose own main does not ask", l.plugin.ProviderName())
	}
}

// enter notes the phase.
func (l *lifecycle) enter(next phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.entered = next, time.Now()
}

// errActing keeps a lease from being released.
var errActing = errors.New("controllers or the cloud provider have not stopped yet")

// stopped returns an error while this replica may still act on the cloud.
func (l *lifecycle) stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == initializing || l.phase == leading {
		return errActing
	}
	return cloud.Unreturned(l.calls)
}

// Name is the name of the health check.
func (l *lifecycle) Name() string { return "cloud-provider" }

// Check fails while the plugin is being initialized: this replica leads, and does nothing yet.
func (l *lifecycle) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != initializing {
		return nil
	}
	return fmt.Errorf("cloud provider %q has not returned from Initialize for %s",
		l.plugin.ProviderName(), time.Since(l.entered).Round(time.Second))
}
