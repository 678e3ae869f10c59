package config

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/message"
)

// Values that are known of options; others of the first two are taken with a warning, as upstream's manager does.
var (
	lbProviders     = []string{"amphora", "amphorav2", "ovn", "f5"}
	containerStores = []string{"barbican", "external"}
	lbMethods       = []string{"ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"}
	endpointTypes   = []string{"public", "publicURL", "internal", "internalURL", "admin", "adminURL"}
	searchOrder     = []string{"configDrive", "metadataService"}
)

// validate returns everything that is wrong with a config that fits its types.
func (c *Config) validate() field.ErrorList {
	errs := c.Global.validate()
	errs = append(errs, c.Metadata.validate()...)
	errs = append(errs, c.LoadBalancer.validate()...)
	for _, name := range sortedNames(c.LoadBalancerClass) {
		at := field.NewPath(fmt.Sprintf("[LoadBalancerClass %q]", message.Line(name, maxShown)))
		errs = append(errs, validatePattern(at.Child("floating-subnet"), c.LoadBalancerClass[name].FloatingSubnet)...)
	}
	for _, name := range slices.Concat(c.Networking.PublicNetworkName, c.Networking.InternalNetworkName) {
		if slices.Contains(c.Networking.PublicNetworkName, name) && slices.Contains(c.Networking.InternalNetworkName, name) {
			errs = append(errs, field.Invalid(field.NewPath("[Networking]", "internal-network-name"), name, "is a public-network-name too"))
			break
		}
	}
	return errs
}

func (g Global) validate() field.ErrorList {
	at := field.NewPath("[Global]")
	var errs field.ErrorList
	if g.AuthURL == "" {
		errs = append(errs, field.Required(at.Child("auth-url"), "the URL of Keystone, such as https://keystone.example:5000/v3"))
	} else if parsed, err := url.Parse(g.AuthURL); err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.User != nil {
		errs = append(errs, field.Invalid(at.Child("auth-url"), field.OmitValueType{}, "must be a URL http://HOST or https://HOST, without a user in it"))
	}
	if g.Region == "" {
		errs = append(errs, field.Required(at.Child("region"), "the name of the region, such as RegionOne"))
	}
	if g.EndpointType != "" && !slices.Contains(endpointTypes, g.EndpointType) {
		errs = append(errs, field.NotSupported(at.Child("os-endpoint-type"), message.Line(g.EndpointType, maxShown), endpointTypes[:]))
	}
	if (g.CertFile == "") != (g.KeyFile == "") {
		errs = append(errs, field.Required(at.Child("key-file"), "cert-file and key-file go together"))
	}
	if !g.UseClouds && (g.CloudsFile != "" || g.Cloud != "") {
		errs = append(errs, field.Required(at.Child("use-clouds"), "clouds-file and cloud mean nothing without use-clouds = true"))
	}
	return append(errs, g.validateCredentials(at)...)
}

// validateCredentials looks that there is one way to authenticate, and that it is complete.
func (g Global) validateCredentials(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	require := func(option string, there bool, why string) {
		if !there {
			errs = append(errs, field.Required(at.Child(option), why))
		}
	}
	user := g.UserID != "" || g.Username != ""
	userDomain := g.UserID != "" || g.UserDomainID+g.UserDomainName+g.DomainID+g.DomainName != ""
	switch {
	case g.ApplicationCredentialID != "" || g.ApplicationCredentialName != "":
		require("application-credential-secret", g.ApplicationCredentialSecret != "", "the secret of the application credential")
		if g.ApplicationCredentialID == "" {
			require("username", user, "an application credential is found by its name among those of a user")
			require("user-domain-name", userDomain, "the domain of the user")
		}
	case g.TrustID != "":
		require("trustee-id", g.TrusteeID != "" || user, "the trustee, or username or user-id")
		require("trustee-password", g.TrusteePassword != "" || g.Password != "", "the trustee's password, or password")
		require("user-domain-name", g.TrusteeID != "" || userDomain, "the domain of the user")
	case g.Token != "" && g.Password == "":
	case !user && g.Password == "":
		require("application-credential-id", false, "there are no credentials: application-credential-id and application-credential-secret, or "+
			"username and password, or trust-id, or token")
	default:
		require("username", user, "the user, by username or user-id")
		require("password", g.Password != "", "the password of the user")
		require("user-domain-name", userDomain, "the domain of the user, by user-domain-id, user-domain-name, domain-id or domain-name")
		require("tenant-id", g.TenantID != "" || g.TenantName != "", "the project, by tenant-id or tenant-name")
		require("tenant-domain-name", g.TenantID != "" || g.TenantName == "" || g.TenantDomainID+g.TenantDomainName+g.DomainID+g.DomainName != "",
			"the domain of the project, by tenant-domain-id, tenant-domain-name, domain-id or domain-name")
	}
	return errs
}

func (m Metadata) validate() field.ErrorList {
	at := field.NewPath("[Metadata]")
	var errs field.ErrorList
	for name := range strings.SplitSeq(m.SearchOrder, ",") {
		if !slices.Contains(searchOrder, strings.TrimSpace(name)) {
			errs = append(errs, field.NotSupported(at.Child("search-order"), message.Line(m.SearchOrder, maxShown), searchOrder))
			break
		}
	}
	if m.RequestTimeout > MaxRequestTimeout {
		errs = append(errs, field.Invalid(at.Child("request-timeout"), m.RequestTimeout.String(), fmt.Sprintf("must not be longer than %s", MaxRequestTimeout)))
	}
	return errs
}

func (l LoadBalancer) validate() field.ErrorList {
	at := field.NewPath("[LoadBalancer]")
	var errs field.ErrorList
	if l.LBVersion != "" && l.LBVersion != "v2" {
		errs = append(errs, field.NotSupported(at.Child("lb-version"), message.Line(l.LBVersion, maxShown), []string{"v2"}))
	}
	switch {
	case !slices.Contains(lbMethods, l.LBMethod):
		errs = append(errs, field.NotSupported(at.Child("lb-method"), message.Line(l.LBMethod, maxShown), lbMethods))
	case l.LBProvider == "ovn" && l.LBMethod != "SOURCE_IP_PORT":
		errs = append(errs, field.Invalid(at.Child("lb-method"), l.LBMethod, "the provider ovn knows SOURCE_IP_PORT only"))
	}
	for option, number := range map[string]int{"monitor-max-retries": l.MonitorMaxRetries, "monitor-max-retries-down": l.MonitorMaxRetriesDown} {
		if number < 1 || number > 10 {
			errs = append(errs, field.Invalid(at.Child(option), number, "must be from 1 to 10"))
		}
	}
	if l.MonitorDelay <= 0 {
		errs = append(errs, field.Invalid(at.Child("monitor-delay"), l.MonitorDelay.String(), "must be longer than nothing"))
	}
	if l.MonitorTimeout <= 0 {
		errs = append(errs, field.Invalid(at.Child("monitor-timeout"), l.MonitorTimeout.String(), "must be longer than nothing"))
	}
	if l.MaxSharedLB < 1 {
		errs = append(errs, field.Invalid(at.Child("max-shared-lb"), l.MaxSharedLB, "must be 1 or more"))
	}
	return append(errs, validatePattern(at.Child("floating-subnet"), l.FloatingSubnet)...)
}

// validatePattern looks at the name of a subnet: a glob, or a regular expression behind a tilde.
func validatePattern(at *field.Path, pattern string) field.ErrorList {
	expression, isExpression := strings.CutPrefix(pattern, "~")
	var err error
	if isExpression {
		_, err = regexp.Compile(expression)
	} else {
		_, err = path.Match(pattern, "")
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, message.Line(pattern, maxShown), message.Line(err.Error(), maxShown))}
	}
	return nil
}

// warn notes what is accepted although it may not do what was meant.
func (c *Config) warn() {
	lb := c.LoadBalancer
	if !slices.Contains(lbProviders, lb.LBProvider) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("[LoadBalancer].lb-provider: %q is not one of %s; it is used as it is", lb.LBProvider, strings.Join(lbProviders, ", ")))
	}
	if !slices.Contains(containerStores, lb.ContainerStore) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("[LoadBalancer].container-store: %q is not one of %s", lb.ContainerStore, strings.Join(containerStores, ", ")))
	}
	if c.Global.TLSInsecure {
		c.Warnings = append(c.Warnings, "[Global].tls-insecure: certificates of the cloud are not verified, so any machine in between can read the credentials")
	}
}
