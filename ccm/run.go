package ccm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/reconnect"
	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/internal/version"
)

// run is the life of a process: start-up checks, warm caches on every replica, controllers on the one that leads. It returns
// nil after an orderly shutdown, which begins when ctx ends.
func run(ctx context.Context, c *config) error {
	if c.dryRun != nil { // every line says that nothing of it has happened
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("dryRun", true))
	}
	sayWhat(ctx, c)
	c.pod = leaderPod(ctx, c, os.Getenv)
	fence := newFence()
	identity, err := newIdentities(c.kubeconfig, c.component.KubeCloudShared.UseServiceAccountCredentials, c.serviceAccountPrefix, fence)
	if err != nil {
		return err
	}
	registry, watches := prometheus.NewRegistry(), reconnect.New(log.FromContext(ctx))
	version.Register(registry)
	if err := libraries.show(registry); err != nil {
		return fmt.Errorf("showing metrics in the registry of the Kubernetes libraries: %w", err)
	}
	shared, err := sharedInformers(watches, identity, c)
	if err != nil {
		return err
	}
	known := secrets.New(os.Environ())
	plugin, err := c.configuredPlugin(ctx, identity, watches, c.providerEnvironment(ctx, identity, shared, registry), known)
	if err != nil {
		return orderly(ctx, err)
	}
	if c.dryRun != nil {
		c.dryRunWarning = warnOfInitialize(ctx, plugin)
	}
	if err := waitForAPIServer(ctx, identity); err != nil {
		return orderly(ctx, err)
	}
	if err := checkGrants(ctx, identity, c, plugin); err != nil {
		return orderly(ctx, err)
	}
	events := newEvents(ctx, eventSink(identity.client.CoreV1()))
	defer events.shutdown()

	spans, stopTracing, err := c.newTracing(ctx)
	if err != nil {
		return err
	}
	c.adopt(ctx, plugin)
	lifetime, end := fence.within(ctx)
	defer end()
	client := cloud.Decorate(plugin, c.cloudOptions(lifetime, registry, spans, fence, known))
	a := &assembly{
		config: c, identity: identity, events: events, registry: registry, spans: spans, watches: watches, fence: fence,
		plugin:    plugin,
		secrets:   known,
		client:    client,
		cloud:     c.cloudFor(client),
		informers: shared,
		lifecycle: newLifecycle(plugin, client, identity.builder, shared, c.component.KubeCloudShared.AllowUntaggedCloud, fence, known),
	}
	defer a.end(ctx, stopTracing)
	if a.replicaPart, err = a.startReplicaPart(ctx, plugin); err != nil {
		return err
	}
	if err := a.assemble(ctx); err != nil {
		return orderly(ctx, err)
	}
	return a.start(ctx)
}

// end stops what runs on every replica, and then the tracing, which may be of its end.
func (a *assembly) end(ctx context.Context, stopTracing func(context.Context)) {
	ending, cancel := a.ending(ctx)
	defer cancel()
	a.replicaPart.stop(ending)
	stopTracing(ending)
}

// configuredPlugin reads the cloud config, and returns the plugin that is made of it. What an error says of the config has no secrets in it.
func (c *config) configuredPlugin(ctx context.Context, identity identities, watches *reconnect.Monitor, environment ProviderEnvironment,
	known *secrets.Set,
) (plugin cloudprovider.Interface, err error) {
	known.FollowFile(environment.ConfigFile)
	if content, err := os.ReadFile(environment.ConfigFile); err == nil { // newPlugin says what is wrong with the file
		c.configRead = digestOf(content)
	}
	if environment.ConfigObject, err = c.readConfigObject(ctx, identity, watches, known); err != nil {
		return nil, err
	}
	if plugin, err = newPlugin(ctx, c.provider, environment); err != nil {
		err = known.Conceal(err)
		c.sayRefused(ctx, identity.client, err)
		return nil, err
	}
	return plugin, nil
}

// orderly is the result of a start-up that was cut short: no error if that is because a shutdown was requested.
func orderly(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		log.FromContext(ctx).Info("Shutdown requested during startup", "reason", err.Error())
		return nil
	}
	return err
}

// sayWhat logs which program this is, which controllers run, and which of the reference do not because this build does not
// contain them.
func sayWhat(ctx context.Context, c *config) {
	enabled := make([]string, 0, len(c.enabled))
	for _, controller := range c.enabled {
		enabled = append(enabled, controller.Name)
	}
	logger := log.FromContext(ctx)
	info := version.Get()
	logger.Info("Starting", "version", info.Version, "commit", info.Commit, "program", info.Program, "kubernetes", info.Kubernetes,
		"provider", c.component.KubeCloudShared.CloudProvider.Name, "controllers", enabled)
	if len(c.absent) > 0 {
		logger.Info("Controllers of the reference that this build does not contain do not run", "controllers", c.absent)
	}
	if len(c.elsewhere) > 0 {
		logger.Info("Controllers that --leader-migration-config leaves to another controller manager do not run", "controllers", c.elsewhere)
	}
}

// sharedInformers returns the informers for a plugin that is a cloudprovider.InformerUser, and for controllers that vendors wrote for the reference.
// They watch only requested resources, and deliver objects as they are, except for managedFields. Resyncs are spread over one to two periods, as in
// the reference.
func sharedInformers(watches *reconnect.Monitor, identity identities, c *config) (informers.SharedInformerFactory, error) {
	client, err := watchingClient(watches, identity.kubeconfig)
	if err != nil {
		return nil, err
	}
	resync := wait.Jitter(c.component.Generic.MinResyncPeriod.Duration, 1)
	return informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(cache.TransformStripManagedFields())), nil
}

// start serves the secure port and runs the manager. The port is served to the end: an operator may want to see why a
// shutdown takes its time. After an error nothing is waited for, because another replica may lead already.
func (a *assembly) start(ctx context.Context) error {
	handler, err := newHandler(a.config, a.probes(), a.registry)
	if err != nil {
		return err
	}
	stopServing, err := serve(ctx, a.config, handler)
	if err != nil {
		return orderly(ctx, err)
	}
	if err := a.manage(ctx); err != nil {
		a.runWithoutLease(ctx, err)
		stopServing(false)
		return fmt.Errorf("stopped: %w", err)
	}
	ending, cancel := a.ending(ctx)
	defer cancel()
	a.replicaPart.stop(ending)
	stopServing(true)
	log.FromContext(ctx).Info("Stopped gracefully")
	return nil
}

// ending returns a context for what is done at the end of the process, when ctx may have ended. While something that a leader does
// may still go on, it ends when the lease expires: then nothing is worth waiting for.
func (a *assembly) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	_, expired := a.fence.expiry()
	if expired.IsZero() || a.lifecycle.stopped() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, expired)
}

// manage runs the manager until ctx ends, a lease is lost or a controller fails.
func (a *assembly) manage(ctx context.Context) error {
	managing, cancel := context.WithCancel(ctx)
	go a.followCredentials(managing, a.config.reconnect)
	finished := make(chan error, 1)
	go func() {
		finished <- a.manager.Start(managing)
		cancel()
	}()
	select {
	case err := <-finished:
		return a.result(ctx, err)
	case <-a.replicaPart.failed():
		cancel()
		return a.replicaPart.err
	case <-a.fence.leading.Done():
	}
	reason := context.Cause(a.fence.leading)
	switch {
	case ctx.Err() != nil && a.lifecycle.stopped() == nil: // it stops in order, and only the lease is not released
		return a.result(ctx, <-finished)
	case errors.Is(reason, errLeaseLost):
		// What acts as the leader has ended with the fence, and the manager ends when its elector gives up. To cancel it
		// before would have both write one of its fields, which has no lock.
	default:
		cancel()
	}
	return reason
}

// result is what the manager's own end means.
func (a *assembly) result(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled): // shutdown was requested before the caches were filled
		return nil
	case err != nil && err.Error() == lostLease: // the elector gave up before the lease was overdue
		a.fence.end(errLeaseLost)
		return errLeaseLost
	default:
		return err
	}
}
