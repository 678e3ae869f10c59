// Package reference runs controllers that were written for the reference cloud controller manager, k8s.io/cloud-provider/app, as they are:
// what a main puts into app's map of controllers becomes an entry for ccm.WithController.
//
// A program that imports it links the reference's own controllers too. A controller that is written anew does without it.
package reference

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	cacheddiscovery "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/app"
	appconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/prometheus/controllers"
	genericapp "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/controller-manager/pkg/informerfactory"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/ccm"
)

// discoveryPeriod is how often the mapper of kinds to resources is reset, as in the reference.
const discoveryPeriod = 30 * time.Second

// Controller returns the entry for ccm.WithController of a controller that the reference's command takes as a constructor. The caller
// sets what the reference keeps elsewhere: Aliases, DisabledByDefault, AddFlags, Validate and Grants.
//
// The constructor gets a CompletedConfig with everything but what belongs to the reference's own serving: ComponentConfig, clients of the
// controller's identity, the shared informers, an event recorder. The cloud is the provider itself, so its type may be
// asserted; because of that the controller does not run under --dry-run. The function that the constructor returns is called
// when this replica leads and the plugin is initialized. Goroutines that it leaves running end with its context, but are not waited for.
func Controller(name string, constructor app.ControllerInitFuncConstructor) ccm.Controller {
	return ccm.Controller{
		Name:       name,
		ClientName: constructor.InitContext.ClientName,
		New: func(_ context.Context, environment ccm.Environment) (manager.Runnable, error) {
			if constructor.Constructor == nil {
				return nil, errors.New("the entry has no Constructor")
			}
			cloud, err := environment.Provider()
			if err != nil {
				return nil, err
			}
			r := &runner{environment: environment}
			completed, err := r.completedConfig()
			if err != nil {
				return nil, err
			}
			r.start = constructor.Constructor(constructor.InitContext, completed, cloud)
			return r, nil
		},
	}
}

// runner runs a controller of the reference.
type runner struct {
	environment ccm.Environment
	events      record.EventBroadcaster
	start       app.InitFunc
	// started is the controller's own object once it runs, which may have a health check.
	started atomic.Pointer[controller.Interface]
}

// builder makes clients of the controller's identity, whatever name they are asked for by: the name is in the user agent.
func (r *runner) builder() clientbuilder.SimpleControllerClientBuilder {
	return clientbuilder.SimpleControllerClientBuilder{ClientConfig: rest.CopyConfig(r.environment.Config)}
}

// completedConfig returns the settings in the reference's own type.
func (r *runner) completedConfig() (*appconfig.CompletedConfig, error) {
	client, err := kubernetes.NewForConfig(r.environment.Config)
	if err != nil {
		return nil, fmt.Errorf("client for the API server %s: %w", r.environment.Config.Host, err)
	}
	r.events = record.NewBroadcaster()
	settings := &appconfig.Config{
		ComponentConfig:  r.environment.Settings,
		Client:           client,
		Kubeconfig:       rest.CopyConfig(r.environment.Config),
		EventBroadcaster: r.events,
		EventRecorder:    r.environment.Recorder,
		ClientBuilder:    r.builder(),
		VersionedClient:  client,
		SharedInformers:  r.environment.Informers,
	}
	return settings.Complete(), nil
}

// Start runs the controller until ctx ends.
func (r *runner) Start(ctx context.Context) error {
	defer r.events.Shutdown()
	theirs, err := r.controllerContext(ctx)
	if err != nil {
		return err
	}
	started, enabled, err := r.start(ctx, theirs)
	if err != nil {
		return err
	}
	if !enabled {
		r.environment.Logger.Info("The controller has nothing to do")
		return nil
	}
	r.started.Store(&started)
	// What it has asked informers for is watched from now on.
	theirs.InformerFactory.Start(ctx.Done())
	theirs.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(theirs.InformersStarted)
	<-ctx.Done()
	return nil
}

// controllerContext returns what the reference hands to controllers when it leads.
func (r *runner) controllerContext(ctx context.Context) (genericapp.ControllerContext, error) {
	discovery, err := kubernetes.NewForConfig(r.environment.Config)
	if err != nil {
		return genericapp.ControllerContext{}, fmt.Errorf("client for discovery: %w", err)
	}
	objects, err := metadata.NewForConfig(r.environment.Config)
	if err != nil {
		return genericapp.ControllerContext{}, fmt.Errorf("client for metadata: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cacheddiscovery.NewMemCacheClient(discovery.Discovery()))
	go wait.UntilWithContext(ctx, func(context.Context) { mapper.Reset() }, discoveryPeriod)
	resync := func() time.Duration {
		return wait.Jitter(r.environment.Settings.Generic.MinResyncPeriod.Duration, 1) // one to two periods
	}
	return genericapp.ControllerContext{
		ClientBuilder:   r.builder(),
		InformerFactory: r.environment.Informers,
		ObjectOrMetadataInformerFactory: informerfactory.NewInformerFactory(
			r.environment.Informers, metadatainformer.NewSharedInformerFactory(objects, resync())),
		RESTMapper:               mapper,
		Stop:                     ctx.Done(),
		InformersStarted:         make(chan struct{}),
		ResyncPeriod:             resync,
		ControllerManagerMetrics: controllers.NewControllerManagerMetrics("cloud-controller-manager"),
	}, nil
}

// Check is the controller's own health check, if it has one.
func (r *runner) Check(request *http.Request) error {
	started := r.started.Load()
	if started == nil {
		return nil
	}
	checked, ok := (*started).(controller.HealthCheckable)
	if !ok {
		return nil
	}
	if check := checked.HealthChecker(); check != nil {
		return check.Check(request)
	}
	return nil
}
