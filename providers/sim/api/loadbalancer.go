package api

import "time"

// LoadBalancerState is where a load balancer is in its life.
type LoadBalancerState string

// The states of a load balancer. One that was deleted is not found.
const (
	LoadBalancerPending LoadBalancerState = "pending"
	LoadBalancerActive  LoadBalancerState = "active"
	LoadBalancerFailed  LoadBalancerState = "error"
)

// Protocol is the transport protocol of a listener.
type Protocol string

// The protocols of a listener.
const (
	ProtocolTCP  Protocol = "TCP"
	ProtocolUDP  Protocol = "UDP"
	ProtocolSCTP Protocol = "SCTP"
)

// Addressing says how clients of a load balancer find it.
type Addressing string

// The values of Addressing. Empty means AddressingIP.
const (
	AddressingIP       Addressing = "ip"
	AddressingHostname Addressing = "hostname"
)

// IPMode says what happens to a packet on its way to a target, as in the ipMode of a Service's status (KEP-1860).
type IPMode string

// The values of IPMode. Empty means IPModeVIP.
const (
	IPModeVIP   IPMode = "VIP"
	IPModeProxy IPMode = "Proxy"
)

// Listener is one port of a load balancer.
type Listener struct {
	// Name is free.
	Name string `json:"name,omitempty"`
	// Protocol and Port are unique together within a load balancer. Port is 1 to 65535.
	Protocol Protocol `json:"protocol"`
	Port     int32    `json:"port"`
	// TargetPort is the port on every target, 1 to 65535.
	TargetPort int32 `json:"targetPort"`
}

// HealthCheck says how the cloud finds out whether a target can serve.
type HealthCheck struct {
	// Port is the port on every target, 1 to 65535.
	Port int32 `json:"port"`
	// Path makes it an HTTP check; empty is a check whether a TCP connection opens.
	Path string `json:"path,omitempty"`
}

// LoadBalancerSpec is what a client asks for.
type LoadBalancerSpec struct {
	// Name is unique in the account, 1 to 63 characters of an RFC 1123 label, and cannot be changed.
	Name string `json:"name"`
	// Region is where the load balancer is; it cannot be changed.
	Region string `json:"region"`
	// Tags are free. A client that must know what it owns keeps its mark here.
	Tags map[string]string `json:"tags,omitempty"`
	// IPFamilies are the families of its addresses, at least one and none twice; empty means IPv4.
	IPFamilies []IPFamily `json:"ipFamilies,omitempty"`
	// Addressing says whether clients get addresses or a host name.
	Addressing Addressing `json:"addressing,omitempty"`
	// IPMode says whether the load balancer terminates connections.
	IPMode IPMode `json:"ipMode,omitempty"`
	// RequestedAddresses are addresses that the load balancer shall have, at most one of a family.
	RequestedAddresses []string `json:"requestedAddresses,omitempty"`
	// SourceRanges are the CIDRs that may connect; empty means all.
	SourceRanges []string `json:"sourceRanges,omitempty"`
	// Listeners are its ports, at least one.
	Listeners []Listener `json:"listeners"`
	// Targets are the IDs of instances. The cloud ignores the order and refuses an ID that does not exist.
	Targets []string `json:"targets,omitempty"`
	// HealthCheck is nil for the cloud's default, a TCP check of the first listener's target port.
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`
}

// LoadBalancer is a load balancer of the cloud.
type LoadBalancer struct {
	LoadBalancerSpec
	// ID distinguishes two load balancers that had the same name one after the other.
	ID string `json:"id"`
	// State is where the load balancer is in its life.
	State LoadBalancerState `json:"state"`
	// StateReason says why the state is error.
	StateReason string `json:"stateReason,omitempty"`
	// Addresses are its IP addresses, one of a family. Empty while it is pending.
	Addresses []string `json:"addresses,omitempty"`
	// Hostname is set if Addressing asks for it. Empty while it is pending.
	Hostname string `json:"hostname,omitempty"`
	// Generation starts at 1 and grows with every write.
	Generation int64 `json:"generation"`
	// CreatedAt is when the cloud accepted the load balancer.
	CreatedAt time.Time `json:"createdAt"`
}

// TargetsChange is what a client asks for by ChangeTargets. What is not named stays as it is.
type TargetsChange struct {
	// Tags are tags that the load balancer must have, so each client changes its own only.
	Tags map[string]string `json:"tags,omitempty"`
	// Add are the IDs of instances that become targets, if they are none yet. The cloud refuses an ID that does not exist.
	Add []string `json:"add,omitempty"`
	// Remove are the IDs of instances that are no targets afterwards, if they were any, whether or not they exist.
	Remove []string `json:"remove,omitempty"`
}
