// Package rack is the network of labs with bare metal: who has which address, and how machines, replicas, the router and the client are attached.
package rack

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/router"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/must"
)

const (
	// ASN is the number of the router's and the replicas' autonomous system.
	ASN = 64512
	// Nodes is how many machines there are.
	Nodes = 3
	// ServiceCIDR has the ranges of Services.
	ServiceCIDR = "10.96.0.0/16,fd00:96::/108"
)

var (
	// ControlPlane4 and ControlPlane6 are the control plane's addresses on the segment, where nodes, replicas and the router are, too.
	ControlPlane4, ControlPlane6 = netip.MustParsePrefix("10.78.0.1/16"), netip.MustParsePrefix("fd00:78::1/64")
	// Router4 and Router6 are the router's addresses on the segment.
	Router4, Router6 = netip.MustParsePrefix("10.78.0.2/16"), netip.MustParsePrefix("fd00:78::2/64")
	// Client4 and Client6 are the client's addresses behind the router. The router has the gateways' on that link.
	Client4, Client6   = netip.MustParsePrefix("198.51.100.10/24"), netip.MustParsePrefix("2001:db8:c::10/64")
	gateway4, gateway6 = netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:c::1/64")
	// PodCIDR4 and PodCIDR6 are the ranges of Pods.
	PodCIDR4, PodCIDR6 = netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/48")
)

// Machine is a machine of the inventory, which becomes a node.
type Machine struct {
	// Index counts from one.
	Index int
	Name  string
	Host  *sandbox.Host
}

// NewMachine attaches a machine to the segment. It forwards packets, and the router is its way to everywhere.
func NewMachine(t *testing.T, segment *sandbox.Segment, index int) Machine {
	t.Helper()
	m := Machine{Index: index, Name: fmt.Sprintf("n%d", index)}
	m.Host = segment.NewHost(t, m.Name, m.Addr4(), m.Addr6())
	for _, args := range [][]string{
		{"ip", "route", "replace", "default", "via", Router4.Addr().String()},
		{"ip", "-6", "route", "replace", "default", "via", Router6.Addr().String()},
		{"sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"},
	} {
		sandbox.Command(t, append(m.Host.Args(), args...)...)
	}
	return m
}

// Addr4 is the machine's address of IPv4, with the size of the segment.
func (m *Machine) Addr4() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("10.78.1.%d/16", m.Index))
}

// Addr6 is the machine's address of IPv6, with the size of the segment.
func (m *Machine) Addr6() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("fd00:78::1:%d/64", m.Index))
}

// ReplicaAddr is the address of a manager, which counts from zero.
func ReplicaAddr(index int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("10.78.0.%d/16", 11+index))
}

// NewReplica attaches a host for a manager to the segment.
func NewReplica(t *testing.T, segment *sandbox.Segment, index int) *sandbox.Host {
	t.Helper()
	return segment.NewHost(t, fmt.Sprintf("ccm%d", index), ReplicaAddr(index), netip.MustParsePrefix(fmt.Sprintf("fd00:78::%d/64", 11+index)))
}

// StartRouter attaches a router to the segment, and starts it with BGP sessions to as many managers.
func StartRouter(t *testing.T, segment *sandbox.Segment, kind router.Kind, replicas int, dir string) *router.Router {
	t.Helper()
	var neighbors []router.Neighbor
	for i := range replicas {
		neighbors = append(neighbors, router.Neighbor{Address: ReplicaAddr(i).Addr(), ASN: ASN})
	}
	host := segment.NewHost(t, "rtr", Router4, Router6)
	return router.Start(t, kind, host, dir, router.Config{ASN: ASN, RouterID: Router4.Addr(), Neighbors: neighbors})
}

// NewClient attaches the client to the router.
func NewClient(t *testing.T, to *router.Router) *sandbox.Host {
	t.Helper()
	return must.Value(to.Host.Attach(t.Context(), "client", []netip.Prefix{gateway4, gateway6}, []netip.Prefix{Client4, Client6}))(t)
}
