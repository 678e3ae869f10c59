package ccm

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection"
	cliflag "k8s.io/component-base/cli/flag"
	netutils "k8s.io/utils/net"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
)

// schemeSyntax is the syntax of a URI's scheme: RFC 3986, section 3.1.
var schemeSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// validate returns everything that is wrong with the flags, before anything is done with them. What it has to parse for that it leaves in c.
func (o *options) validate(c *config) error {
	errs := []error{o.CloudControllerManagerOptions.Validate(
		o.registry.known(), o.registry.disabledByDefault(), o.registry.aliases(), o.Webhook.Webhooks, nil)}
	errs = append(errs, o.validateWebhooks()...)
	errs = append(errs, o.NodeController.Validate()...)
	errs = append(errs, o.program.validateProvider(o.KubeCloudShared.CloudProvider.Name))
	errs = append(errs, o.validateCloudConfig(c)...)
	errs = append(errs, o.validateClusterCIDR(c)...)
	errs = append(errs, o.validateLeaderElection()...)
	errs = append(errs, o.validateOwn(c)...)
	errs = append(errs, o.validateServiceAccounts()...)
	errs = append(errs, o.program.validateFlags()...)
	return joined("invalid flags", errs...)
}

// invalid is the error for the value of one flag.
func invalid(flag string, value any, problem string) error {
	if duration, ok := value.(time.Duration); ok {
		value = duration.String()
	}
	return field.Invalid(field.NewPath("--"+flag), value, problem)
}

// positive returns the error for the value of a flag that has to be so, nil if it is.
func positive[T int | time.Duration](flag string, value T) error {
	if value > 0 {
		return nil
	}
	return invalid(flag, value, "must be positive")
}

// notNegative returns the error for the value of a flag that has to be so, nil if it is.
func notNegative[T int | time.Duration](flag string, value T) error {
	if value >= 0 {
		return nil
	}
	return invalid(flag, value, "must not be negative")
}

// portClashes returns which ports of controllers are taken by the secure port, or by one another.
func (c *config) portClashes() []error {
	taken := map[int]string{}
	if c.secureServing != nil && c.secureServing.BindPort > 0 {
		taken[c.secureServing.BindPort] = "secure-port"
	}
	var errs []error
	for _, controller := range c.enabled {
		if controller.Port == nil {
			continue
		}
		flag, port := controller.Port()
		if other, found := taken[port]; found {
			errs = append(errs, invalid(flag, port, "is the port of --"+other+", too"))
			continue
		}
		taken[port] = flag
	}
	return errs
}

// validateWebhooks refuses what the reference's library can serve and its own program cannot, which knows no webhook. A list that
// enables none is fine, as there.
func (o *options) validateWebhooks() []error {
	var errs []error
	for i, name := range o.Webhook.Webhooks {
		if name == "*" || strings.HasPrefix(name, "-") {
			continue
		}
		errs = append(errs, field.Invalid(field.NewPath("--webhooks").Index(i), name,
			"this program serves no webhooks; a controller of the program's own can, on a port of its own, by its Manager's GetWebhookServer"))
	}
	return errs
}

// validateClusterCIDR holds the flags for routes to what their descriptions say. The reference looks at them only when it
// starts the route controller, and then leaves that out with a line in the log. Leading zeros are accepted, as everywhere in Kubernetes.
func (o *options) validateClusterCIDR(c *config) []error {
	cidrs := strings.TrimSpace(o.KubeCloudShared.ClusterCIDR)
	if cidrs == "" {
		if o.KubeCloudShared.AllocateNodeCIDRs {
			return []error{field.Required(field.NewPath("--cluster-cidr"), "--allocate-node-cidrs needs it")}
		}
		return nil
	}
	parsed, err := netutils.ParseCIDRs(strings.Split(cidrs, ","))
	if err != nil {
		return []error{invalid("cluster-cidr", cidrs, err.Error())}
	}
	dualStack, err := netutils.IsDualStackCIDRs(parsed)
	if err != nil || len(parsed) > 2 || (len(parsed) == 2 && !dualStack) {
		return []error{invalid("cluster-cidr", cidrs, "at most one range of each IP family")}
	}
	for _, network := range parsed {
		prefix, err := netip.ParsePrefix(network.String())
		if err != nil {
			return []error{invalid("cluster-cidr", cidrs, err.Error())}
		}
		c.clusterCIDRs = append(c.clusterCIDRs, prefix)
	}
	return nil
}

// validateLeaderElection finds the combinations that client-go's elector refuses, under the names of the flags.
func (o *options) validateLeaderElection() []error {
	election := o.Generic.LeaderElection
	if !election.LeaderElect {
		if o.Generic.LeaderMigration.Enabled {
			return []error{invalid("enable-leader-migration", true, "needs --leader-elect")}
		}
		return nil
	}
	var errs []error
	lease, deadline, retry := election.LeaseDuration.Duration, election.RenewDeadline.Duration, election.RetryPeriod.Duration
	if lease < time.Second || lease%time.Second != 0 {
		errs = append(errs, invalid("leader-elect-lease-duration", lease, "a Lease counts whole seconds, at least one"))
	}
	if lease <= deadline {
		errs = append(errs, invalid("leader-elect-lease-duration", lease,
			fmt.Sprintf("must be longer than --leader-elect-renew-deadline (%s)", deadline)))
	}
	if retry <= 0 {
		errs = append(errs, invalid("leader-elect-retry-period", retry, "must be positive"))
	}
	if least := time.Duration(leaderelection.JitterFactor * float64(retry)); deadline <= least {
		errs = append(errs, invalid("leader-elect-renew-deadline", deadline,
			fmt.Sprintf("must be longer than %v times --leader-elect-retry-period (%s)", leaderelection.JitterFactor, retry)))
	}
	if election.ResourceName == "" {
		errs = append(errs, field.Required(field.NewPath("--leader-elect-resource-name"), "the Lease needs a name"))
	}
	if election.ResourceNamespace == "" {
		errs = append(errs, field.Required(field.NewPath("--leader-elect-resource-namespace"), "the Lease needs a namespace"))
	}
	return errs
}

// validateOwn checks the flags that the reference does not have, and one that it takes as it comes.
func (o *options) validateOwn(c *config) []error {
	var errs []error
	var err error
	if c.nodeSelector, err = labels.Parse(o.nodeSelector); err != nil {
		errs = append(errs, invalid("node-selector", o.nodeSelector, err.Error()))
	}
	for i, scheme := range o.providerIDSchemes {
		if scheme != ownership.BareIDs && !schemeSyntax.MatchString(scheme) {
			errs = append(errs, field.Invalid(field.NewPath("--provider-id-schemes").Index(i), scheme,
				"must be the part of a provider ID before ://, such as aws, or nothing for provider IDs without one"))
		}
	}
	errs = append(errs, notNegative("cloud-api-max-in-flight", o.cloudAPIMaxInFlight))
	if o.cloudAPIQPS < 0 || math.IsNaN(o.cloudAPIQPS) || math.IsInf(o.cloudAPIQPS, 0) {
		errs = append(errs, invalid("cloud-api-qps", o.cloudAPIQPS, "must be 0 or a positive number"))
	}
	errs = append(errs, notNegative("cloud-api-burst", o.cloudAPIBurst))
	if o.cloudAPIBurst > 0 && o.cloudAPIQPS == 0 {
		errs = append(errs, invalid("cloud-api-burst", o.cloudAPIBurst, "needs --cloud-api-qps"))
	}
	known := clientgoscheme.Codecs.SupportedMediaTypes()
	if contentType := o.Generic.ClientConnection.ContentType; contentType != "" {
		if _, ok := runtime.SerializerInfoForMediaType(known, contentType); !ok {
			var types []string
			for _, one := range known {
				types = append(types, one.MediaType)
			}
			errs = append(errs, field.NotSupported(field.NewPath("--kube-api-content-type"), contentType, types))
		}
	}
	if c.tracing, err = readTracing(o.tracingConfigFile); err != nil {
		errs = append(errs, err)
	}
	return append(errs,
		positive("graceful-shutdown-timeout", o.gracefulShutdownTimeout),
		positive("node-status-update-frequency", o.NodeStatusUpdateFrequency.Duration),
		notNegative("cloud-api-timeout", o.cloudAPITimeout),
		notNegative("cloud-api-write-timeout", o.cloudAPIWriteTimeout),
		notNegative("node-full-refresh-period", o.nodeFullRefreshPeriod))
}

// validateServiceAccounts holds the prefix to what begins the name of an object.
func (o *options) validateServiceAccounts() []error {
	prefix := o.serviceAccountPrefix
	if prefix == "" {
		return nil
	}
	var errs []error
	for _, problem := range validation.IsDNS1123Subdomain(prefix + "node-controller") {
		errs = append(errs, invalid(serviceAccountPrefixFlag, prefix, "is to begin the names of ServiceAccounts: "+problem))
	}
	if !o.KubeCloudShared.UseServiceAccountCredentials {
		errs = append(errs, invalid(serviceAccountPrefixFlag, prefix, "needs --use-service-account-credentials"))
	}
	return errs
}

// clashes returns an error for each flag that two sections define.
func clashes(sections cliflag.NamedFlagSets) error {
	var errs []error
	owners := map[string]string{}
	for _, section := range sections.Order {
		sections.FlagSets[section].VisitAll(func(flag *pflag.Flag) {
			if owner, found := owners[flag.Name]; found {
				errs = append(errs, fmt.Errorf("--%s is defined by %q and by %q", flag.Name, owner, section))
			}
			owners[flag.Name] = section
		})
	}
	return joined("conflicting flags", errs...)
}

// problems is an error made of several that an operator has to put right together: one line, or one line each.
type problems struct {
	heading string
	errs    []error
}

// joined returns the errors under one heading, or nil if there are no errors. An error that joins others counts as those, and so does
// one that this function returned: its heading is replaced.
func joined(heading string, errs ...error) error {
	var flat []error
	for _, err := range errs {
		flat = append(flat, flatten(err)...)
	}
	if len(flat) == 0 {
		return nil
	}
	return &problems{heading: heading, errs: flat}
}

// Error is "heading: problem" for one problem, and the heading with an indented line for each of several.
func (p *problems) Error() string {
	if len(p.errs) == 1 {
		return p.heading + ": " + p.errs[0].Error()
	}
	var text strings.Builder
	text.WriteString(p.heading + ":")
	for _, err := range p.errs {
		text.WriteString("\n  " + strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return text.String()
}

// Unwrap returns the problems.
func (p *problems) Unwrap() []error { return p.errs }

// flatten takes joined errors apart. An error that says more than its parts do is kept whole.
func flatten(err error) []error {
	var parts []error
	switch several := err.(type) {
	case nil:
		return nil
	case *problems:
		parts = several.errs
	case interface{ Errors() []error }: // utilerrors.Aggregate
		parts = several.Errors()
	case interface{ Unwrap() []error }: // errors.Join, or fmt.Errorf with several %w
		parts = several.Unwrap()
		if errors.Join(parts...).Error() != err.Error() {
			return []error{err}
		}
	default:
		return []error{err}
	}
	var flat []error
	for _, part := range parts {
		flat = append(flat, flatten(part)...)
	}
	return flat
}
