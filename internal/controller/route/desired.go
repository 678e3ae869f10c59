package route

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-ccm/mooring/internal/prefixes"
)

// membership says what may be done with routes to a node.
type membership int

const (
	// undecided nodes may turn out to be ours: nothing is made for them, and nothing of theirs is removed.
	undecided membership = iota
	// ours are nodes for which routes are made.
	ours
	// others are nodes of another owner, who makes their routes.
	others
	// presumed nodes may belong to another owner, but nothing says so. They get the routes that they lack, and their existing routes stay.
	presumed
)

// takesPart reports whether routes are made for a node.
func (s membership) takesPart() bool { return s == ours || s == presumed }

// member is a node of the cluster and what may be done with it.
type member struct {
	node       *corev1.Node
	membership membership
	// shown says that the node's condition has its routes.
	shown bool
}

// destination is a CIDR in a form in which all its spellings are equal: RFC 4291 allows many for one IPv6 prefix, and a cloud
// may answer with another one than it was given. A text that is no CIDR is only equal to itself.
type destination struct {
	prefix netip.Prefix
	text   string
}

// destinationOf parses a CIDR. Host bits do not count.
func destinationOf(cidr string) destination {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return destination{text: cidr}
	}
	return destination{prefix: prefix.Masked()}
}

// String returns the canonical form of the CIDR.
func (d destination) String() string {
	if d.prefix.IsValid() {
		return d.prefix.String()
	}
	return d.text
}

// within reports whether one of the ranges contains the whole destination.
func (d destination) within(ranges []netip.Prefix) bool {
	return d.prefix.IsValid() && slices.ContainsFunc(ranges, func(outer netip.Prefix) bool {
		return outer.Bits() <= d.prefix.Bits() && outer.Masked().Contains(d.prefix.Addr())
	})
}

// family is an IP family.
type family string

// The families of routes.
const (
	ipv4 family = "IPv4"
	ipv6 family = "IPv6"
)

// familyOf returns the family of a range.
func familyOf(prefix netip.Prefix) family {
	if prefix.Addr().Is4() {
		return ipv4
	}
	return ipv6
}

// overlaps reports whether some address belongs to both destinations.
func (d destination) overlaps(other destination) bool {
	return d == other || d.prefix.IsValid() && other.prefix.IsValid() && d.prefix.Overlaps(other.prefix)
}

// losesTo reports whether a route to the other destination takes packets from one to this: the same destination, or a part of it. One
// that covers more takes none, because the most specific route wins.
func (d destination) losesTo(other destination) bool {
	return d == other || d.overlaps(other) && other.prefix.Bits() >= d.prefix.Bits()
}

// want is a route that has to exist.
type want struct {
	// node and uid are those of the node to which packets go.
	node types.NodeName
	uid  types.UID
	// cidr is the pod CIDR as the node has it, destination what it means.
	cidr        string
	destination destination
	// addresses are the node's.
	addresses []corev1.NodeAddress
	// shown says that the node's condition has the route.
	shown bool
}

// key names a want: two wants with the same key are the same route.
type key struct {
	uid         types.UID
	destination destination
}

func (w want) key() key { return key{w.uid, w.destination} }

// target is what a plan has to know of a node to which a route may point.
type target struct {
	membership   membership
	destinations []destination
}

// claims reports whether the destination is one of the node's pod CIDRs.
func (t target) claims(d destination) bool { return slices.Contains(t.destinations, d) }

// desired is what has to be true of the routes.
type desired struct {
	// clusterCIDRs are the ranges in which unwanted routes are removed.
	clusterCIDRs []netip.Prefix
	// serviceCIDRs are the ranges of Services, where a route is to be made and they are known.
	serviceCIDRs []netip.Prefix
	// unsupported are the families of which the provider says that it makes no routes. They are tried all the same.
	unsupported []family
	// targets has an entry for every node of the cluster.
	targets map[types.NodeName]target
	// wants are the routes of our nodes, in the order of their claim to scarce resources. Nodes that stay come before nodes that are being deleted,
	// and older nodes before younger ones. The routes of a node are in the order of its pod CIDRs.
	wants []want
	// presumed are the routes of the nodes that are presumed to be ours, in the same order.
	presumed []want
	// claims are the pod CIDRs of all nodes, foreign nodes included, in the same order.
	claims []prefixes.Claim
}

// leavesOut reports whether --cluster-cidr has no range of the family of a destination. No route to it is made or removed, and no condition asks for
// one.
func (d desired) leavesOut(to destination) bool {
	same := func(outer netip.Prefix) bool { return familyOf(outer) == familyOf(to.prefix) }
	return to.prefix.IsValid() && len(d.clusterCIDRs) > 0 && !slices.ContainsFunc(d.clusterCIDRs, same)
}

// ofServices returns the range of Services that a destination overlaps.
func (d desired) ofServices(to destination) (netip.Prefix, bool) {
	for _, services := range d.serviceCIDRs {
		if to.prefix.IsValid() && to.prefix.Overlaps(services) {
			return services, true
		}
	}
	return netip.Prefix{}, false
}

// excuses reports whether no condition asks for a route to a destination.
func (d desired) excuses(to destination) bool {
	return d.leavesOut(to) || to.prefix.IsValid() && slices.Contains(d.unsupported, familyOf(to.prefix))
}

// desire turns all nodes of the cluster into what has to be true of the routes.
func desire(members []member, clusterCIDRs []netip.Prefix, unsupported ...family) desired {
	d := desired{clusterCIDRs: clusterCIDRs, unsupported: unsupported, targets: make(map[types.NodeName]target, len(members))}
	members = slices.SortedFunc(slices.Values(members), bySeniority)
	for _, member := range members {
		node := member.node
		t := target{membership: member.membership}
		for _, cidr := range node.Spec.PodCIDRs {
			destination := destinationOf(cidr)
			if t.claims(destination) {
				continue // one route serves both
			}
			t.destinations = append(t.destinations, destination)
			if destination.prefix.IsValid() {
				d.claims = append(d.claims, prefixes.Claim{Owner: node.Name, Prefix: destination.prefix})
			}
			if d.leavesOut(destination) {
				continue
			}
			w := want{
				node: types.NodeName(node.Name), uid: node.UID,
				cidr: cidr, destination: destination, addresses: node.Status.Addresses, shown: member.shown,
			}
			switch member.membership {
			case ours:
				d.wants = append(d.wants, w)
			case presumed:
				d.presumed = append(d.presumed, w)
			}
		}
		d.targets[types.NodeName(node.Name)] = t
	}
	return d
}

// bySeniority orders nodes by their claim on what is scarce.
func bySeniority(a, b member) int {
	leaving := func(m member) int {
		if m.node.DeletionTimestamp != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(leaving(a), leaving(b)),
		a.node.CreationTimestamp.Compare(b.node.CreationTimestamp.Time),
		cmp.Compare(a.node.Name, b.node.Name),
	)
}
