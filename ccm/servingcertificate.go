package ccm

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mooring-ccm/mooring/extensions/servingcertificate"
)

// servingCertificateFlags are the values of the controller's flags.
type servingCertificateFlags struct {
	policy servingcertificate.Policy
	// cidrs and deny become parts of the policy when they are validated.
	cidrs []string
	deny  string
}

// servingCertificateController approves the serving certificates of kubelets. The reference has no such controller.
func servingCertificateController() Controller {
	flags := &servingCertificateFlags{policy: servingcertificate.DefaultPolicy()}
	flags.deny = string(flags.policy.Deny)
	return Controller{
		Name:              servingcertificate.Name,
		DisabledByDefault: true,
		AddFlags:          flags.add,
		Validate:          flags.validate,
		Grants: []Grant{
			{Resource: "nodes", Verbs: []string{"list", "watch"}},
			{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verbs: []string{"list", "watch"}},
			{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests/approval", Verbs: []string{"patch"}},
			{Group: certificatesv1.GroupName, Resource: "signers", Name: certificatesv1.KubeletServingSignerName, Verbs: []string{"approve"}},
		},
		New: flags.newController,
	}
}

func (f *servingCertificateFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.policy.DNS, "kubelet-serving-allowed-dns", nil,
		"DNS names that serving certificates of kubelets may have beyond those that the cloud reports: names in which * stands for characters "+
			"other than a dot, and {node} for the name of the node.")
	flags.StringSliceVar(&f.cidrs, "kubelet-serving-allowed-cidrs", nil,
		"Networks whose addresses serving certificates of kubelets may have beyond those that the cloud reports, for every node.")
	flags.StringVar(&f.deny, "kubelet-serving-deny", f.deny,
		"Which requests for serving certificates are denied: Never; Invalid, those that do not conform to the rules of their signer; or Unknown, those too that "+
			"ask for what the cloud does not report. All others that are not approved stay pending.")
	flags.IntVar(&f.policy.PerHour, "kubelet-serving-approvals-per-hour", f.policy.PerHour,
		"How many requests of one node for serving certificates are approved within an hour.")
	flags.BoolVar(&f.policy.TrustProviderIDs, "kubelet-serving-trust-provider-ids", f.policy.TrustProviderIDs,
		"Find the instance of a node that asks for a serving certificate by its provider ID, which its kubelet may have written, and not by its name.")
}

// validate checks the flags and completes the policy.
func (f *servingCertificateFlags) validate() []error {
	var errs []error
	for _, pattern := range f.policy.DNS {
		if err := servingcertificate.ParsePattern(pattern); err != nil {
			errs = append(errs, invalid("kubelet-serving-allowed-dns", pattern, err.Error()))
		}
	}
	f.policy.CIDRs = []netip.Prefix{}
	for _, text := range f.cidrs {
		network, err := servingcertificate.ParseCIDR(strings.TrimSpace(text))
		if err != nil {
			errs = append(errs, invalid("kubelet-serving-allowed-cidrs", text, err.Error()))
			continue
		}
		f.policy.CIDRs = append(f.policy.CIDRs, network)
	}
	f.policy.Deny = servingcertificate.DenyPolicy(f.deny)
	if !slices.Contains(servingcertificate.DenyPolicies(), f.policy.Deny) {
		errs = append(errs, invalid("kubelet-serving-deny", f.deny, "must be Never, Invalid or Unknown"))
	}
	if f.policy.PerHour < 1 {
		errs = append(errs, invalid("kubelet-serving-approvals-per-hour", f.policy.PerHour, "must be at least 1"))
	}
	return errs
}

func (f *servingCertificateFlags) newController(ctx context.Context, environment Environment) (manager.Runnable, error) {
	instances, err := environment.inventory()
	if err != nil {
		return nil, err
	}
	return servingcertificate.New(ctx, servingcertificate.Options{
		Client: environment.Client, Cache: environment.Manager.GetCache(), Recorder: environment.Recorder,
		Inventory: instances, Owners: environment.owners, Policy: f.policy, Registerer: environment.Registerer, Logger: environment.Logger,
	})
}

// onlyServingCertificates has the cache hold no other certificate signing requests than the controller works on, if it runs.
func onlyServingCertificates(cached *cache.Options, enabled []Controller) {
	if slices.ContainsFunc(enabled, func(c Controller) bool { return c.Name == servingcertificate.Name }) {
		cached.ByObject[&certificatesv1.CertificateSigningRequest{}] = cache.ByObject{Field: servingcertificate.Selector()}
	}
}
