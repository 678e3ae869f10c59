package ccm

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	"k8s.io/cloud-provider/names"
	"k8s.io/component-base/metrics/prometheus/controllers"
	"k8s.io/controller-manager/controller"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimehealthz "sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/internal/sleep"
)

// running is one controller as it runs: its runnables, and what is known of them.
type running struct {
	name string
	// fence ends what the controller does when the lease is lost.
	fence *fence
	// admission lets the controller's runnables begin.
	admission *startBarrier
	// delay is how long after the plugin was initialized the controller starts: --controller-start-interval.
	delay time.Duration

	mu sync.Mutex
	// present says that there is a runnable or a check. A controller whose flags leave it nothing to do has none.
	present  bool
	barriers []*barrier
	// live and warm are checks that the controller has added to its manager.
	live, warm []healthz.HealthChecker
}

// scopedManager is the manager as one controller sees it: what it adds to it belongs to that controller.
type scopedManager struct {
	manager.Manager
	controller *running
	client     client.Client
	config     *rest.Config
}

// GetClient returns the controller's client, not the manager's, so what it writes is written by its identity.
func (m *scopedManager) GetClient() client.Client { return m.client }

// GetConfig returns a copy of the config of the controller's identity.
func (m *scopedManager) GetConfig() *rest.Config { return rest.CopyConfig(m.config) }

// Add adds a runnable to the manager. One that needs leader election, which is the default, is put behind a start barrier. A further
// cluster is not: it is a cache, and has to be warm on standbys too.
func (m *scopedManager) Add(runnable manager.Runnable) error {
	election, says := runnable.(manager.LeaderElectionRunnable)
	_, isCluster := runnable.(interface{ GetCache() cache.Cache })
	m.controller.mu.Lock()
	m.controller.present = true
	if !isCluster && (!says || election.NeedLeaderElection()) {
		behind := &barrier{Runnable: runnable, controller: m.controller}
		m.controller.barriers = append(m.controller.barriers, behind)
		runnable = behind
	}
	m.controller.mu.Unlock()
	return m.Manager.Add(runnable)
}

// AddHealthzCheck makes a check part of the controller's, in /healthz and /livez as in /readyz.
func (m *scopedManager) AddHealthzCheck(name string, check runtimehealthz.Checker) error {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.controller.present = true
	m.controller.live = append(m.controller.live, healthz.NamedCheck(name, check))
	return nil
}

// AddReadyzCheck makes a check part of the controller's, in /readyz only.
func (m *scopedManager) AddReadyzCheck(name string, check runtimehealthz.Checker) error {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.controller.present = true
	m.controller.warm = append(m.controller.warm, healthz.NamedCheck(name, check))
	return nil
}

// AddMetricsServerExtraHandler refuses: the secure port is not controller-runtime's, which would drop the handler.
func (m *scopedManager) AddMetricsServerExtraHandler(path string, _ http.Handler) error {
	return fmt.Errorf("controller %s: cannot serve %s: the secure port takes metrics by Environment.Registerer and nothing else",
		m.controller.name, path)
}

// Name is the name of the controller's health check.
func (r *running) Name() string { return r.name }

// Check is the controller's liveness: what its runnables' own checks say, and the checks that it has added to its manager. A
// runnable that ends with an error ends the process.
func (r *running) Check(request *http.Request) error {
	barriers, live, _ := r.parts()
	for _, behind := range barriers {
		if err := behind.alive(request); err != nil {
			return err
		}
	}
	return failing(live, request)
}

// ready fails until the controller is warm; it then is as good as Check.
func (r *running) ready(request *http.Request) error {
	barriers, _, warm := r.parts()
	for _, behind := range barriers {
		if err := behind.warm(); err != nil {
			return err
		}
	}
	if err := failing(warm, request); err != nil {
		return err
	}
	return r.Check(request)
}

// runs reports whether the controller has anything that runs, or is checked.
func (r *running) runs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.present
}

// parts returns what has been added so far.
func (r *running) parts() (barriers []*barrier, live, warm []healthz.HealthChecker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.barriers, r.live, r.warm
}

// failing returns the error of the first check that fails.
func failing(checks []healthz.HealthChecker, request *http.Request) error {
	for _, one := range checks {
		if err := one.Check(request); err != nil {
			return fmt.Errorf("%s: %w", one.Name(), err)
		}
	}
	return nil
}

// barrier holds a runnable back until it is admitted, which is when the plugin is initialized. It does not hold back its warm-up.
type barrier struct {
	manager.Runnable
	controller *running

	mu     sync.Mutex
	warmed bool
}

var _ manager.LeaderElectionRunnable = &barrier{}

// NeedLeaderElection is why the runnable is behind the barrier.
func (b *barrier) NeedLeaderElection() bool { return true }

// Warmup passes the manager's call on, and notes when the runnable is warm.
func (b *barrier) Warmup(ctx context.Context) error {
	if warmer, ok := b.Runnable.(interface{ Warmup(context.Context) error }); ok {
		if err := warmer.Warmup(b.named(ctx)); err != nil {
			return fmt.Errorf("warming up controller %s: %w", b.controller.name, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warmed = true
	return nil
}

// Start runs the runnable once it is admitted.
func (b *barrier) Start(ctx context.Context) error {
	ctx, cancel := b.controller.fence.within(b.named(ctx))
	defer cancel()
	done, ok := b.controller.admission.begin(ctx)
	if !ok {
		return nil
	}
	defer done()
	if !sleep.For(ctx, b.controller.delay) {
		return nil
	}
	metrics := controllers.NewControllerManagerMetrics(programName)
	metrics.ControllerStarted(metricName(b.controller.name))
	defer metrics.ControllerStopped(metricName(b.controller.name))
	if err := b.Runnable.Start(ctx); err != nil {
		return fmt.Errorf("controller %s: %w", b.controller.name, err)
	}
	return nil
}

// metricName is the name of a controller in the metric running_managed_controllers. The reference's controllers have their older names there,
// which are aliases elsewhere.
func metricName(controller string) string {
	for alias, name := range names.CCMControllerAliases() {
		if name == controller {
			return alias
		}
	}
	return controller
}

// named returns ctx with a logger that says which controller logs.
func (b *barrier) named(ctx context.Context) context.Context {
	return log.IntoContext(ctx, log.FromContext(ctx).WithName(b.controller.name))
}

// warm returns an error until the warm-up is through.
func (b *barrier) warm() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.warmed {
		return fmt.Errorf("controller %s is warming up", b.controller.name)
	}
	return nil
}

// alive returns what the runnable's own check says. Both forms are known: a method Check, and the reference's.
func (b *barrier) alive(request *http.Request) error {
	switch checked := b.Runnable.(type) {
	case interface{ Check(*http.Request) error }:
		return checked.Check(request)
	case controller.HealthCheckable:
		if check := checked.HealthChecker(); check != nil {
			return check.Check(request)
		}
	}
	return nil
}

// readiness checks under the controller's name, for the readiness endpoint.
func (r *running) readiness() healthz.HealthChecker { return healthz.NamedCheck(r.name, r.ready) }

// startBarrier holds back whatever acts as the leader: it admits no caller before it is opened, and no new one once it drains.
type startBarrier struct {
	opened chan struct{}

	mu       sync.Mutex
	draining bool
	acting   sync.WaitGroup
}

func newStartBarrier() *startBarrier { return &startBarrier{opened: make(chan struct{})} }

// open lets everybody begin who waits.
func (a *startBarrier) open() { close(a.opened) }

// begin waits until the caller may act. It returns false if it no longer may; otherwise the caller calls done when it has
// stopped.
func (a *startBarrier) begin(ctx context.Context) (done func(), ok bool) {
	select {
	case <-a.opened:
	case <-ctx.Done():
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return nil, false
	}
	a.acting.Add(1)
	return a.acting.Done, true
}

// drain lets no caller begin, and waits until all have stopped.
func (a *startBarrier) drain() {
	a.mu.Lock()
	a.draining = true
	a.mu.Unlock()
	a.acting.Wait()
}
