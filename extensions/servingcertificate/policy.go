package servingcertificate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultPolicy is that of the flags.
func DefaultPolicy() Policy { return Policy{Deny: DenyNothing, PerHour: 6} }

// DenyPolicies are all of them.
func DenyPolicies() []DenyPolicy { return []DenyPolicy{DenyNothing, DenyInvalid, DenyUnknown} }

// ParsePattern returns an error if a pattern of Policy.DNS can match no name, or names of any machine at all: "*" is kubernetes, too.
func ParsePattern(pattern string) error {
	example := strings.ReplaceAll(strings.ReplaceAll(pattern, nodePlaceholder, "node"), "*", "x")
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(example)); len(problems) > 0 {
		return fmt.Errorf("is no DNS name in which * stands for characters and %s for the name of the node: %s", nodePlaceholder, strings.Join(problems, "; "))
	}
	if !slices.ContainsFunc(strings.Split(pattern, "."), func(label string) bool { return strings.Trim(label, "*") != "" }) {
		return errors.New("allows every name of so many labels: at least one label must have more than *")
	}
	return nil
}

// ParseCIDR parses an entry of Policy.CIDRs. A network of all addresses is an error: it allows those of the API server, too.
func ParseCIDR(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("is no CIDR such as 10.0.0.0/8: %w", err)
	case network != network.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits beyond its length set: write %s", network.Masked())
	case network.Bits() == 0:
		return netip.Prefix{}, errors.New("allows every address, that of the API server too")
	}
	return network, nil
}

// validate returns what is wrong with a policy, all at once.
func (p Policy) validate() []error {
	var wrong []error
	for _, pattern := range p.DNS {
		if err := ParsePattern(pattern); err != nil {
			wrong = append(wrong, fmt.Errorf("the serving certificate controller's Policy.DNS %q %w", pattern, err))
		}
	}
	if !slices.Contains(DenyPolicies(), p.Deny) {
		wrong = append(wrong, fmt.Errorf("the serving certificate controller's Policy.Deny is %q, want one of %q", p.Deny, DenyPolicies()))
	}
	if p.PerHour < 1 {
		wrong = append(wrong, fmt.Errorf("the serving certificate controller's Policy.PerHour is %d, want at least 1", p.PerHour))
	}
	return wrong
}
