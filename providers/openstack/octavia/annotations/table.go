package annotations

// Prefix is the prefix of the annotations that cloud-provider-openstack documents.
const Prefix = "loadbalancer.openstack.org/"

// The annotations that are named outside the table.
const (
	Internal       = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	ClassName      = Prefix + "class"
	ProxyProtocol  = Prefix + "proxy-protocol"
	XForwardedFor  = Prefix + "x-forwarded-for"
	TLSContainer   = Prefix + "default-tls-container-ref"
	Method         = Prefix + "lb-method"
	LoadBalancerID = Prefix + "load-balancer-id"
	MonitorDelay   = Prefix + "health-monitor-delay"
	MonitorTimeout = Prefix + "health-monitor-timeout"
)

// WithOVN is what an annotation means with the driver ovn.
type WithOVN string

const (
	// Same is the same as with other drivers.
	Same WithOVN = "the same"
	// Ignored has no effect, as with cloud-provider-openstack.
	Ignored WithOVN = "ignored"
	// Refused is an error on the Service, which names the driver: octavia answers 501.
	Refused WithOVN = "refused"
)

// Annotation is a row of the table.
type Annotation struct {
	// Name is the annotation's name, with its prefix.
	Name string
	// Values are the values that it takes, for people.
	Values string
	// Option is the option of the cloud config that holds where the annotation is missing, or empty if there is no such option.
	Option string
	// Default is what holds where neither is given; empty if that is nothing.
	Default string
	// Creation says that it counts only when the load balancer is created.
	Creation bool
	// OVN is what it means with the driver ovn.
	OVN WithOVN
	// Text says what it does.
	Text string

	read reader
}

// Table returns the annotations, in the order of the reference page.
func Table() []Annotation {
	return slicesOf(placementAnnotations(), floatingAnnotations(), trafficAnnotations(), timeoutAnnotations(), monitorAnnotations(), otherAnnotations())
}

func slicesOf(groups ...[]Annotation) []Annotation {
	var all []Annotation
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}

func placementAnnotations() []Annotation {
	return []Annotation{
		{Name: Internal, Values: "`true`, `false`", Option: "internal-lb", Default: "`false`", OVN: Same,
			Text: "No floating IP: the Service shows the VIP. Where the option is true, `false` changes nothing.",
			read: flag(func(s *Settings) *bool { return &s.Internal })},
		{Name: ClassName, Values: "name", OVN: Same,
			Text: "The class of the cloud config. What the class sets goes before the annotations of the same names.",
			read: text(func(s *Settings) *string { return &s.Class })},
		{Name: Prefix + "subnet-id", Values: "ID", Option: "subnet-id", Default: "the subnet of the first node", Creation: true, OVN: Same,
			Text: "The subnet of the VIP. If it has IPv4 and the Service asks for IPv6 first, the VIP is in the only subnet of its network that has IPv6.", read: text(func(s *Settings) *string { return &s.SubnetID })},
		{Name: Prefix + "network-id", Values: "ID", Option: "network-id", Creation: true, OVN: Same,
			Text: "The network of the VIP.", read: text(func(s *Settings) *string { return &s.NetworkID })},
		{Name: Prefix + "port-id", Values: "ID", Creation: true, OVN: Same,
			Text: "The port of the VIP, instead of a subnet or a network.", read: text(func(s *Settings) *string { return &s.PortID })},
		{Name: Prefix + "member-subnet-id", Values: "ID", Option: "member-subnet-id", Default: "the subnet of the VIP", OVN: Same,
			Text: "The subnet of members that are added.", read: text(func(s *Settings) *string { return &s.MemberSubnetID })},
		{Name: Prefix + "flavor-id", Values: "ID", Option: "flavor-id", Creation: true, OVN: Ignored,
			Text: "The flavor.", read: text(func(s *Settings) *string { return &s.FlavorID })},
		{Name: Prefix + "availability-zone", Values: "name", Option: "availability-zone", Creation: true, OVN: Ignored,
			Text: "The availability zone of octavia.", read: text(func(s *Settings) *string { return &s.AvailabilityZone })},
		{Name: LoadBalancerID, Values: "ID", OVN: Same,
			Text: "The load balancer to share, or the one that the Service has already. One that does not exist is an error.",
			read: text(func(s *Settings) *string { return &s.LoadBalancerID })},
	}
}

func floatingAnnotations() []Annotation {
	return []Annotation{
		{Name: Prefix + "floating-network-id", Values: "ID", Option: "floating-network-id", Default: "the only external network", OVN: Same,
			Text: "The network of the floating IP.", read: text(func(s *Settings) *string { return &s.FloatingNetworkID })},
		{Name: Prefix + "floating-subnet-id", Values: "ID", Option: "floating-subnet-id", OVN: Same,
			Text: "The subnet of the floating IP. It goes before the next two.", read: text(func(s *Settings) *string { return &s.Floating.ID })},
		{Name: Prefix + "floating-subnet", Values: "pattern", Option: "floating-subnet", OVN: Same,
			Text: "Subnets of the floating IP by name: a glob, or after `~` a regular expression; `!` before it negates.",
			read: namePattern},
		{Name: Prefix + "floating-subnet-tags", Values: "tags", Option: "floating-subnet-tags", OVN: Same,
			Text: "Subnets of the floating IP by tags with commas between: any of them, or after `&` all; `!` before it negates.",
			read: text(func(s *Settings) *string { return &s.Floating.Tags })},
		{Name: Prefix + "keep-floatingip", Values: "`true`, `false`", Default: "`false`", OVN: Same,
			Text: "The floating IP outlives the load balancer.", read: flag(func(s *Settings) *bool { return &s.KeepFloatingIP })},
	}
}

func trafficAnnotations() []Annotation {
	return []Annotation{
		{Name: Prefix + "connection-limit", Values: "`-1` or 1 and above", Default: "`-1`", OVN: Same,
			Text: "How many connections a listener takes; `-1` is any number.", read: connectionLimit},
		{Name: ProxyProtocol, Values: "`true`, `v1`, `v2`, `false`", Default: "`false`", OVN: Refused,
			Text: "The PROXY protocol toward nodes, for TCP ports. The Service's ipMode becomes Proxy.", read: proxyProtocol},
		{Name: XForwardedFor, Values: "`true`, `false`", Default: "`false`", OVN: Refused,
			Text: "HTTP listeners that add X-Forwarded-For, for TCP ports. Not together with the PROXY protocol.",
			read: flag(func(s *Settings) *bool { return &s.XForwardedFor })},
		{Name: TLSContainer, Values: "reference", Option: "default-tls-container-ref", OVN: Refused,
			Text: "TERMINATED_HTTPS listeners with this container or secret, for TCP ports.", read: containerRef},
		{Name: Method, Values: "`ROUND_ROBIN`, `LEAST_CONNECTIONS`, `SOURCE_IP`, `SOURCE_IP_PORT`", Option: "lb-method",
			Default: "`ROUND_ROBIN`, with ovn `SOURCE_IP_PORT`", OVN: Same,
			Text: "The algorithm. The driver ovn has `SOURCE_IP_PORT` only, and is refused any other.", read: method},
		{Name: Prefix + "node-selector", Values: "`key=value, key`", Option: "node-selector", OVN: Same,
			Text: "Only nodes with all these labels are members.", read: nodeSelector},
	}
}

func timeoutAnnotations() []Annotation {
	return []Annotation{
		{Name: Prefix + "timeout-client-data", Values: "milliseconds", Default: "`50000`", OVN: Ignored,
			Text: "How long a client may be silent.", read: number(0, maxTimeout, func(s *Settings) *int { return &s.Timeouts.ClientData })},
		{Name: Prefix + "timeout-member-connect", Values: "milliseconds", Default: "`5000`", OVN: Ignored,
			Text: "How long a connection to a member may take.",
			read: number(0, maxTimeout, func(s *Settings) *int { return &s.Timeouts.MemberConnect })},
		{Name: Prefix + "timeout-member-data", Values: "milliseconds", Default: "`50000`", OVN: Ignored,
			Text: "How long a member may be silent.", read: number(0, maxTimeout, func(s *Settings) *int { return &s.Timeouts.MemberData })},
		{Name: Prefix + "timeout-tcp-inspect", Values: "milliseconds", Default: "`0`", OVN: Ignored,
			Text: "How long to wait for more packets to inspect.",
			read: number(0, maxTimeout, func(s *Settings) *int { return &s.Timeouts.TCPInspect })},
	}
}

func monitorAnnotations() []Annotation {
	return []Annotation{
		{Name: Prefix + "enable-health-monitor", Values: "`true`, `false`", Option: "create-monitor", Default: "`false`", OVN: Same,
			Text: "Health monitors. `externalTrafficPolicy: Local` needs them: they then ask the Service's health check node port, " +
				"with ovn the node port.",
			read: flag(func(s *Settings) *bool { return &s.Monitor.Enabled })},
		{Name: MonitorDelay, Values: "seconds", Option: "monitor-delay", Default: "`5`", OVN: Same,
			Text: "The time between probes.", read: number(1, maxMonitorSeconds, func(s *Settings) *int { return &s.Monitor.Delay })},
		{Name: MonitorTimeout, Values: "seconds, at most the delay", Option: "monitor-timeout", Default: "`3`", OVN: Same,
			Text: "How long a probe may take.", read: number(1, maxMonitorSeconds, func(s *Settings) *int { return &s.Monitor.Timeout })},
		{Name: Prefix + "health-monitor-max-retries", Values: "1 to 10", Option: "monitor-max-retries", Default: "`1`", OVN: Same,
			Text: "How many probes succeed before a member is up.", read: number(1, 10, func(s *Settings) *int { return &s.Monitor.MaxRetries })},
		{Name: Prefix + "health-monitor-max-retries-down", Values: "1 to 10", Option: "monitor-max-retries-down", Default: "`3`", OVN: Same,
			Text: "How many probes fail before a member is down.",
			read: number(1, 10, func(s *Settings) *int { return &s.Monitor.MaxRetriesDown })},
	}
}

func otherAnnotations() []Annotation {
	return []Annotation{
		{Name: Prefix + "hostname", Values: "name", OVN: Same,
			Text: "The Service's status shows this name instead of an address.", read: text(func(s *Settings) *string { return &s.Hostname })},
		{Name: Prefix + "load-balancer-address", Values: "address", OVN: Same,
			Text: "Written by cloud-provider-openstack. It is not read, and not written here.", read: unread},
	}
}
