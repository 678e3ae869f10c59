package servingcertificate

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/ccm"
)

// Controller returns the controller as a program registers it with ccm.WithController. It is disabled by default, and the reference has no
// such controller.
func Controller() ccm.Controller {
	flags := &servingCertificateFlags{policy: defaultPolicy()}
	flags.deny = string(flags.policy.Deny)
	return ccm.Controller{
		Name:              Name,
		DisabledByDefault: true,
		AddFlags:          flags.add,
		Validate:          flags.validate,
		Grants: []ccm.Grant{
			{Resource: "nodes", Verbs: []string{"list", "watch"}},
			{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verbs: []string{"list", "watch"}},
			{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests/approval", Verbs: []string{"patch"}},
			{Group: certificatesv1.GroupName, Resource: "signers", Name: certificatesv1.KubeletServingSignerName, Verbs: []string{"approve"}},
		},
		Cached: map[client.Object]fields.Selector{
			&certificatesv1.CertificateSigningRequest{}: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName),
		},
		New: flags.newController,
	}
}

// flags are the values of the controller's flags.
type servingCertificateFlags struct {
	policy policy
	// cidrs and deny become parts of the policy when they are validated.
	cidrs []string
	deny  string
}

func (f *servingCertificateFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.policy.DNS, "kubelet-serving-allowed-dns", nil,
		"DNS names that serving certificates of kubelets may have beyond the cloud's: names in which * stands for characters "+
			"other than a dot, and {node} for the name of a node that is one label.")
	flags.StringSliceVar(&f.cidrs, "kubelet-serving-allowed-cidrs", nil,
		"Networks whose addresses serving certificates of kubelets may have beyond the cloud's, for every node.")
	flags.StringVar(&f.deny, "kubelet-serving-deny", f.deny,
		"Which requests for serving certificates are denied: Never; Invalid, requests that do not conform to the rules of their signer; or Unknown, those too that "+
			"ask for what the cloud does not report. All others that are not approved stay pending.")
	flags.IntVar(&f.policy.PerHour, "kubelet-serving-approvals-per-hour", f.policy.PerHour,
		"How many requests of one node for serving certificates are approved within an hour.")
	flags.StringVar(&f.policy.ClusterDomain, "kubelet-serving-cluster-domain", f.policy.ClusterDomain,
		"DNS domain of the cluster's Services and Pods, as in the kubelets' clusterDomain. No serving certificate of a kubelet has a name in it.")
	flags.BoolVar(&f.policy.TrustProviderIDs, "kubelet-serving-trust-provider-ids", f.policy.TrustProviderIDs,
		"Find the instance of a node that asks for a serving certificate by its provider ID, which its kubelet may have written, and not by its name.")
}

// validate checks the flags and completes the policy.
func (f *servingCertificateFlags) validate() []error {
	var errs []error
	for _, pattern := range f.policy.DNS {
		if err := parsePattern(pattern); err != nil {
			errs = append(errs, invalid("kubelet-serving-allowed-dns", pattern, err.Error()))
		}
	}
	f.policy.CIDRs = []netip.Prefix{}
	for _, text := range f.cidrs {
		network, err := parseCIDR(strings.TrimSpace(text))
		if err != nil {
			errs = append(errs, invalid("kubelet-serving-allowed-cidrs", text, err.Error()))
			continue
		}
		f.policy.CIDRs = append(f.policy.CIDRs, network)
	}
	f.policy.Deny = denyPolicy(f.deny)
	if !slices.Contains(denyPolicies(), f.policy.Deny) {
		errs = append(errs, invalid("kubelet-serving-deny", f.deny, "must be Never, Invalid or Unknown"))
	}
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(f.policy.ClusterDomain)); len(problems) > 0 {
		errs = append(errs, invalid("kubelet-serving-cluster-domain", f.policy.ClusterDomain, strings.Join(problems, "; ")))
	}
	if f.policy.PerHour < 1 {
		errs = append(errs, invalid("kubelet-serving-approvals-per-hour", f.policy.PerHour, "must be at least 1"))
	}
	return errs
}

// invalid is the error for the value of one flag.
func invalid(flag string, value any, problem string) error {
	return field.Invalid(field.NewPath("--"+flag), value, problem)
}

func (f *servingCertificateFlags) newController(ctx context.Context, environment ccm.Environment) (manager.Runnable, error) {
	policy := f.policy
	if at, err := url.Parse(environment.Config.Host); err == nil {
		policy.APIServer = at.Hostname()
	}
	return newApprover(ctx, environment, policy)
}
