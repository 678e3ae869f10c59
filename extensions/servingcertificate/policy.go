package servingcertificate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultPolicy is the flags' default.
func defaultPolicy() policy {
	return policy{Deny: denyNothing, PerHour: 6, ClusterDomain: defaultClusterDomain}
}

// denyPolicies are all of them.
func denyPolicies() []denyPolicy { return []denyPolicy{denyNothing, denyInvalid, denyUnknown} }

// parsePattern returns an error if a pattern of policy.DNS can match no name, or names of any machine at all: "*" is kubernetes, too.
func parsePattern(pattern string) error {
	example := strings.ReplaceAll(strings.ReplaceAll(pattern, nodePlaceholder, "node"), "*", "x")
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(example)); len(problems) > 0 {
		return fmt.Errorf("is no DNS name in which * stands for characters and %s for the name of the node: %s", nodePlaceholder, strings.Join(problems, "; "))
	}
	if !slices.ContainsFunc(strings.Split(pattern, "."), func(label string) bool { return strings.Trim(label, "*") != "" }) {
		return errors.New("allows every name of so many labels: at least one label must have more than *")
	}
	return nil
}

// parseCIDR parses an entry of policy.CIDRs. A network of all addresses is an error: it allows those of the API server, too.
func parseCIDR(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("is no CIDR such as 10.0.0.0/8: %w", err)
	case network != network.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits beyond its length set: write %s", network.Masked())
	case network.Bits() == 0:
		return netip.Prefix{}, errors.New("allows every address, even the API server's")
	}
	return network, nil
}
