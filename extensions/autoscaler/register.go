package autoscaler

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

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/deletion"
	"github.com/mooring-ccm/mooring/extensions/nodegroups"
	"github.com/mooring-ccm/mooring/provider"
)

// defaultPort is the one of the examples of the Cluster Autoscaler.
const defaultPort = 8086

// Controller returns the controller as a program registers it with ccm.WithController: it serves the Cluster Autoscaler and deletes the
// instances that it wants deleted. It is disabled by default, and the reference has no such controller.
func Controller() ccm.Controller {
	flags := &nodeGroupFlags{bindAddress: "0.0.0.0", port: defaultPort, balancerWait: nodegroups.DefaultBalancerWait}
	return ccm.Controller{
		Name:              nodegroups.Name,
		DisabledByDefault: true,
		AddFlags:          flags.add,
		Validate:          flags.validate,
		Grants: []ccm.Grant{
			{Resource: "nodes", Verbs: []string{"get", "list", "watch", "patch"}},
			{Resource: "services", Verbs: []string{"list", "watch"}},
		},
		Port: func() (string, int) { return "autoscaler-port", flags.port },
		New:  flags.newController,
	}
}

// flags are the values of the flags of the autoscaler's server.
type nodeGroupFlags struct {
	bindAddress  string
	port         int
	files        files
	balancerWait time.Duration
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
		"File with the authority of the Cluster Autoscaler's certificate. A client with a certificate of it may add and delete nodes.")
	flags.DurationVar(&f.balancerWait, "autoscaler-load-balancer-wait", f.balancerWait,
		"How long load balancers may take to let go of a node before its instance is deleted for the Cluster Autoscaler anyway.")
}

// validate returns what is wrong with the flags, and with the files.
func (f *nodeGroupFlags) validate() []error {
	var errs []error
	if net.ParseIP(f.bindAddress) == nil {
		errs = append(errs, invalidFlag("autoscaler-bind-address", f.bindAddress, "must be an IP address"))
	}
	if f.port < 1 || f.port > 65535 {
		errs = append(errs, invalidFlag("autoscaler-port", f.port, "must be 1 to 65535"))
	}
	if f.balancerWait < 0 {
		errs = append(errs, invalidFlag("autoscaler-load-balancer-wait", f.balancerWait.String(), "must not be negative"))
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

// invalidFlag is the error for the value of one flag.
func invalidFlag(flag string, value any, problem string) error {
	return field.Invalid(field.NewPath("--"+flag), value, problem)
}

// newController adds the server to the manager, and returns the controller.
func (f *nodeGroupFlags) newController(ctx context.Context, environment ccm.Environment) (manager.Runnable, error) {
	if environment.DryRun { // it could not be kept from changing what the autoscaler asks for
		return nil, ccm.ErrDryRun
	}
	capabilities := provider.CapabilitiesOf(environment.Cloud)
	if capabilities.NodeGroups == nil {
		return nil, fmt.Errorf("the provider %q offers no node groups: leave %s out of --controllers", environment.Cloud.ProviderName(), nodegroups.Name)
	}
	instances, err := environment.Instances()
	if err != nil {
		return nil, err
	}
	// That the provider has an instance with a node's very provider ID in a group proves the rest.
	ours := func(node *corev1.Node) bool { return !instances.Foreign(node) }
	if err := deletion.AddIndexes(ctx, environment.Manager.GetCache()); err != nil {
		return nil, err
	}
	server, err := newServer(environment, capabilities.NodeGroups, ours, net.JoinHostPort(f.bindAddress, strconv.Itoa(f.port)), f.files)
	if err != nil {
		return nil, err
	}
	controller, err := nodegroups.New(environment, capabilities, ours, server.certificates.seal, f.balancerWait)
	if err != nil {
		return nil, err
	}
	return controller, environment.Manager.Add(server)
}
