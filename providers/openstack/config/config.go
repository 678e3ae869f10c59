package config

import (
	"crypto/tls"
	"net/netip"
	"time"
)

//go:generate go run ../../../dev/docgen/openstackoptions --file ../../../docs/reference/openstack-config.md

// Config is cloud.conf.
type Config struct {
	Global       Global       `conf:"Global"`
	Networking   Networking   `conf:"Networking"`
	LoadBalancer LoadBalancer `conf:"LoadBalancer"`
	// LoadBalancerClass holds the sections [LoadBalancerClass "NAME"] by their names.
	LoadBalancerClass map[string]LoadBalancerClass `conf:"LoadBalancerClass"`
	Route             Route                        `conf:"Route"`
	Metadata          Metadata                     `conf:"Metadata"`

	// Regional says that provider IDs name the region: OS_CCM_REGIONAL is "true" in the environment.
	Regional bool
	// TLS is how connections are verified, from the files that Global or clouds.yaml name. Never nil.
	TLS *tls.Config
	// Warnings say what is accepted and means nothing, or something else than it seems.
	Warnings []string
}

// Secret is a value that is never shown: formatting it prints a placeholder.
type Secret string

// String returns a placeholder, empty for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString returns what String does: %#v shows no secret either.
func (s Secret) GoString() string { return s.String() }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Global says where the cloud is and who calls it. What is empty here is taken from clouds.yaml under `use-clouds`.
type Global struct {
	// URL of Keystone, such as `https://keystone.example:5000/v3`. Required.
	AuthURL string `conf:"auth-url"`
	// Region whose endpoints are used. Required.
	Region string `conf:"region"`
	// Which endpoints of the catalog are used: `public`, `internal` or `admin`. Empty means `public`.
	EndpointType string `conf:"os-endpoint-type"`
	// File with the PEM certificates that endpoints are verified with. Empty means those of the system.
	CAFile string `conf:"ca-file"`
	// File with the PEM certificate by which the client identifies itself. Needs `key-file`.
	CertFile string `conf:"cert-file"`
	// File with the key of `cert-file`.
	KeyFile string `conf:"key-file"`
	// `true` leaves certificates of endpoints unverified.
	TLSInsecure bool `conf:"tls-insecure"`
	// Name of the user. Needs a domain of the user: `user-domain-id`, `user-domain-name`, `domain-id` or `domain-name`.
	Username string `conf:"username"`
	// ID of the user, instead of a name and a domain.
	UserID string `conf:"user-id"`
	// Password of the user.
	Password Secret `conf:"password"`
	// ID of the project.
	TenantID string `conf:"tenant-id"`
	// Name of the project. Needs a domain of the project: `tenant-domain-id`, `tenant-domain-name`, `domain-id` or `domain-name`.
	TenantName string `conf:"tenant-name"`
	// ID of the domain of user and project, where these have none of their own.
	DomainID string `conf:"domain-id"`
	// Name of the domain of user and project, where these have none of their own.
	DomainName string `conf:"domain-name"`
	// ID of the project's domain.
	TenantDomainID string `conf:"tenant-domain-id"`
	// Name of the project's domain.
	TenantDomainName string `conf:"tenant-domain-name"`
	// ID of the user's domain.
	UserDomainID string `conf:"user-domain-id"`
	// Name of the user's domain.
	UserDomainName string `conf:"user-domain-name"`
	// ID of a trust by which the user, the trustee, acts for another. It names the project.
	TrustID string `conf:"trust-id"`
	// ID of the trustee; empty means `user-id` or `username`.
	TrusteeID string `conf:"trustee-id"`
	// Password of the trustee; empty means `password`.
	TrusteePassword Secret `conf:"trustee-password"`
	// ID of an application credential.
	ApplicationCredentialID string `conf:"application-credential-id"`
	// Name of an application credential. Needs the user, by ID or by name and domain.
	ApplicationCredentialName string `conf:"application-credential-name"`
	// Secret of the application credential.
	ApplicationCredentialSecret Secret `conf:"application-credential-secret"`
	// Token. One that is given alone cannot be renewed: when it expires, calls fail until there is another in the file.
	Token Secret `conf:"token"`
	// `true` takes what is missing here from clouds.yaml, and secure.yaml beside it.
	UseClouds bool `conf:"use-clouds"`
	// Path of clouds.yaml. Empty means `OS_CLIENT_CONFIG_FILE`, `./clouds.yaml`, `~/.config/openstack/clouds.yaml`, `/etc/openstack/clouds.yaml`.
	CloudsFile string `conf:"clouds-file"`
	// Name of the cloud in clouds.yaml. Empty means `OS_CLOUD`, or the only one there is.
	Cloud string `conf:"cloud"`
}

// Networking says which addresses of a server a node has, and in which order.
type Networking struct {
	// `true` leaves IPv6 addresses out.
	IPv6SupportDisabled bool `conf:"ipv6-support-disabled"`
	// Name of a network whose addresses are of the type ExternalIP. May be given several times.
	PublicNetworkName []string `conf:"public-network-name"`
	// Name of a network whose addresses are of the type InternalIP. May be given several times. Empty means all others.
	InternalNetworkName []string `conf:"internal-network-name"`
	// CIDRs, separated by commas: addresses in the first come first, those in none of them last, in the order that they had.
	AddressSortOrder []netip.Prefix `conf:"address-sort-order"`
}

// Route says which router has the routes to pods.
type Route struct {
	// ID of the Neutron router. Empty means that there are no routes.
	RouterID string `conf:"router-id"`
}

// Metadata is about the metadata of the server that the manager runs on, which this provider does not use.
type Metadata struct {
	// `configDrive`, `metadataService`, or both separated by a comma. Accepted, and without meaning here.
	SearchOrder string `conf:"search-order"`
	// Deadline of each request to a service of the cloud.
	RequestTimeout time.Duration `conf:"request-timeout"`
}
