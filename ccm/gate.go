package ccm

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/controller"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimehealthz "sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// running is one controller as it runs: its runnables, and what is known of them.
type running struct {
	name string
	// fence ends what the controller does when the lease is lost.
	fence *fence
	// admission lets the controller's runnables begin.
	admission *admission
	// delay is how long after the plugin was initialized the controller starts: --controller-start-interval.
	delay time.Duration

	mu    sync.Mutex
	gates []*gate
	// live and warm are checks that the controller has added to its manager.
	live, warm []namedCheck
}

// namedCheck is a check that a controller has added to its manager.
type namedCheck struct {
	name  string
	check runtimehealthz.Checker
}

// gated is the manager as one controller sees it: what it adds to it belongs to that controller.
type gated struct {
	manager.Manager
	controller *running
	client     client.Client
	config     *rest.Config
}

// GetClient returns the controller's client, not the manager's, so that what it writes is written by its identity.
func (m *gated) GetClient() client.Client { return m.client }

// GetConfig returns a copy of the config of the controller's identity.
func (m *gated) GetConfig() *rest.Config { return rest.CopyConfig(m.config) }

// Add adds a runnable to the manager. One that needs leader election, which is the default, is put behind a gate. A further
// cluster is not: it is a cache, and has to be warm on standbys too.
func (m *gated) Add(runnable manager.Runnable) error {
	if election, ok := runnable.(manager.LeaderElectionRunnable); ok && !election.NeedLeaderElection() {
		return m.Manager.Add(runnable)
	}
	if _, ok := runnable.(interface{ GetCache() cache.Cache }); ok {
		return m.Manager.Add(runnable)
	}
	behind := &gate{Runnable: runnable, controller: m.controller}
	m.controller.mu.Lock()
	m.controller.gates = append(m.controller.gates, behind)
	m.controller.mu.Unlock()
	return m.Manager.Add(behind)
}

// AddHealthzCheck makes a check part of the controller's, in /healthz and /livez as in /readyz.
func (m *gated) AddHealthzCheck(name string, check runtimehealthz.Checker) error {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.controller.live = append(m.controller.live, namedCheck{name, check})
	return nil
}

// AddReadyzCheck makes a check part of the controller's, in /readyz only.
func (m *gated) AddReadyzCheck(name string, check runtimehealthz.Checker) error {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.controller.warm = append(m.controller.warm, namedCheck{name, check})
	return nil
}

// AddMetricsServerExtraHandler refuses: the secure port is not controller-runtime's, which would drop the handler.
func (m *gated) AddMetricsServerExtraHandler(path string, _ http.Handler) error {
	return fmt.Errorf("controller %s: cannot serve %s: the secure port takes metrics by Environment.Registerer and nothing else",
		m.controller.name, path)
}

// Name is the name of the controller's health check.
func (r *running) Name() string { return r.name }

// Check is the controller's liveness: what its runnables' own checks say, and those that it has added to its manager. A
// runnable that ends with an error ends the process.
func (r *running) Check(request *http.Request) error {
	gates, live, _ := r.parts()
	for _, behind := range gates {
		if err := behind.alive(request); err != nil {
			return err
		}
	}
	return failing(live, request)
}

// ready fails until the controller is warm; it then is as good as Check.
func (r *running) ready(request *http.Request) error {
	gates, _, warm := r.parts()
	for _, behind := range gates {
		if err := behind.warm(); err != nil {
			return err
		}
	}
	if err := failing(warm, request); err != nil {
		return err
	}
	return r.Check(request)
}

// parts returns what has been added so far.
func (r *running) parts() (gates []*gate, live, warm []namedCheck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gates, r.live, r.warm
}

// failing returns the error of the first check that fails.
func failing(checks []namedCheck, request *http.Request) error {
	for _, one := range checks {
		if err := one.check(request); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
	}
	return nil
}

// gate holds a runnable back until it is admitted, which is when the plugin is initialized, and lets its warm-up pass.
type gate struct {
	manager.Runnable
	controller *running

	mu     sync.Mutex
	warmed bool
}

var _ manager.LeaderElectionRunnable = &gate{}

// NeedLeaderElection is why the runnable is behind the gate.
func (g *gate) NeedLeaderElection() bool { return true }

// Warmup passes the manager's call on, and notes when the runnable is warm.
func (g *gate) Warmup(ctx context.Context) error {
	if warmer, ok := g.Runnable.(interface{ Warmup(context.Context) error }); ok {
		if err := warmer.Warmup(g.named(ctx)); err != nil {
			return fmt.Errorf("warming up controller %s: %w", g.controller.name, err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.warmed = true
	return nil
}

// Start runs the runnable once it is admitted.
func (g *gate) Start(ctx context.Context) error {
	ctx, cancel := g.controller.fence.within(g.named(ctx))
	defer cancel()
	done, ok := g.controller.admission.begin(ctx)
	if !ok {
		return nil
	}
	defer done()
	if !pause(ctx, g.controller.delay) {
		return nil
	}
	metrics := controllers.NewControllerManagerMetrics(programName)
	metrics.ControllerStarted(g.controller.name)
	defer metrics.ControllerStopped(g.controller.name)
	if err := g.Runnable.Start(ctx); err != nil {
		return fmt.Errorf("controller %s: %w", g.controller.name, err)
	}
	return nil
}

// named returns ctx with a logger that says which controller speaks.
func (g *gate) named(ctx context.Context) context.Context {
	return log.IntoContext(ctx, log.FromContext(ctx).WithName(g.controller.name))
}

// warm returns an error until the warm-up is through.
func (g *gate) warm() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.warmed {
		return fmt.Errorf("controller %s is warming up", g.controller.name)
	}
	return nil
}

// alive returns what the runnable's own check says. Both forms are known: a method Check, and that of the reference.
func (g *gate) alive(request *http.Request) error {
	switch checked := g.Runnable.(type) {
	case interface{ Check(*http.Request) error }:
		return checked.Check(request)
	case controller.HealthCheckable:
		if check := checked.HealthChecker(); check != nil {
			return check.Check(request)
		}
	}
	return nil
}

// pause waits, and reports whether ctx still lives.
func pause(ctx context.Context, duration time.Duration) bool {
	if duration <= 0 {
		return true
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// readiness checks under the controller's name, for the readiness endpoint.
func (r *running) readiness() healthz.HealthChecker { return healthz.NamedCheck(r.name, r.ready) }
