// Package quotas shows how much is used of the quotas of the project: of Nova's, Neutron's and Octavia's. A quota that is used up is named by
// the error of whatever it stops; this says so before.
package quotas

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

const (
	// firstLook is when the quotas are read first: what waits for a new leader goes before.
	firstLook = time.Minute
	// interval is between two looks. Each makes four calls, and one more for each further page of load balancers.
	interval = 5 * time.Minute
	// callTimeout is how long a service may take.
	callTimeout = 30 * time.Second
	// forgetAfter is for how long what a service has said counts while it does not answer.
	forgetAfter = 3 * interval
)

// Usage is how much of a quota is used.
type Usage struct {
	// Resource is what the quota is of, by the label of the metric.
	Resource string
	// Used is what the project has, and Limit what it may have, negative if there is no limit.
	Used, Limit int
}

// read asks one service.
type read func(ctx context.Context, clients *session.Clients) ([]Usage, error)

// Watcher reads the quotas now and then. A service that does not answer, or does not let the quotas be read, hides those of no other.
type Watcher struct {
	services map[string]read
	// asks asks a service: in the session, but in tests.
	asks    func(ctx context.Context, ask read) ([]Usage, error)
	metrics *metrics

	mu    sync.Mutex
	state map[string]*state // by service
}

// state is what is known of a service.
type state struct {
	shown    []Usage
	answered time.Time
	// failure is the text of what is wrong, for the log.
	failure string
}

// New returns a watcher, which has said nothing yet. Octavia is asked only if there are load balancers.
func New(of *session.Session, balancers bool) *Watcher {
	w := &Watcher{services: map[string]read{"Nova": nova, "Neutron": neutron}, metrics: newMetrics(), state: map[string]*state{}}
	w.asks = func(ctx context.Context, ask read) (usage []Usage, err error) {
		err = of.Do(ctx, func(ctx context.Context, clients *session.Clients) error {
			usage, err = ask(ctx, clients)
			return err
		})
		return usage, err
	}
	if balancers {
		w.services["Octavia"] = octavia
	}
	for name := range w.services {
		w.state[name] = &state{}
	}
	return w
}

// Run reads the quotas until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	next := time.NewTimer(firstLook)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			w.Look(ctx)
			next.Reset(interval)
		}
	}
}

// Look asks all services at once. None holds up the next look for longer than callTimeout.
func (w *Watcher) Look(ctx context.Context) {
	var asking sync.WaitGroup
	for name, ask := range w.services {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			usage, err := w.ask(ctx, ask)
			if context.Cause(ctx) == context.Canceled { // this process ends, or leads no more
				return
			}
			w.take(ctx, name, usage, err)
		})
	}
	asking.Wait()
}

// ask asks one service, whose answer may be anything.
func (w *Watcher) ask(ctx context.Context, ask read) (usage []Usage, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return w.asks(ctx, ask)
}

// take shows what a service has said. While it says nothing, its last answer is shown for a while.
func (w *Watcher) take(ctx context.Context, service string, usage []Usage, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, log := w.state[service], logr.FromContextOrDiscard(ctx)
	if err != nil {
		if known.failure != err.Error() {
			log.Info("A quota of the project cannot be read", "reason", fmt.Sprintf("%s: %v", service, err))
		}
		known.failure = err.Error()
		if time.Since(known.answered) > forgetAfter {
			w.metrics.hide(known.shown)
			known.shown = nil
		}
		return
	}
	w.metrics.hide(known.shown)
	w.metrics.show(usage)
	known.shown, known.answered, known.failure = usage, time.Now(), ""
}
