package config

import "time"

// LoadBalancer is about Services of type LoadBalancer.
type LoadBalancer struct {
	// `false` leaves Services of type LoadBalancer to another implementation.
	Enabled bool `conf:"enabled"`
	// `v2`, or empty.
	LBVersion string `conf:"lb-version"`
	// ID of the subnet of the address, and of the members without `member-subnet-id`.
	SubnetID string `conf:"subnet-id"`
	// ID of the subnet of the members.
	MemberSubnetID string `conf:"member-subnet-id"`
	// ID of the network of the address, without `subnet-id`. Empty means the nodes' network.
	NetworkID string `conf:"network-id"`
	// ID of the external network of floating IPs. Needed where there are several.
	FloatingNetworkID string `conf:"floating-network-id"`
	// ID of the subnet of floating IPs.
	FloatingSubnetID string `conf:"floating-subnet-id"`
	// Name of the subnet of floating IPs: a glob, or a regular expression behind `~`.
	FloatingSubnet string `conf:"floating-subnet"`
	// Tags of the subnet of floating IPs, separated by commas.
	FloatingSubnetTags string `conf:"floating-subnet-tags"`
	// Algorithm of pools: `ROUND_ROBIN`, `LEAST_CONNECTIONS`, `SOURCE_IP` or `SOURCE_IP_PORT`. Empty means `SOURCE_IP_PORT` for the provider `ovn`, else `ROUND_ROBIN`.
	LBMethod string `conf:"lb-method"`
	// Provider of Octavia: `amphora`, `octavia` (another name of it), `ovn`, `f5` or another.
	LBProvider string `conf:"lb-provider"`
	// `true` makes a health monitor for each pool.
	CreateMonitor bool `conf:"create-monitor"`
	// Time between two probes: a duration, or a number of seconds.
	MonitorDelay time.Duration `conf:"monitor-delay"`
	// Longest time that a probe takes: a duration, or a number of seconds.
	MonitorTimeout time.Duration `conf:"monitor-timeout"`
	// Successful probes before a member is online, 1 to 10.
	MonitorMaxRetries int `conf:"monitor-max-retries"`
	// Failed probes before a member is in error, 1 to 10.
	MonitorMaxRetriesDown int `conf:"monitor-max-retries-down"`
	// `true` manages rules of security groups for members.
	ManageSecurityGroups bool `conf:"manage-security-groups"`
	// `true` makes load balancers without a floating IP unless a Service asks for one.
	InternalLB bool `conf:"internal-lb"`
	// Labels, separated by commas, `KEY=VALUE` or `KEY`: only nodes with all of them are members.
	NodeSelector string `conf:"node-selector"`
	// `true` deletes a load balancer with all that is in it by one call.
	CascadeDelete bool `conf:"cascade-delete"`
	// ID of the flavor of load balancers.
	FlavorID string `conf:"flavor-id"`
	// Name of the availability zone of load balancers.
	AvailabilityZone string `conf:"availability-zone"`
	// `true` publishes a name made of the address in place of the address, under PROXY protocol.
	EnableIngressHostname bool `conf:"enable-ingress-hostname"`
	// What comes behind the address in that name.
	IngressHostnameSuffix string `conf:"ingress-hostname-suffix"`
	// How many Services share a load balancer at the most.
	MaxSharedLB int `conf:"max-shared-lb"`
	// Where TLS containers are: `barbican`, or `external` for somewhere that is not looked at.
	ContainerStore string `conf:"container-store"`
	// Reference of the TLS container of listeners, for all Services that name none.
	TLSContainerRef string `conf:"default-tls-container-ref"`
	// `true` makes load balancers one part after the other, for providers that take no fully populated one.
	ProviderRequiresSerialAPICalls bool `conf:"provider-requires-serial-api-calls"`
}

// LoadBalancerClass is a section [LoadBalancerClass "NAME"], which a Service chooses by the annotation
// `loadbalancer.openstack.org/class`. Its options are those of [LoadBalancer], for that Service.
type LoadBalancerClass struct {
	// ID of the external network of floating IPs.
	FloatingNetworkID string `conf:"floating-network-id"`
	// ID of the subnet of floating IPs.
	FloatingSubnetID string `conf:"floating-subnet-id"`
	// Name of the subnet of floating IPs.
	FloatingSubnet string `conf:"floating-subnet"`
	// Tags of the subnet of floating IPs.
	FloatingSubnetTags string `conf:"floating-subnet-tags"`
	// ID of the network of the address.
	NetworkID string `conf:"network-id"`
	// ID of the subnet of the address.
	SubnetID string `conf:"subnet-id"`
	// ID of the subnet of the members.
	MemberSubnetID string `conf:"member-subnet-id"`
}
