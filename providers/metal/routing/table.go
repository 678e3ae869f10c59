// Package routing holds the table of what the network is to know: which destinations the cluster announces, and by which next
// hops. It also holds the hash by which next hops are chosen.
//
// Package announce derives a Table from Kubernetes objects and from what the prober sees; package bgp sends it to routers;
// package layer2 answers ARP and NDP for the addresses that are on the segment of this machine.
package routing

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Kind says what a destination belongs to.
type Kind int

const (
	// PodCIDR is a range of pod addresses of one node.
	PodCIDR Kind = iota + 1
	// ServiceAddress is the address of a load balancer, as a host route.
	ServiceAddress
	// Aggregate is a prefix that stands for addresses of load balancers. It goes to groups of BGP peers only.
	Aggregate
)

// String returns the kind as in logs and metrics.
func (k Kind) String() string {
	switch k {
	case PodCIDR:
		return "pod-cidr"
	case ServiceAddress:
		return "service-address"
	case Aggregate:
		return "aggregate"
	default:
		return "unknown"
	}
}

// MaxNextHops is how many next hops of one destination can be announced. ADD-PATH lets the BGP library send 255 paths, as it counts
// in eight bits, and while all next hops move, the old and the new ones are announced together.
const MaxNextHops = 127

// Route is one destination with its next hops, all of one address family.
type Route struct {
	// Prefix is the destination, masked. A load balancer's address is a /32 or /128.
	Prefix netip.Prefix
	// NextHops are the addresses that traffic is sent to, sorted and distinct. Empty is never announced; such a Route is in a Table
	// only for what Groups says.
	NextHops []netip.Addr
	// Segment is the next hop of a load balancer's address for the hosts of the network that the address is on: a node with an address there.
	// It is invalid if there is none.
	Segment netip.Addr
	// Attributes are what goes with each of NextHops, in their order. Nil means what the pool has.
	Attributes []Attributes
	// Kind says what the destination belongs to.
	Kind Kind
	// Pool is the name of the pool of a load balancer's address; empty for a pod CIDR.
	Pool string
	// Uncertain says that this replica does not see whether the next hops work: routers should prefer a replica that does.
	Uncertain bool
	// Groups say which next hops are announced to which group of BGP peers, by its name, in the place of NextHops. One that is not
	// among them is announced nothing. Nil means that NextHops go to all.
	Groups map[string]Hops
}

// Hops are the next hops of one destination for a group of peers.
type Hops struct {
	// NextHops are sorted and distinct.
	NextHops []netip.Addr
	// Attributes are what goes with each of NextHops, in their order.
	Attributes []Attributes
}

// Attributes are path attributes of BGP on which a router's policy decides.
type Attributes struct {
	// LocalPreference is what internal peers compare first.
	LocalPreference uint32
	// Communities are as in the configuration, sorted and separated by spaces.
	Communities string
}

// Equal reports whether both announce the same by the same next hops.
func (h Hops) Equal(other Hops) bool {
	return slices.Equal(h.NextHops, other.NextHops) && slices.Equal(h.Attributes, other.Attributes)
}

// Equal reports whether both announce the same destination by the same next hops.
func (r Route) Equal(other Route) bool {
	return r.Prefix == other.Prefix && r.Kind == other.Kind && r.Pool == other.Pool && r.Uncertain == other.Uncertain &&
		slices.Equal(r.NextHops, other.NextHops) && r.Segment == other.Segment && slices.Equal(r.Attributes, other.Attributes) &&
		(r.Groups == nil) == (other.Groups == nil) && maps.EqualFunc(r.Groups, other.Groups, Hops.Equal)
}

// Table is everything that is to be announced, by destination. A Table that was handed on is no longer changed.
type Table map[netip.Prefix]Route

// Sorted returns the routes in the order of their destinations.
func (t Table) Sorted() []Route {
	return slices.SortedFunc(maps.Values(t), func(a, b Route) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
	})
}

// For returns what is announced to a group of BGP peers. The group without a name is the peers that are in no other.
func (t Table) For(group string) Table {
	result := make(Table, len(t))
	for prefix, route := range t {
		if hops, selected := route.Groups[group]; selected {
			route.NextHops, route.Attributes = hops.NextHops, hops.Attributes
		} else if route.Groups != nil || group != "" {
			continue
		}
		if len(route.NextHops) > 0 {
			route.Groups = nil
			result[prefix] = route
		}
	}
	return result
}

// Equal reports whether both announce the same.
func (t Table) Equal(other Table) bool { return maps.EqualFunc(t, other, Route.Equal) }
