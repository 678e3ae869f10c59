package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/internal/version"
	"github.com/mooring-ccm/mooring/provider"
)

// replicaPart is the part of the provider that runs on every replica, see provider.Capabilities.RunOnEveryReplica. Its methods
// do nothing on nil, which is a provider without such a part.
//
// See ADR 52.
type replicaPart struct {
	cancel context.CancelFunc
	// over is closed when the part has ended, and err is why it ended by itself.
	over chan struct{}
	err  error
	// patience is how long it may take to end.
	patience time.Duration
}

// startReplicaPart starts the part. It outlives ctx, whose end begins the shutdown in which it is the last.
func (a *assembly) startReplicaPart(ctx context.Context, plugin cloudprovider.Interface) (*replicaPart, error) {
	run := provider.CapabilitiesOf(plugin).RunOnEveryReplica
	if run == nil || a.config.dryRun != nil { // what is announced is a change, too
		return nil, nil
	}
	// Clients of its own: what this part asks for must not wait for the controllers, nor they for it. They are not behind the fence.
	config := version.AddUserAgent(rest.CopyConfig(a.config.kubeconfig), "every-replica")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for what the provider runs on every replica: %w", err)
	}
	watching, err := watchingClient(a.watches, config)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	running = log.IntoContext(running, log.FromContext(ctx).WithName(plugin.ProviderName()))
	part := &replicaPart{cancel: cancel, over: make(chan struct{}), err: errEndedEarly, patience: a.config.gracefulShutdownTimeout}
	sink := newEvents(running, eventSink(client.CoreV1()))
	reporter := a.config.newConfigReporter(client, sink)
	replica := provider.Replica{
		Client: client, ReportConfig: func(failure error) { reporter.report(a.secrets.Conceal(failure)) },
		Informers: informers.NewSharedInformerFactoryWithOptions(watching, 0,
			informers.WithTransform(cache.TransformStripManagedFields())),
		Registerer:   a.registry,
		ClusterCIDRs: a.config.clusterCIDRs,
	}
	go func() {
		defer close(part.over)
		defer sink.shutdown()
		go reporter.run(running)
		err := a.secrets.Conceal(guard.Protect("RunOnEveryReplica", func() error { return run(running, replica) }, nil))
		logPanic(running, err)
		if err != nil && running.Err() == nil {
			part.err = fmt.Errorf("what provider %q runs on every replica: %w", plugin.ProviderName(), err)
		}
	}()
	return part, nil
}

// replicaChecks makes the provider's own readiness a check of /readyz, see provider.Capabilities.ReplicaReady.
func replicaChecks(plugin cloudprovider.Interface, known *secrets.Set) []healthz.HealthChecker {
	ready := provider.CapabilitiesOf(plugin).ReplicaReady
	if ready == nil {
		return nil
	}
	return []healthz.HealthChecker{healthz.NamedCheck("every-replica", func(*http.Request) error {
		return known.Conceal(guard.Protect("ReplicaReady", ready, nil))
	})}
}

// failed is closed when the part has ended by itself; without a part, never.
func (p *replicaPart) failed() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.over
}

// errEndedEarly is a part that returned although no shutdown was requested.
var errEndedEarly = errors.New("what the provider runs on every replica has returned before the shutdown")

// stop ends the part and waits for it, within its bounds and those of ctx.
func (p *replicaPart) stop(ctx context.Context) {
	if p == nil {
		return
	}
	p.cancel()
	timer := time.NewTimer(p.patience)
	defer timer.Stop()
	select {
	case <-p.over:
	case <-ctx.Done():
		log.FromContext(ctx).Info("The provider's tasks on every replica did not stop before the lease expired; exiting without waiting")
	case <-timer.C:
		log.FromContext(ctx).Info("The provider's tasks on every replica did not stop in time; exiting without waiting", "waited", p.patience.String())
	}
}

// runWithoutLease keeps a process alive that has lost its lease, for the part of the provider that runs on every replica: as long as
// the API server does not answer nothing can start in its place. Everything that a leader does has ended before the lease
// expires, or the process ends by then: a write that ignores its context may act beside a new leader.
func (a *assembly) runWithoutLease(ctx context.Context, reason error) {
	if a.replicaPart == nil || !errors.Is(reason, errLeaseLost) {
		return
	}
	logger := log.FromContext(ctx)
	last, _ := a.fence.expiry()
	stopping, cancel := context.WithDeadline(ctx, last)
	defer cancel()
	err := wait.PollUntilContextCancel(stopping, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return a.lifecycle.stopped() == nil, nil
	})
	if err != nil {
		logger.Info("The controllers did not stop in time after the lease was lost; exiting before another replica leads")
		return
	}
	a.lock.Renounce()
	logger.Info("Lost the lease and stopped the controllers. The provider's tasks on every replica continue until the "+
		"API server answers; then this process restarts", "reason", reason.Error())
	answered := make(chan error, 1)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { answered <- waitForAPIServer(watching, a.identity) }()
	select {
	case <-answered:
	case <-a.replicaPart.failed():
	}
}
