package ccm

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ccmconfig "k8s.io/cloud-provider/config"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/controller-manager/pkg/leadermigration"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/dryrun"
	"github.com/mooring-ccm/mooring/internal/election"
	"github.com/mooring-ccm/mooring/internal/secrets"
	"github.com/mooring-ccm/mooring/internal/version"
)

// config is what the flags mean: plain values, from which run wires everything.
type config struct {
	// component is the reference's configuration object, as /configz shows it.
	component ccmconfig.CloudControllerManagerConfiguration
	// kubeconfig reaches the API server as the manager's own identity, and reconnect reads it again.
	kubeconfig *rest.Config
	reconnect  func() (*rest.Config, error)
	// election reaches the API server that holds the Leases of leader election; separateElection says that it is another one.
	election         *rest.Config
	separateElection bool
	// provider builds the cloud provider, nil if its registered factory does.
	provider ProviderFunc
	// enabled are the controllers to run; absent are the reference's that "*" means but this build does not contain.
	enabled []Controller
	absent  []string
	// migrated are the enabled controllers that run under the lease of --enable-leader-migration. elsewhere are the controllers that it leaves to
	// another controller manager.
	migrated  map[string]bool
	elsewhere []string

	settings
	nodeSelector labels.Selector
	// clusterCIDRs are --cluster-cidr, none without it.
	clusterCIDRs []netip.Prefix
	concurrency  admission.Concurrency
	// dryRun holds what would be done under --dry-run, otherwise nil.
	dryRun *dryrun.Recorder
	// dryRunWarning says what the provider may do under --dry-run all the same.
	dryRunWarning string
	// ensuresChanged says that the profile of the plugin has a new leader ensure what has changed.
	ensuresChanged bool
	// configRead is the digest of the cloud config that the plugin was built from.
	configRead string
	// configObject holds the cloud config, nil if a file does or nothing.
	configObject *configRef
	// pod is where this process runs, nil if that is not known or there is no leader election. run looks it up.
	pod *election.Pod
	// tracing is nil if nothing is traced.
	tracing *tracingapi.TracingConfiguration

	// The secure port. serving.go applies these options, because that opens the port and asks the API server.
	secureServing  *apiserveroptions.SecureServingOptionsWithLoopback
	authentication *apiserveroptions.DelegatingAuthenticationOptions
	authorization  *apiserveroptions.DelegatingAuthorizationOptions
	// servingCert is the certificate of the secure port once that is open.
	servingCert dynamiccertificates.CertKeyContentProvider
}

// config returns what the flags mean, or all that is wrong with them.
func (o *options) config() (*config, error) {
	c := &config{
		provider:       o.program.providers[o.KubeCloudShared.CloudProvider.Name],
		settings:       o.settings,
		concurrency:    o.concurrency(),
		secureServing:  o.SecureServing,
		authentication: o.Authentication,
		authorization:  o.Authorization,
	}
	c.nodeFullRefreshPeriod = o.fullRefreshPeriod()
	err := o.validate(c)
	if err != nil {
		return nil, err
	}
	if err = o.applyTo(&c.component); err != nil {
		return nil, err
	}
	generic := c.component.Generic
	if lock := generic.LeaderMigration.ResourceLock; leadermigration.Enabled(&generic) && lock != resourcelock.LeasesResourceLock {
		return nil, invalid("leader-migration-config", lock, "resourceLock must be leases: Kubernetes no longer has others")
	}
	if c.enabled, c.absent, err = o.registry.selected(c.component.Generic.Controllers); err != nil {
		return nil, err
	}
	c.migrated, c.enabled, c.elsewhere = migrated(c.component.Generic, c.enabled)
	var errs []error
	for _, controller := range c.enabled {
		if controller.Validate != nil {
			errs = append(errs, controller.Validate()...)
		}
	}
	errs = append(errs, c.portClashes()...)
	if err = joined("invalid flags", errs...); err != nil {
		return nil, err
	}
	c.reconnect = o.connect
	if c.kubeconfig, err = o.kubeconfig(); err != nil {
		return nil, err
	}
	c.election = c.kubeconfig
	if c.separateElection = o.electionKubeconfig != ""; c.separateElection {
		if c.election, err = clientcmd.BuildConfigFromFlags("", o.electionKubeconfig); err != nil {
			return nil, invalid(electionKubeconfigFlag, o.electionKubeconfig, err.Error())
		}
		c.election = version.AddUserAgent(c.election, programName)
	}
	if o.dryRun {
		c.writeNothing()
	}
	return c, nil
}

// cloudOptions returns how the cloud is called.
func (c *config) cloudOptions(
	lifetime context.Context, registerer prometheus.Registerer, spans trace.TracerProvider, fence *fence, known *secrets.Set,
) cloud.Options {
	return cloud.Options{
		Secrets:        known,
		Fence:          fence.closed,
		WritesFrom:     fence.inherited,
		TracerProvider: spans,
		CallTimeout:    c.cloudAPITimeout,
		WriteTimeout:   c.cloudAPIWriteTimeout,
		Lifetime:       lifetime,
		MaxInFlight:    c.cloudAPIMaxInFlight,
		Concurrency:    c.concurrency,
		QPS:            c.cloudAPIQPS,
		Burst:          c.cloudAPIBurst,
		Registerer:     registerer,
	}
}

// concurrency returns how many calls the flags of the reference allow at the same time, as far as they are set: a default gives way to what
// the provider declares.
func (o *options) concurrency() admission.Concurrency {
	said := func(flag string, value int32) int {
		if o.set == nil || !o.set(flag) {
			return 0
		}
		return int(value)
	}
	return admission.Concurrency{
		NodeSyncs:          said("concurrent-node-syncs", o.NodeController.ConcurrentNodeSyncs),
		NodeStatusUpdates:  said("concurrent-node-status-updates", o.NodeController.ConcurrentNodeStatusUpdates),
		NodeLifecycleSyncs: said("concurrent-node-lifecycle-syncs", o.NodeLifecycleController.ConcurrentNodeLifecycleSyncs),
		ServiceSyncs:       said("concurrent-service-syncs", o.ServiceController.ConcurrentServiceSyncs),
	}
}

// applyTo fills in the reference's configuration object, with the names of controllers in canonical form.
func (o *options) applyTo(component *ccmconfig.CloudControllerManagerConfiguration) error {
	component.NodeStatusUpdateFrequency = o.NodeStatusUpdateFrequency
	return joined("invalid flags",
		o.Generic.ApplyTo(&component.Generic, o.registry.known(), o.registry.disabledByDefault(), o.registry.aliases()),
		o.KubeCloudShared.ApplyTo(&component.KubeCloudShared),
		o.ServiceController.ApplyTo(&component.ServiceController),
		o.NodeController.ApplyTo(&component.NodeController),
		o.NodeLifecycleController.ApplyTo(&component.NodeLifecycleController),
		o.Webhook.ApplyTo(&component.Webhook))
}

// kubeconfig returns how to reach the API server, as in the reference: --kubeconfig, --master, or the Pod's ServiceAccount.
func (o *options) kubeconfig() (*rest.Config, error) {
	connection := o.Generic.ClientConnection
	kubeconfig, err := o.connect()
	if err != nil {
		return nil, err
	}
	kubeconfig.DisableCompression = true
	kubeconfig.AcceptContentTypes = connection.AcceptContentTypes
	kubeconfig.ContentType = connection.ContentType
	kubeconfig.QPS = connection.QPS
	kubeconfig.Burst = int(connection.Burst)
	return version.AddUserAgent(kubeconfig, programName), nil
}

// connect returns how to reach the API server, before the other flags of the connection.
func (o *options) connect() (*rest.Config, error) {
	if o.apiServer != nil {
		return rest.CopyConfig(o.apiServer), nil
	}
	file, master := o.Generic.ClientConnection.Kubeconfig, o.Master
	var kubeconfig *rest.Config
	var err error
	if file == "" && master == "" {
		kubeconfig, err = rest.InClusterConfig()
	} else {
		kubeconfig, err = clientcmd.BuildConfigFromFlags(master, file)
	}
	if err != nil {
		return nil, fmt.Errorf("no way to the API server by --kubeconfig %q, --master %q or the ServiceAccount of a Pod: %w", file, master, err)
	}
	return kubeconfig, nil
}
