package ccm

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	_ "unsafe" // for go:linkname

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	ccmconfig "k8s.io/cloud-provider/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/provider/profiles"
)

// ProviderFunc builds a cloud provider, see WithProvider. It is called once on every replica, before the API server is asked for
// anything, as the function is that the reference's command takes. Of what it returns nothing is called until this replica leads,
// except what says what it is: ProviderName and Capabilities. An error ends the start-up; the context ends when the process is to.
type ProviderFunc func(context.Context, ProviderEnvironment) (cloudprovider.Interface, error)

// ProviderEnvironment is what a cloud provider is built from.
type ProviderEnvironment struct {
	// Name is --cloud-provider.
	Name string
	// ConfigFile is --cloud-config, empty if it is not given. Config opens it.
	ConfigFile string
	// ConfigObject is what --cloud-config-object names, nil if it is not given. Config returns it then.
	ConfigObject provider.ConfigObject
	// ClusterName is --cluster-name.
	ClusterName string
	// ClusterCIDRs are --cluster-cidr, at most one of each IP family.
	ClusterCIDRs []netip.Prefix
	// Settings are the values of the flags that the reference has, as /configz shows them. KubeCloudShared has those of all controllers.
	Settings ccmconfig.CloudControllerManagerConfiguration
	// Clients builds clients for the API server, as Initialize gets it. A client is usable at once, but a replica that does not lead
	// must not write.
	Clients cloudprovider.ControllerClientBuilder
	// API reaches the API server as the manager itself, for a provider that reads resources for which Clients have no types. What it writes by
	// it is refused while this replica must not act as the leader. It is the provider's own copy.
	API *rest.Config
	// Informers are the ones that a cloudprovider.InformerUser gets, as are Environment.Informers. What is asked of them now is
	// watched from the end of Initialize on; until then their listers are empty.
	Informers informers.SharedInformerFactory
	// Registerer takes the provider's metrics; /metrics serves them.
	Registerer prometheus.Registerer
	// DryRun says that nothing may be changed, see --dry-run. The manager withholds its own calls that change something, and what
	// Clients write is refused. What a provider does by itself it has to leave out.
	DryRun bool
	// Logger carries the provider's name.
	Logger logr.Logger
}

// Config opens --cloud-config, or returns nil if it is not given. The caller closes it. It is an *os.File, as what the reference gives to a
// registered factory: a provider that follows its configuration takes the path from its Name. With --cloud-config-object it is a
// provider.ConfigObject.
func (e ProviderEnvironment) Config() (io.ReadCloser, error) {
	if e.ConfigObject != nil {
		return closing{e.ConfigObject}, nil
	}
	if e.ConfigFile == "" {
		return nil, nil
	}
	file, err := os.Open(e.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--cloud-config: %w", err)
	}
	return file, nil
}

// Registered builds the provider by the factory that a package has registered under Name, for a program that goes on from there: one that
// sets fields of its concrete type, for example.
func (e ProviderEnvironment) Registered() (cloudprovider.Interface, error) {
	if !cloudprovider.IsCloudProvider(e.Name) {
		return nil, fmt.Errorf("no package of this program has registered a cloud provider %q; it has %s", e.Name, listed(slices.Collect(maps.Keys(providers))))
	}
	config, err := e.Config()
	if err != nil {
		return nil, err
	}
	if config != nil {
		defer func() { _ = config.Close() }()
	}
	return cloudprovider.GetCloudProvider(e.Name, config)
}

// validateProvider returns an error that names the providers there are, if the named one is not among them. An empty name is
// the reference's to complain about.
func (p *program) validateProvider(name string) error {
	_, own := p.providers[name]
	if name == "" || own || cloudprovider.IsCloudProvider(name) {
		return nil
	}
	known := slices.AppendSeq(slices.Collect(maps.Keys(p.providers)), maps.Keys(providers))
	return invalid("cloud-provider", name, "unknown provider; this program has "+listed(known))
}

// newPlugin builds the provider that --cloud-provider names: by the program's own function, or else by the factory that is registered.
//
// It does not use cloudprovider.InitCloudProvider, which ends the process when the file cannot be opened.
func newPlugin(ctx context.Context, build ProviderFunc, environment ProviderEnvironment) (cloudprovider.Interface, error) {
	if build == nil {
		build = func(_ context.Context, environment ProviderEnvironment) (cloudprovider.Interface, error) {
			return environment.Registered()
		}
	}
	if file := environment.ConfigFile; file != "" {
		if err := checkFile(file); err != nil {
			return nil, fmt.Errorf("--cloud-config: %w", err)
		}
	}
	plugin, err := build(ctx, environment)
	if err != nil {
		heading := fmt.Sprintf("cloud provider %q, --cloud-config %s", environment.Name, environment.ConfigFile)
		switch {
		case environment.ConfigObject != nil:
			heading = fmt.Sprintf("cloud provider %q, %s", environment.Name, environment.ConfigObject)
		case environment.ConfigFile == "":
			heading = fmt.Sprintf("cloud provider %q", environment.Name) // it may take its settings from elsewhere
		}
		return nil, joined(heading, err)
	}
	if plugin == nil {
		return nil, fmt.Errorf("cloud provider %q built nothing from --cloud-config %q, and no error", environment.Name, environment.ConfigFile)
	}
	return plugin, nil
}

// checkFile returns an error if the file cannot be opened.
func checkFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}

// providerEnvironment returns what the provider is built from.
func (c *config) providerEnvironment(ctx context.Context, identity identities, factory informers.SharedInformerFactory,
	registerer prometheus.Registerer) ProviderEnvironment {
	shared := c.component.KubeCloudShared
	return ProviderEnvironment{
		Name:         shared.CloudProvider.Name,
		ConfigFile:   shared.CloudProvider.CloudConfigFile,
		ClusterName:  shared.ClusterName,
		ClusterCIDRs: c.clusterCIDRs,
		Settings:     c.component,
		Clients:      identity.builder,
		API:          rest.CopyConfig(identity.kubeconfig),
		Informers:    factory,
		Registerer:   registerer,
		DryRun:       c.dryRun != nil,
		Logger:       log.FromContext(ctx).WithName(shared.CloudProvider.Name),
	}
}

// providers is the map in which k8s.io/cloud-provider keeps registered factories. Its public API answers for one name and lists
// none, and an error about a mistyped name has to list them. If the library renames the variable, this map is empty: the error
// then names only the program's own providers, and TestRegisteredProvidersAreListed fails.
//
//go:linkname providers k8s.io/cloud-provider.providers
var providers map[string]cloudprovider.Factory

// listed returns the names of providers for a message.
func listed(names []string) string {
	if len(names) == 0 {
		return "none; import a package that registers it"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// adopt fills in how many calls of the plugin are made at the same time where neither the operator nor the plugin says it: what its profile
// says, if it has one. It logs what holds, and what raises it.
func (c *config) adopt(ctx context.Context, plugin cloudprovider.Interface) {
	declared := provider.CapabilitiesOf(plugin)
	profile, unknown := profiles.Of(plugin)
	if c.concurrency.ServiceSyncs == 0 && declared.LoadBalancerWrites == 0 {
		c.concurrency.ServiceSyncs = profile.LoadBalancerWrites
	}
	c.ensuresChanged = profile.EnsureChanged
	const toRaise = "set --cloud-api-max-in-flight if reads of this plugin are safe at the same time"
	var reason string
	switch {
	case c.cloudAPIMaxInFlight > 0:
		reason = fmt.Sprintf("%d, as --cloud-api-max-in-flight says", c.cloudAPIMaxInFlight)
	case declared.Limits.InFlight > 0:
		reason = fmt.Sprintf("%d, as the provider declares", declared.Limits.InFlight)
	case profile.InFlight > 0:
		c.cloudAPIMaxInFlight = profile.InFlight
		reason = fmt.Sprintf("%d, by the profile of %s (%s)", profile.InFlight, profile.Name, profile.Source)
	case unknown == nil:
		reason = fmt.Sprintf("as the reference, by the profile of %s (%s); %s", profile.Name, profile.Source, toRaise)
	default:
		reason = fmt.Sprintf("as the reference: %v; %s", unknown, toRaise)
	}
	log.FromContext(ctx).Info("Limiting the concurrent calls of the cloud provider", "reason", reason)
}
