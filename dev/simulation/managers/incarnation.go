package managers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
)

// Settings are what a manager starts with.
type Settings struct {
	// Flags are command-line flags that the manager has. They come after the ones that doc.go names, and win.
	Flags []string
	// Transport reaches the API server. Requests end with their contexts, and so do the bodies of watches.
	Transport http.RoundTripper
	// Plugin builds the provider of an incarnation, whose memory a crash loses. A call that hangs has to return after Incarnation.Ended.
	Plugin func(*Incarnation) cloudprovider.Interface
}

// Manager is one of the two programs.
type Manager struct {
	// Name is the name of the program.
	Name string
	// run is the life of the process. It returns when the context ends or where the process would end by itself.
	run func(ctx context.Context, process *Incarnation, flags []string) error
	// recovers says that the manager survives a panic of its plugin.
	recovers bool
	// handlesSignals says that SIGTERM ends it in order.
	handlesSignals bool
	wrapper        Wrapper
}

var (
	// ErrKilled is the end of an incarnation by Terminate where the manager does not handle signals.
	ErrKilled = errors.New("killed by a signal")
	// errEnded answers requests and calls after the end of an incarnation.
	errEnded = errors.New("this process has ended")
	// errExited is a process that ended itself by klog.
	errExited = errors.New("the process exited by klog")
)

const (
	// apiServer is the host of requests, which no resolver sees.
	apiServer = "http://apiserver.invalid"
	// windDown is how long goroutines of an ended process may go on in virtual time, such as the pauses of an event that cannot be written.
	windDown = 10 * time.Minute
)

// Incarnation is one process of a manager, from its start to its end. Its methods may be called from several goroutines of its bubble.
type Incarnation struct {
	manager  *Manager
	settings Settings
	plugin   cloudprovider.Interface

	// alive ends when the process has to end, in order or not.
	alive  context.Context
	cancel context.CancelFunc
	// ended ends with the process: nothing that it does has an effect from then on. err is set before.
	ended   context.Context
	declare context.CancelFunc
	once    sync.Once
	err     error
	// asked says that the process was asked to end.
	asked atomic.Bool
	// released is closed when calls of the plugin may return.
	released chan struct{}
	release  sync.Once
	running  sync.WaitGroup
}

// Start starts a process of a manager. The end of ctx terminates it. Release has to be called before the bubble ends.
func Start(ctx context.Context, manager *Manager, settings Settings) (*Incarnation, error) {
	if !prepared.Load() {
		return nil, errors.New("call managers.Prepare outside of the bubble first")
	}
	settings = manager.wrap(settings)
	process := &Incarnation{manager: manager, settings: settings, released: make(chan struct{})}
	process.ended, process.declare = context.WithCancel(context.WithoutCancel(ctx))
	process.alive, process.cancel = context.WithCancel(ctx)
	process.plugin = guard(process, settings.Plugin(process))
	flags := append([]string{
		"--cloud-provider=" + process.plugin.ProviderName(), "--master=" + apiServer, "--secure-port=0", "--leader-elect=false",
	}, settings.Flags...)
	process.running.Go(func() {
		process.end(exitable(func() error { return manager.run(process.alive, process, flags) }))
	})
	return process, nil
}

// end ends the process, for the first reason.
func (p *Incarnation) end(reason error) {
	p.once.Do(func() {
		p.err = reason
		p.declare()
		p.cancel()
	})
}

// Kill ends the process at once, as SIGKILL or a fatal error does. The reason is not nil.
func (p *Incarnation) Kill(reason error) { p.end(reason) }

// Terminate is SIGTERM. Ended is closed when the process has ended.
func (p *Incarnation) Terminate() {
	p.asked.Store(true)
	if !p.manager.handlesSignals {
		p.end(ErrKilled)
	}
	p.cancel()
}

// Ended is closed at the end of the process.
func (p *Incarnation) Ended() <-chan struct{} { return p.ended.Done() }

// over reports whether the process has ended.
func (p *Incarnation) over() bool { return p.ended.Err() != nil }

// Asked reports whether the process was asked to end.
func (p *Incarnation) Asked() bool { return p.asked.Load() }

// Err returns why the process ended, nil if that was in order or has not happened yet.
func (p *Incarnation) Err() error {
	if p.over() {
		return p.err
	}
	return nil
}

// Release kills the process if it has not ended, lets the calls of its plugin return, and waits in virtual time until its goroutines have
// wound down. A goroutine that does not end by then fails the bubble.
func (p *Incarnation) Release() { release(p) }

// release is Release of several processes.
func release(processes ...*Incarnation) {
	for _, process := range processes {
		process.end(ErrKilled)
		process.release.Do(func() { close(process.released) })
	}
	for _, process := range processes {
		process.running.Wait()
	}
	time.Sleep(windDown)
}

// hold returns nil while the process lives. After its end it waits for Release and returns an error.
func (p *Incarnation) hold() error {
	if !p.over() {
		return nil
	}
	<-p.released
	return errEnded
}

// panicked is a panic in a call of the plugin.
func (p *Incarnation) panicked(operation string, value any) error {
	reason := fmt.Errorf("the plugin panicked in %s: %v", operation, value)
	switch {
	case value == exited{}:
		reason = fmt.Errorf("%s: %w", operation, errExited)
	case p.manager.recovers:
		panic(value)
	}
	p.end(reason)
	return p.hold()
}

// config returns how the process reaches the API server.
func (p *Incarnation) config() *rest.Config {
	return &rest.Config{Host: apiServer, Transport: transport{process: p, next: p.settings.Transport}}
}
