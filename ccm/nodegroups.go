package ccm

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/extensions/autoscaler"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/extensions/nodegroups"
	"github.com/mooring-ccm/mooring/internal/instances"
	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/provider"
)

// defaultAutoscalerPort is the one of the examples of the Cluster Autoscaler.
const defaultAutoscalerPort = 8086

// nodeGroupFlags are the values of the flags of the autoscaler's server.
type nodeGroupFlags struct {
	bindAddress  string
	port         int
	files        autoscaler.Files
	balancerWait time.Duration
}

// nodeGroupController serves the Cluster Autoscaler and deletes the instances that it wants deleted. The reference has no such controller.
func nodeGroupController() Controller {
	flags := &nodeGroupFlags{bindAddress: "0.0.0.0", port: defaultAutoscalerPort, balancerWait: nodegroups.DefaultBalancerWait}
	return Controller{
		Name:              nodegroups.Name,
		DisabledByDefault: true,
		AddFlags:          flags.add,
		Validate:          flags.validate,
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}},
			{Resource: "services", Verbs: []string{"list", "watch"}},
		},
		port: func() (string, int) { return "autoscaler-port", flags.port },
		New:  flags.newController,
	}
}

func (f *nodeGroupFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.bindAddress, "autoscaler-bind-address", f.bindAddress,
		"IP address on which the Cluster Autoscaler is served.")
	flags.IntVar(&f.port, "autoscaler-port", f.port,
		"Port on which the Cluster Autoscaler is served, by its external gRPC protocol. It is open on the replica that leads only.")
	flags.StringVar(&f.files.Certificate, "autoscaler-tls-cert-file", f.files.Certificate,
		"File with the certificate that the Cluster Autoscaler is shown, with intermediates. It is read again when it changes.")
	flags.StringVar(&f.files.Key, "autoscaler-tls-private-key-file", f.files.Key,
		"File with the private key of --autoscaler-tls-cert-file.")
	flags.StringVar(&f.files.ClientCA, "autoscaler-client-ca-file", f.files.ClientCA,
		"File with the authority of the Cluster Autoscaler's certificate. Whoever has a certificate of it may add and delete nodes: it should be one of its own.")
	flags.DurationVar(&f.balancerWait, "autoscaler-load-balancer-wait", f.balancerWait,
		"How long load balancers may take to let go of a node before its instance is deleted for the Cluster Autoscaler anyway.")
}

// validate returns what is wrong with the flags, and with the files.
func (f *nodeGroupFlags) validate() []error {
	var errs []error
	if net.ParseIP(f.bindAddress) == nil {
		errs = append(errs, invalid("autoscaler-bind-address", f.bindAddress, "must be an IP address"))
	}
	if f.port < 1 || f.port > 65535 {
		errs = append(errs, invalid("autoscaler-port", f.port, "must be 1 to 65535"))
	}
	if f.balancerWait < 0 {
		errs = append(errs, invalid("autoscaler-load-balancer-wait", f.balancerWait.String(), "must not be negative"))
	}
	given := 0
	for _, file := range []struct{ flag, path string }{
		{"autoscaler-tls-cert-file", f.files.Certificate}, {"autoscaler-tls-private-key-file", f.files.Key}, {"autoscaler-client-ca-file", f.files.ClientCA},
	} {
		if file.path == "" {
			errs = append(errs, field.Required(field.NewPath("--"+file.flag), "the Cluster Autoscaler is served with mutual TLS only"))
			continue
		}
		given++
	}
	if given < 3 {
		return errs
	}
	for _, wrong := range f.files.Check() {
		errs = append(errs, fmt.Errorf("files of the Cluster Autoscaler's server: %w", wrong))
	}
	return errs
}

// newController adds the server to the manager, and returns the controller.
func (f *nodeGroupFlags) newController(ctx context.Context, environment Environment) (manager.Runnable, error) {
	if environment.DryRun { // it could not be kept from changing what the autoscaler asks for
		return nil, ErrDryRun
	}
	capabilities := provider.CapabilitiesOf(environment.Cloud)
	if capabilities.NodeGroups == nil {
		return nil, fmt.Errorf("the provider %q offers no node groups: leave %s out of --controllers", environment.Cloud.ProviderName(), nodegroups.Name)
	}
	if err := deletion.AddIndexes(ctx, environment.Manager.GetCache()); err != nil {
		return nil, err
	}
	server, err := autoscaler.New(autoscaler.Options{
		Groups: capabilities.NodeGroups, Address: net.JoinHostPort(f.bindAddress, strconv.Itoa(f.port)), Files: f.files,
		Client: environment.Client, Cached: environment.Manager.GetCache(), Live: environment.Manager.GetAPIReader(),
		Ours: notForeign(environment.owners), Registerer: environment.Registerer, Logger: environment.Logger,
	})
	if err != nil {
		return nil, err
	}
	controller, err := nodegroups.New(nodegroups.Options{
		Client: environment.Client, Live: environment.Manager.GetAPIReader(), Cache: environment.Manager.GetCache(), Recorder: environment.Recorder,
		Groups: capabilities.NodeGroups, Ours: notForeign(environment.owners), ListBalancers: balancersOf(capabilities, environment.ClusterName),
		BalancerWait: f.balancerWait, Registerer: environment.Registerer, Logger: environment.Logger,
	})
	if err != nil {
		return nil, err
	}
	return controller, environment.Manager.Add(server)
}

// notForeign returns whether nodes are ours or may be. That the provider has an instance with a node's very provider ID in a group proves the rest.
func notForeign(owners *instances.Owners) func(*corev1.Node) bool {
	return func(node *corev1.Node) bool { return owners.Decide(node).Owner != ownership.Foreign }
}

// balancersOf returns what lists the load balancers of a cluster, nil if the provider has no such list.
func balancersOf(capabilities provider.Capabilities, clusterName string) func(context.Context) ([]provider.LoadBalancer, error) {
	if capabilities.ListLoadBalancers == nil {
		return nil
	}
	return func(ctx context.Context) ([]provider.LoadBalancer, error) {
		return capabilities.ListLoadBalancers(ctx, clusterName)
	}
}

// portClashes returns which ports of controllers are taken by the secure port, or by one another.
func (c *config) portClashes() []error {
	taken := map[int]string{}
	if c.secureServing != nil && c.secureServing.BindPort > 0 {
		taken[c.secureServing.BindPort] = "secure-port"
	}
	var errs []error
	for _, controller := range c.enabled {
		if controller.port == nil {
			continue
		}
		flag, port := controller.port()
		if other, found := taken[port]; found {
			errs = append(errs, invalid(flag, port, "is the port of --"+other+", too"))
			continue
		}
		taken[port] = flag
	}
	return errs
}
