// Package model is a load balancer as values: what a Service asks for and what octavia has are both told in these types, so they can
// be compared. It holds names and tags too, and no I/O.
package model

import (
	"cmp"
	"slices"
)

// LoadBalancer is a load balancer with all that is below it.
type LoadBalancer struct {
	Name, Description string
	// Tags have to be there; other tags stay.
	Tags []string
	// Provider is octavia's driver.
	Provider, FlavorID, AvailabilityZone string
	// VIPPortID, VIPSubnetID, VIPNetworkID and VIPAddress place the VIP; what is empty octavia chooses. They count when it is created.
	VIPPortID, VIPSubnetID, VIPNetworkID, VIPAddress string
	// AdditionalVIPSubnetIDs are the subnets of further VIPs, in the network of the first. They count when it is created.
	AdditionalVIPSubnetIDs []string
	Listeners              []Listener
}

// Listener is a port of a load balancer, with the one pool behind it.
type Listener struct {
	Name     string
	Protocol string
	Port     int
	Tags     []string
	// ConnectionLimit is -1 for any number.
	ConnectionLimit int
	// Timeouts are in milliseconds. Nil: the driver has none.
	Timeouts *Timeouts
	// XForwardedFor says that X-Forwarded-For is inserted into requests.
	XForwardedFor   bool
	TLSContainerRef string
	// AllowedCIDRs are sorted. None allow everybody.
	AllowedCIDRs []string
	Pool         Pool
}

// Timeouts are those of a listener.
type Timeouts struct{ ClientData, MemberConnect, MemberData, TCPInspect int }

// Key tells the listeners of a load balancer apart: octavia has one for a port of a transport protocol.
type Key struct {
	Transport string
	Port      int
}

// Key returns the listener's key.
func (l Listener) Key() Key { return Key{Transport: Transport(l.Protocol), Port: l.Port} }

// Transport returns the protocol of Kubernetes below a listener's protocol.
func Transport(protocol string) string {
	if protocol == "UDP" || protocol == "SCTP" {
		return protocol
	}
	return "TCP"
}

// Pool is what is behind a listener.
type Pool struct {
	Name, Protocol, Algorithm string
	// Persistence is the kind of session persistence, SOURCE_IP, or empty without persistence.
	Persistence string
	Tags        []string
	// Members are sorted by address and port.
	Members []Member
	// Monitor is nil if members are not probed.
	Monitor *Monitor
}

// Member is a node behind a pool.
type Member struct {
	// Name is the node's.
	Name, Address string
	Port          int
	// SubnetID counts when the member is added; empty is the VIP's subnet.
	SubnetID string
	// MonitorPort is the port that is probed. Zero is Port.
	MonitorPort int
}

// SortMembers puts members in order.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
	})
}

// Monitor is how the members of a pool are probed; times are in seconds.
type Monitor struct {
	Name, Type                                 string
	Tags                                       []string
	Delay, Timeout, MaxRetries, MaxRetriesDown int
	// URLPath, HTTPMethod and ExpectedCodes are of type HTTP only.
	URLPath, HTTPMethod, ExpectedCodes string
}
