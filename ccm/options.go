package ccm

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	ccmoptions "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics/features"
	"k8s.io/component-base/version/verflag"

	"github.com/mooring-ccm/mooring/internal/controller/node"
)

// The gates of logging and metrics are part of --feature-gates, as in the reference. They live in the gate of the process,
// because that is where those libraries read them.
func init() {
	utilruntime.Must(features.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	// A process may run the command more than once, with the same logging flags: two replicas side by side.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
}

const (
	// programName is the command's name, its user agent and the component of its own events, as in the reference.
	programName = "cloud-controller-manager"

	// defaultQPS switches the client's own throttling off.
	defaultQPS = -1
	// defaultGracefulShutdownTimeout leaves time to exit within the 30 s that a kubelet grants a Pod.
	defaultGracefulShutdownTimeout = 20 * time.Second

	serviceAccountPrefixFlag = "service-account-prefix"
	electionKubeconfigFlag   = "leader-elect-kubeconfig"

	// ownSection is the heading of the flags that the reference does not have.
	ownSection = "mooring"
)

// options are the values of all flags: those of the reference, by its own code, and ours.
type options struct {
	*ccmoptions.CloudControllerManagerOptions
	logs     *logs.Options
	program  *program
	registry registry // the program's controllers

	settings
	nodeSelector       string
	tracingConfigFile  string
	cloudConfigObject  string
	dryRun             bool
	electionKubeconfig string

	// set reports whether the operator or the program has set a flag, nil if none is set.
	set func(flag string) bool

	// apiServer is how the API server is reached, nil if the flags say it.
	apiServer *rest.Config
}

// settings are the values of our flags that mean what they say.
type settings struct {
	providerIDSchemes       []string
	nodeFullRefreshPeriod   time.Duration
	nodeLabelManagers       []string
	cloudAPITimeout         time.Duration
	cloudAPIWriteTimeout    time.Duration
	cloudAPIMaxInFlight     int
	cloudAPIQPS             float64
	cloudAPIBurst           int
	gracefulShutdownTimeout time.Duration
	// serviceAccountPrefix begins the names of the controllers' ServiceAccounts.
	serviceAccountPrefix string
}

// newOptions returns the defaults.
func newOptions(program *program) (*options, error) {
	if err := program.validate(); err != nil {
		return nil, err
	}
	reference, err := ccmoptions.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("the reference's default options: %w", err)
	}
	reference.Generic.ClientConnection.QPS = defaultQPS
	return &options{
		CloudControllerManagerOptions: reference,
		logs:                          logs.NewOptions(),
		program:                       program,
		registry:                      program.controllers,
		settings:                      settings{nodeLabelManagers: []string{programName}, gracefulShutdownTimeout: defaultGracefulShutdownTimeout},
	}, nil
}

// flags returns all flags by section. A flag that two of them define is an error: only one would be set.
func (o *options) flags() (cliflag.NamedFlagSets, error) {
	sections := o.CloudControllerManagerOptions.Flags(o.registry.known(), o.registry.disabledByDefault(), o.registry.aliases(), nil, nil)
	o.addOwnFlags(&sections)
	global := sections.FlagSet("global")
	verflag.AddFlags(global)
	logsapi.AddFlags(o.logs, global)
	globalflag.AddGlobalFlags(global, programName, logs.SkipLoggingConfigurationFlags())
	var errs []error
	for _, controller := range o.registry {
		if controller.AddFlags != nil {
			errs = append(errs, addTo(&sections, controller.Name, controller.AddFlags))
		}
	}
	for _, flags := range o.program.flags {
		errs = append(errs, addTo(&sections, flags.Section, flags.Add))
	}
	return sections, joined("conflicting flags", append(errs, clashes(sections))...)
}

// addTo adds flags to a section. A flag that the section has already is an error.
func addTo(sections *cliflag.NamedFlagSets, section string, add func(*pflag.FlagSet)) error {
	own := pflag.NewFlagSet(section, pflag.ContinueOnError)
	own.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	add(own)
	var errs []error
	set := sections.FlagSet(section)
	own.VisitAll(func(flag *pflag.Flag) {
		if set.Lookup(flag.Name) != nil { // pflag would panic
			errs = append(errs, fmt.Errorf("--%s is defined twice by %q", flag.Name, section))
			return
		}
		set.AddFlag(flag)
	})
	return joined("conflicting flags", errs...)
}

// lookup returns a flag, whatever section it is in, or nil.
func lookup(sections cliflag.NamedFlagSets, name string) *pflag.Flag {
	for _, section := range sections.FlagSets {
		if flag := section.Lookup(name); flag != nil {
			return flag
		}
	}
	return nil
}

// addOwnFlags adds what the reference does not have. Package flagdoc has the reason of each.
func (o *options) addOwnFlags(sections *cliflag.NamedFlagSets) {
	fs := sections.FlagSet(ownSection)
	fs.StringVar(&o.nodeSelector, "node-selector", o.nodeSelector,
		"Label selector of the nodes that this cloud controller manager looks after. Empty: all. A node that does not match is never written and never asked for.")
	fs.StringSliceVar(&o.providerIDSchemes, "provider-id-schemes", o.providerIDSchemes,
		"Schemes of the provider IDs of this cloud's nodes, such as aws for aws:///zone/i-1. A node with another scheme is never written and never asked for. An empty one is for provider IDs without a scheme: \"oci,\" names oci:// and those, \",\" those only. Without the flag: what the provider declares, or else any.")
	fs.DurationVar(&o.nodeFullRefreshPeriod, "node-full-refresh-period", o.nodeFullRefreshPeriod,
		"The longest time between two lookups of an initialized node with a provider that can neither list nor watch its instances. The pauses double from --node-status-update-frequency; with a value no longer than that, every node is looked up once per --node-status-update-frequency, as in the reference. 0: "+
			fmt.Sprintf("%s, or every node once per --node-status-update-frequency where that is not at its default.", node.DefaultFullRefreshPeriod))
	fs.StringSliceVar(&o.nodeLabelManagers, "node-label-managers", o.nodeLabelManagers,
		"Field managers, as a node's metadata.managedFields names them, whose values of the labels of zone, region and type follow the cloud, beside this manager's own. Name the cloud controller manager that ran before.")
	fs.DurationVar(&o.cloudAPITimeout, "cloud-api-timeout", o.cloudAPITimeout,
		"Deadline of a call to the cloud that reads; of a listing, the longest time from page to page. 0: what the provider declares, or else none, as in the reference.")
	fs.DurationVar(&o.cloudAPIWriteTimeout, "cloud-api-write-timeout", o.cloudAPIWriteTimeout,
		"Deadline of a call to the cloud that changes something. 0: what the provider declares, or else none, as in the reference.")
	fs.IntVar(&o.cloudAPIMaxInFlight, "cloud-api-max-in-flight", o.cloudAPIMaxInFlight,
		"How many calls to the cloud may be under way at once, over all controllers, of one kind too; a tenth is kept for each of instances, load balancers and routes. Set it if the plugin's reads are safe at the same time. 0: what the provider declares, or else what the flags --concurrent-* say.")
	fs.Float64Var(&o.cloudAPIQPS, "cloud-api-qps", o.cloudAPIQPS,
		"How many calls to the cloud are made in a second at the most, over all controllers. 0: what the provider declares, or else what the cloud's refusals show.")
	fs.IntVar(&o.cloudAPIBurst, "cloud-api-burst", o.cloudAPIBurst,
		"How many calls to the cloud may be made at once after a pause, under --cloud-api-qps. 0: those of one second.")
	fs.StringVar(&o.cloudConfigObject, cloudConfigObjectFlag, o.cloudConfigObject,
		"ConfigMap or Secret that holds the cloud config, as configmap/NAMESPACE/NAME or secret/NAMESPACE/NAME, with /KEY at the end if the key is not "+defaultConfigKey+". It is read from the API server and watched; a provider that follows its config has a change within a second. Not together with --cloud-config.")
	fs.StringVar(&o.tracingConfigFile, "tracing-config-file", o.tracingConfigFile,
		"File with a TracingConfiguration, as kube-apiserver's, by which calls to the cloud are traced. Without samplingRatePerMillion none are.")
	fs.BoolVar(&o.dryRun, dryRunFlag, o.dryRun,
		"Write nothing, neither to the cloud nor to Kubernetes, and serve at /plan of the secure port what would be done. No lease is taken, so this may run beside the manager that leads; rights to read suffice.")
	fs.StringVar(&o.serviceAccountPrefix, serviceAccountPrefixFlag, o.serviceAccountPrefix,
		"Prefix of the names of the ServiceAccounts that controllers act as with --use-service-account-credentials: with ccm-, the node controllers are kube-system/ccm-node-controller. Accounts with a prefix have to exist. Empty: those of the reference, which are created.")
	fs.StringVar(&o.electionKubeconfig, electionKubeconfigFlag, o.electionKubeconfig,
		"File with access to the cluster that holds the Leases of leader election, if nodes and Services are in another one, as with a hosted control plane. Empty: the cluster of --kubeconfig.")
	fs.DurationVar(&o.gracefulShutdownTimeout, "graceful-shutdown-timeout", o.gracefulShutdownTimeout,
		"How long the controllers may take to finish in-flight work after SIGTERM or SIGINT. If they take longer, the process ends without releasing the lease, which then has to expire.")
}
