// Package model is the vocabulary of announcing: what of the cluster decides, and what became of it.
package model

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Family is an address family. Families never mix: an address has next hops of its own family, by endpoints of that family.
type Family int

// The families, as indices of ByFamily.
const (
	IPv4 Family = iota
	IPv6
	Families // how many there are
)

// FamilyOf returns the family of an address.
func FamilyOf(addr netip.Addr) Family {
	if addr.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Node is what of a Node decides about next hops and routes to pods.
type Node struct {
	Name    string
	UID     types.UID
	Created time.Time
	Labels  map[string]string
	// Addresses are the InternalIPs, and External the ExternalIPs, in the order of the status.
	Addresses, External []netip.Addr
	PodCIDRs            []netip.Prefix
	// Uninitialized says that no cloud provider has taken the node on yet.
	Uninitialized bool
	// Excluded says that the node is labeled node.kubernetes.io/exclude-from-external-load-balancers.
	Excluded bool
	// Cordoned says that no pods are to be scheduled to the node.
	Cordoned bool
	// Removal says by what the node is known to be about to go; empty if it is not.
	Removal string
}

// Address returns the node's first address of a family, or an invalid one if the node has no such address.
func (n Node) Address(family Family) netip.Addr {
	for _, addr := range n.Addresses {
		if FamilyOf(addr) == family {
			return addr
		}
	}
	return netip.Addr{}
}

// Service is what of a Service with a load balancer of ours decides about its announcement.
type Service struct {
	Key types.NamespacedName
	UID types.UID
	// Labels are what advertisements select it by.
	Labels map[string]string
	// Addresses are those in its status.
	Addresses []netip.Addr
	// Local says that externalTrafficPolicy is Local: only nodes with endpoints serve.
	Local bool
	// Affinity says that sessionAffinity is ClientIP: what comes from one client is for one pod, which one node remembers.
	Affinity bool
	// HealthCheckNodePort is where kube-proxy says whether a node has local endpoints; 0 if the policy is Cluster.
	HealthCheckNodePort int32
}

// Endpoints are where the endpoints of a Service are, of one family.
type Endpoints struct {
	// Any says that there is an endpoint that serves, on whatever node, or on none.
	Any bool
	// Ready are the nodes with ready endpoints.
	Ready map[string]bool
	// Terminating are the nodes with endpoints that end but still serve. kube-proxy sends traffic to them only if the node has no
	// ready one (KEP-1669).
	Terminating map[string]bool
}

// Probe is what is probed: a port of a node.
type Probe struct {
	Node string
	// Port is a health-check node port; 0 stands for kube-proxy's own health.
	Port int32
}

// Health is what is known by probing.
type Health int

const (
	// HealthUnknown says that too few probes have been made to know.
	HealthUnknown Health = iota
	// Healthy ports answer as they should.
	Healthy
	// HealthLeaving is said by a kube-proxy that works and knows that its node is being removed (KEP-3836).
	HealthLeaving
	// HealthDamped ports answer as they should, but have failed again and again: they have to answer for longer.
	HealthDamped
	// HealthRefused ports refuse connections: their machine lives, and what would answer there does not run.
	HealthRefused
	// HealthUnreached is a kube-proxy that has been silent since the first probe, like the kube-proxies of all other nodes: nothing says
	// that kube-proxy answers where it is asked.
	HealthUnreached
	// Unhealthy ports do not answer, or answer that traffic is not welcome.
	Unhealthy
)

// String returns the health as in metrics.
func (h Health) String() string {
	return [...]string{"unknown", "healthy", "leaving", "damped", "refused", "unreached", "unhealthy"}[h]
}

// Healths are all of them.
var Healths = [...]Health{HealthUnknown, Healthy, HealthLeaving, HealthDamped, HealthRefused, HealthUnreached, Unhealthy}

// ByFamily are the endpoints of a Service by family.
type ByFamily [Families]Endpoints
