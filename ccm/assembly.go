package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/informers"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimeconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/election"
	"github.com/mooring-ccm/mooring/internal/embedded"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/reconnect"
	"github.com/mooring-ccm/mooring/internal/secrets"
)

// assembly is everything of one process, wired.
type assembly struct {
	config   *config
	identity identities
	events   *events
	registry *prometheus.Registry
	spans    trace.TracerProvider // nil: tracing is off
	secrets  *secrets.Set         // what no error of the plugin may repeat
	watches  *reconnect.Monitor   // all informers share it
	// plugin is the provider itself, client is the client of the cloud, and cloud what controllers get of it: under --dry-run without writes.
	plugin    cloudprovider.Interface
	client    cloudprovider.Interface
	cloud     cloudprovider.Interface
	informers informers.SharedInformerFactory
	lifecycle *lifecycle
	// fence keeps what the leader does from going on when the lease is lost.
	fence *fence
	// replicaPart is nil if the provider runs nothing on every replica.
	replicaPart *replicaPart
	// lock is nil without leader election.
	lock    *election.Lock
	manager manager.Manager
	// migration is nil unless controllers run under the lease of --enable-leader-migration.
	migration   *migration
	inventory   func() (*instances.Inventory, error)
	owners      ownership.Rules
	controllers []*running
}

// assemble builds the manager and adds the plugin's life and the controllers. Nothing is started.
func (a *assembly) assemble(ctx context.Context) error {
	if err := a.buildManager(ctx); err != nil {
		return err
	}
	if err := a.manager.Add(a.lifecycle); err != nil {
		return fmt.Errorf("adding the cloud provider to the manager: %w", err)
	}
	if len(a.config.migrated) > 0 {
		if err := a.addMigration(ctx); err != nil {
			return err
		}
	}
	a.inventory = sync.OnceValues(func() (*instances.Inventory, error) { return a.newInventory(ctx) })
	a.owners = rulesOf(a.config, a.cloud)
	for i, controller := range a.config.enabled {
		delay := time.Duration(0)
		if interval := a.config.component.Generic.ControllerStartInterval.Duration; interval > 0 {
			delay = time.Duration(i) * wait.Jitter(interval, 1)
		}
		if err := a.add(ctx, controller, delay); err != nil {
			return fmt.Errorf("controller %s cannot be built: %w", controller.Name, err)
		}
	}
	return nil
}

// buildManager builds the manager, and with leader election its lock.
func (a *assembly) buildManager(ctx context.Context) error {
	if settings := a.config.component.Generic.LeaderElection; settings.LeaderElect {
		lock, err := a.newLock(ctx, settings.ResourceName, a.lifecycle.stopped, errLeaseLost)
		if err != nil {
			return err
		}
		a.lock = lock
	}
	options, err := a.managerOptions(ctx)
	if err != nil {
		return err
	}
	if a.manager, err = manager.New(negotiated(a.identity.kubeconfig), options); err != nil {
		return fmt.Errorf("building the manager: %w", err)
	}
	return nil
}

// addMigration adds the second lease of --enable-leader-migration.
func (a *assembly) addMigration(ctx context.Context) error {
	settings := a.config.component.Generic
	lock, err := a.newLock(ctx, settings.LeaderMigration.LeaderName, nil, errMigrationLost)
	if err != nil {
		return err
	}
	a.migration = &migration{settings: settings, lock: lock, lifecycle: a.lifecycle, fence: a.fence, controllers: newStartBarrier()}
	if err := a.manager.Add(a.migration); err != nil {
		return fmt.Errorf("adding leader migration to the manager: %w", err)
	}
	return nil
}

// newLock returns the lock on a Lease, under a name that no other process has. Its loss closes the fence and ends the process.
func (a *assembly) newLock(ctx context.Context, name string, beforeRelease func() error, lost error) (*election.Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of this replica: %w", err)
	}
	settings := a.config.component.Generic.LeaderElection
	// The elector's own client is not behind the fence.
	lock, err := election.New(a.config.election, election.Options{
		Namespace:     settings.ResourceNamespace,
		Name:          name,
		Identity:      host + "_" + string(uuid.NewUUID()),
		LeaseDuration: settings.LeaseDuration.Duration,
		RenewDeadline: settings.RenewDeadline.Duration,
		RetryPeriod:   settings.RetryPeriod.Duration,
		Recorder:      a.recorder(programName),
		BeforeRelease: beforeRelease,
		Pod:           a.config.pod,
		ServingKey:    a.config.servingKey,
		OnLost: func(reason error) {
			log.FromContext(ctx).Info("Lost the lease; stopping all writes, because another replica may lead",
				"lease", settings.ResourceNamespace+"/"+name, "reason", reason.Error())
			a.fence.end(lost)
		},
	})
	if err != nil {
		return nil, err
	}
	a.fence.add(lock)
	return lock, nil
}

// admissionOf returns who admits a controller: the plugin's life, or the lease of migrated controllers.
func (a *assembly) admissionOf(name string) *startBarrier {
	if a.config.migrated[name] {
		return a.migration.controllers
	}
	return a.lifecycle.controllers
}

// newInventory returns the one place that asks the cloud about instances. How many of its calls are under way, and which comes
// first, is up to the client of the cloud.
func (a *assembly) newInventory(ctx context.Context) (*instances.Inventory, error) {
	instances := instances.New(instances.Options{
		Cloud:      a.cloud,
		Registerer: a.registry,
		Logger:     log.FromContext(ctx).WithName("inventory"),
	})
	if err := a.manager.Add(instances); err != nil {
		return nil, fmt.Errorf("adding the inventory to the manager: %w", err)
	}
	return instances, nil
}

// managerOptions returns how controller-runtime's manager is to run. Its own servers stay off: serving.go has one for all.
func (a *assembly) managerOptions(ctx context.Context) (manager.Options, error) {
	scheme := runtime.NewScheme() // one of its own, so what a vendor adds to it stays here
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return manager.Options{}, fmt.Errorf("types of the Kubernetes API: %w", err)
	}
	cached, err := a.config.cacheOptions()
	if err != nil {
		return manager.Options{}, err
	}
	cached.NewInformer = embedded.From(ctx).NewInformer
	if cached.HTTPClient, err = a.watches.HTTPClient(a.identity.kubeconfig); err != nil {
		return manager.Options{}, err
	}
	logger := log.FromContext(ctx)
	settings := a.config.component.Generic.LeaderElection
	options := manager.Options{
		Scheme:                  scheme,
		Logger:                  withoutFalseAlarm(logger),
		Cache:                   cached,
		BaseContext:             func() context.Context { return log.IntoContext(context.Background(), logger) },
		GracefulShutdownTimeout: ptr.To(a.config.gracefulShutdownTimeout),
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		PprofBindAddress:        "0",
		Controller: runtimeconfig.Controller{
			EnableWarmup: ptr.To(true),
			// Two managers may run in one process; names are unique within one because the registry checks them.
			SkipNameValidation: ptr.To(true),
			Logger:             logger,
		},
	}
	if a.lock != nil {
		options.LeaderElection = true
		options.LeaderElectionID = settings.ResourceName
		options.LeaderElectionNamespace = settings.ResourceNamespace
		options.LeaderElectionResourceLockInterface = a.lock
		options.LeaderElectionReleaseOnCancel = true
		options.LeaseDuration = &settings.LeaseDuration.Duration
		options.RenewDeadline = &settings.RenewDeadline.Duration
		options.RetryPeriod = &settings.RetryPeriod.Duration
	}
	return options, nil
}

// add builds one controller and adds it behind its start barrier.
func (a *assembly) add(ctx context.Context, controller Controller, delay time.Duration) error {
	config, err := a.identity.of(controller.clientName())
	if err != nil {
		return err
	}
	writer, err := a.config.clientFor(controller.Name, negotiated(config), client.Options{
		Scheme: a.manager.GetScheme(),
		Mapper: a.manager.GetRESTMapper(),
		Cache:  &client.CacheOptions{Reader: a.manager.GetCache()},
	})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	controllerState := &running{name: controller.Name, fence: a.fence, admission: a.admissionOf(controller.Name), delay: delay}
	own := &scopedManager{Manager: a.manager, controller: controllerState, client: writer, config: config}
	logger := log.FromContext(ctx).WithName(controller.Name)
	runnable, err := controller.New(log.IntoContext(ctx, logger), Environment{
		Manager:     own,
		Client:      writer,
		Config:      rest.CopyConfig(config),
		Recorder:    a.recorder(controller.Name),
		Cloud:       a.cloud,
		Provider:    a.provider,
		Instances:   a.sharedInstances,
		Informers:   a.informers,
		DryRun:      a.config.dryRun != nil,
		ClusterName: a.config.component.KubeCloudShared.ClusterName,
		Settings:    a.config.component,
		Registerer:  a.registry,
		Logger:      logger,
		config:      a.config,
		kubeconfig:  a.identity.kubeconfig,
		spans:       a.spans,
		lease:       a.leaseObject,
		inventory:   a.inventory,
		owners:      a.owners,
	})
	if errors.Is(err, ErrDryRun) {
		logger.Info("Not running this controller: --dry-run cannot intercept its writes", "reason", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if runnable != nil {
		if err := own.Add(runnable); err != nil {
			return err
		}
	}
	if controllerState.runs() {
		a.controllers = append(a.controllers, controllerState)
	}
	return nil
}

// leaseObject is Environment.lease.
func (a *assembly) leaseObject(ctx context.Context) *corev1.ObjectReference {
	lease := (&configReporter{client: a.identity.client, about: a.config.leaseAbout()}).object(ctx)
	return &lease
}

// provider is Environment.Provider.
func (a *assembly) provider() (cloudprovider.Interface, error) {
	if a.config.dryRun != nil {
		return nil, fmt.Errorf("provider %q itself: %w", a.plugin.ProviderName(), ErrDryRun)
	}
	return a.plugin, nil
}

// recorder returns a recorder of events from the given component.
func (a *assembly) recorder(component string) record.EventRecorder {
	if a.config.dryRun != nil {
		return silent{}
	}
	return a.events.recorder(component)
}

// probes returns the health checks: each controller, the lease, the plugin and the caches under a name of its own.
func (a *assembly) probes() probes {
	checks := probes{live: []healthz.HealthChecker{healthz.PingHealthz}, ready: []healthz.HealthChecker{healthz.PingHealthz}}
	if a.lock != nil {
		leaderElection := healthz.NamedCheck("leaderElection", a.lock.Check)
		checks.live = append(checks.live, leaderElection)
		checks.ready = append(checks.ready, leaderElection)
	}
	if a.migration != nil {
		leaderMigration := healthz.NamedCheck("leaderMigration", a.migration.lock.Check)
		checks.live = append(checks.live, leaderMigration)
		checks.ready = append(checks.ready, leaderMigration)
	}
	checks.ready = append(checks.ready, healthz.NamedCheck("informer-sync", a.synced), a.lifecycle,
		healthz.NamedCheck("credentials", a.identity.refusals.check),
		healthz.NamedCheck("cloud-calls", func(*http.Request) error { return cloud.Overdue(a.client) }))
	if a.config.dryRun == nil { // nothing runs on every replica
		checks.ready = append(checks.ready, replicaChecks(a.plugin, a.secrets)...)
	}
	for _, controller := range a.controllers {
		checks.live = append(checks.live, controller)
		checks.ready = append(checks.ready, controller.readiness())
	}
	return checks
}

// errNotSynced is what the check of the caches finds.
var errNotSynced = errors.New("the caches are not filled yet")

// synced fails until the caches hold what the API server has.
func (a *assembly) synced(request *http.Request) error {
	ctx, cancel := context.WithTimeout(request.Context(), 100*time.Millisecond)
	defer cancel()
	if !a.manager.GetCache().WaitForCacheSync(ctx) {
		return errNotSynced
	}
	return nil
}
