// Package annotations reads what a Service asks of its load balancer: the annotations of cloud-provider-openstack's reference, over the
// defaults of the cloud config and of the class that the Service names. One table holds the annotations; parsing and the reference page
// docs/reference/openstack-annotations.md both come from it. Everything here is values and functions over them.
package annotations

import "time"

//go:generate go run ../../../../dev/docgen/openstackannotations --file ../../../../docs/reference/openstack-annotations.md

// Options are the section [LoadBalancer] of the cloud config and its classes, as cloud-provider-openstack documents them. The comment of
// a field begins with the option's name.
type Options struct {
	// Provider is lb-provider, the driver of octavia. Empty is "amphora", and so is "octavia", its old name.
	Provider string
	// Method is lb-method, the algorithm of pools. Empty is ROUND_ROBIN, and with the driver ovn SOURCE_IP_PORT, the only one it has.
	Method string
	// SubnetID, NetworkID and MemberSubnetID are subnet-id, network-id and member-subnet-id.
	SubnetID, NetworkID, MemberSubnetID string
	// FloatingNetworkID is floating-network-id; Floating says which of its subnets.
	FloatingNetworkID string
	Floating          FloatingSubnet
	// Internal is internal-lb: every load balancer is internal, whatever Services ask for.
	Internal bool
	// ManageSecurityGroups is manage-security-groups: a group for each Service opens the node ports.
	ManageSecurityGroups bool
	// CreateMonitor is create-monitor. The four that follow are monitor-delay, monitor-timeout, monitor-max-retries and
	// monitor-max-retries-down; zero is the documented default. Octavia knows whole seconds.
	CreateMonitor                            bool
	MonitorDelay, MonitorTimeout             time.Duration
	MonitorMaxRetries, MonitorMaxRetriesDown int
	// NodeSelector is node-selector, in the syntax of the annotation of the same name.
	NodeSelector string
	// SerialDelete is the opposite of cascade-delete: a load balancer's children are deleted one after the other.
	SerialDelete bool
	// SerialCreate is provider-requires-serial-api-calls: a load balancer is created empty, and then filled.
	SerialCreate bool
	// FlavorID and AvailabilityZone are flavor-id and availability-zone.
	FlavorID, AvailabilityZone string
	// IngressHostname is enable-ingress-hostname, and IngressHostnameSuffix ingress-hostname-suffix; empty is "nip.io".
	IngressHostname       bool
	IngressHostnameSuffix string
	// TLSContainerRef is default-tls-container-ref, and ContainerStore container-store: "barbican", which is also empty, has the form of
	// references checked.
	TLSContainerRef, ContainerStore string
	// MaxShared is max-shared-lb: how many Services may share a load balancer. Zero is 2.
	MaxShared int
	// Repair is what becomes of a load balancer that octavia says is in ERROR.
	Repair Repair
	// Classes are the sections [LoadBalancerClass "NAME"], by name.
	Classes map[string]Class
}

// Class is a section [LoadBalancerClass "NAME"]. What it sets goes before the annotations and before [LoadBalancer].
type Class struct {
	FloatingNetworkID                   string
	Floating                            FloatingSubnet
	SubnetID, NetworkID, MemberSubnetID string
}

// FloatingSubnet says which subnets of the floating network a floating IP may come from. The zero value is any.
type FloatingSubnet struct {
	// ID is the one subnet. It goes before the others.
	ID string
	// Name is a pattern: a glob, or after "~" a regular expression for the whole name; "!" before it negates.
	Name string
	// Tags are tags with commas between: a subnet has any of them, or after "&" all; "!" before it negates.
	Tags string
}

// Repair is what becomes of a load balancer in ERROR.
type Repair string

const (
	// RepairRecreate deletes and creates one that never worked, which holds nothing yet; one whose address a Service shows already
	// is left as it is, and reported. It is the default.
	RepairRecreate Repair = ""
	// RepairFailover asks octavia for a failover, which keeps the address. Octavia's policy reserves that call to its administrators
	// by default, and the driver ovn has none.
	RepairFailover Repair = "failover"
	// RepairAlways deletes and creates every one, with the same VIP if the driver gives it; a floating IP stays.
	RepairAlways Repair = "always"
	// RepairNever reports it.
	RepairNever Repair = "never"
)

// DriverOVN is the name of the driver that balances in OVN. What it cannot do differs by documentation from all others.
const DriverOVN = "ovn"

// defaultDriver is the driver where none is named.
const defaultDriver = "amphora"

// Driver returns the driver's name as octavia knows it.
func (o Options) Driver() string {
	if o.Provider == "" || o.Provider == "octavia" {
		return defaultDriver
	}
	return o.Provider
}

// Defaulted returns the options with the documented defaults where nothing is set.
func (o Options) Defaulted() Options {
	o.Provider = o.Driver()
	if o.Method == "" {
		o.Method = "ROUND_ROBIN"
		if o.Provider == DriverOVN {
			o.Method = "SOURCE_IP_PORT"
		}
	}
	for value, fallback := range map[*time.Duration]time.Duration{&o.MonitorDelay: 5 * time.Second, &o.MonitorTimeout: 3 * time.Second} {
		if *value == 0 {
			*value = fallback
		}
	}
	for value, fallback := range map[*int]int{&o.MonitorMaxRetries: 1, &o.MonitorMaxRetriesDown: 3, &o.MaxShared: 2} {
		if *value == 0 {
			*value = fallback
		}
	}
	if o.IngressHostnameSuffix == "" {
		o.IngressHostnameSuffix = "nip.io"
	}
	return o
}
