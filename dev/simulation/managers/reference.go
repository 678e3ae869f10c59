package managers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	genericapp "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/pkg/clientbuilder"
)

// Reference is the cloud controller manager of k8s.io/cloud-provider.
var Reference = &Manager{Name: "reference", run: runReference}

// apiServerPatience is how long the reference waits for a healthy API server before it exits.
const apiServerPatience = 10 * time.Second

// runReference is what app.NewCloudControllerManagerCommand and app.Run do, and the sample main with them.
func runReference(ctx context.Context, process *Incarnation, flags []string) error {
	completed, err := referenceConfig(process, flags)
	if err != nil {
		return err
	}
	if !process.plugin.HasClusterID() && !completed.ComponentConfig.KubeCloudShared.AllowUntaggedCloud {
		return errors.New("the plugin has found no cluster ID")
	}
	initializers := app.ConstructControllerInitializers(app.DefaultInitFuncConstructors, completed, process.plugin)
	completed.EventBroadcaster.StartStructuredLogging(0)
	completed.EventBroadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: completed.Client.CoreV1().Events("")})
	defer completed.EventBroadcaster.Shutdown()
	run := func(ctx context.Context) error { return runControllers(ctx, completed, process.plugin, initializers) }
	if completed.ComponentConfig.Generic.LeaderElection.LeaderElect {
		return elected(ctx, completed, run)
	}
	return run(ctx)
}

// referenceConfig returns what the flags mean, with clients on the transport of the process.
func referenceConfig(process *Incarnation, flags []string) (*config.CompletedConfig, error) {
	parsing.Lock()
	defer parsing.Unlock()
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("the reference's default options: %w", err)
	}
	o.WebhookServing, o.Webhook = nil, nil // there are none, and their port would get a certificate
	controllers, off := app.ControllerNames(app.DefaultInitFuncConstructors), app.ControllersDisabledByDefault.List()
	set := pflag.NewFlagSet("cloud-controller-manager", pflag.ContinueOnError)
	for _, section := range o.Flags(controllers, off, names.CCMControllerAliases(), nil, nil).FlagSets {
		set.AddFlagSet(section)
	}
	if err := set.Parse(flags); err != nil {
		return nil, fmt.Errorf("flags of the reference: %w", err)
	}
	c, err := o.Config(controllers, off, names.CCMControllerAliases(), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("configuration of the reference: %w", err)
	}
	if err := connect(c, process.config()); err != nil {
		return nil, err
	}
	return c.Complete(), nil
}

// connect builds the clients of a configuration once more, as options.CloudControllerManagerOptions.ApplyTo does, on a transport.
func connect(c *config.Config, by *rest.Config) error {
	if c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		return errors.New("--use-service-account-credentials: the simulation has no ServiceAccounts")
	}
	c.Kubeconfig.Transport = by.Transport
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.Kubeconfig), options.CloudControllerManagerUserAgent))
	if err != nil {
		return fmt.Errorf("client of the reference: %w", err)
	}
	builder := clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	versioned, err := builder.Client("shared-informers")
	if err != nil {
		return fmt.Errorf("client of the reference's informers: %w", err)
	}
	resync := wait.Jitter(c.ComponentConfig.Generic.MinResyncPeriod.Duration, 1)
	c.Client, c.ClientBuilder, c.VersionedClient = client, builder, versioned
	c.SharedInformers = sortedInformers{informers.NewSharedInformerFactory(versioned, resync)}
	return nil
}

// runControllers is the private run and startControllers of package app. It returns when ctx ends, and where the reference exits.
func runControllers(ctx context.Context, c *config.CompletedConfig, plugin cloudprovider.Interface, controllers map[string]app.InitFunc) error {
	stop := ctx.Done()
	shared, err := app.CreateControllerContext(c, clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}, stop)
	if err != nil {
		return fmt.Errorf("controller context of the reference: %w", err)
	}
	plugin.Initialize(c.ClientBuilder, stop)
	if user, ok := plugin.(cloudprovider.InformerUser); ok {
		user.SetInformers(c.SharedInformers)
	}
	interval := c.ComponentConfig.Generic.ControllerStartInterval.Duration
	for _, name := range slices.Sorted(maps.Keys(controllers)) {
		if !genericapp.IsControllerEnabled(name, app.ControllersDisabledByDefault, c.ComponentConfig.Generic.Controllers) {
			continue
		}
		_, started, err := controllers[name](ctx, shared)
		if err != nil {
			return fmt.Errorf("controller %s of the reference: %w", name, err)
		}
		if started {
			time.Sleep(wait.Jitter(interval, app.ControllerStartJitter))
		}
	}
	if err := genericapp.WaitForAPIServer(c.VersionedClient, apiServerPatience); err != nil {
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	c.SharedInformers.Start(stop)
	shared.InformerFactory.Start(stop)
	<-stop
	return nil
}

// elected runs the controllers while this process holds the lease. It returns when ctx ends, the lease is lost or the controllers exit.
func elected(ctx context.Context, c *config.CompletedConfig, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	settings := c.ComponentConfig.Generic.LeaderElection
	lock, err := resourcelock.NewFromKubeconfig(settings.ResourceLock, settings.ResourceNamespace, settings.ResourceName,
		resourcelock.ResourceLockConfig{Identity: "simulated_" + string(uuid.NewUUID()), EventRecorder: c.EventRecorder},
		c.Kubeconfig, settings.RenewDeadline.Duration)
	if err != nil {
		return fmt.Errorf("lock of the reference: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: settings.LeaseDuration.Duration,
		RenewDeadline: settings.RenewDeadline.Duration,
		RetryPeriod:   settings.RetryPeriod.Duration,
		Name:          settings.ResourceName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				cancel(exitable(func() error { return run(leading) }))
			},
			OnStoppedLeading: func() { cancel(errors.New("leaderelection lost")) },
		},
	})
	if err != nil {
		return fmt.Errorf("election of the reference: %w", err)
	}
	elector.Run(ctx)
	return context.Cause(ctx)
}
