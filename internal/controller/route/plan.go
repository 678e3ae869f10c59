package route

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/prefixes"
)

// kind is what is done to a route.
type kind string

const (
	// remove deletes an unwanted route.
	remove kind = "remove"
	// replace changes a route in place, so its destination is never without one.
	replace kind = "replace"
	// recreate deletes a route and creates its replacement at once: what is left where the cloud cannot replace. The other
	// order is not safe: where a route's name follows from its destination or its node, deleting the old one afterwards
	// would delete the new one.
	recreate kind = "recreate"
	// create makes a route to a destination that has none.
	create kind = "create"
)

// action is one thing to do.
type action struct {
	kind kind
	// old is the route to remove or replace, as the cloud listed it.
	old *cloudprovider.Route
	// want is the route to make; nil for remove.
	want *want
	// why is a clause for the log.
	why string
}

// destination is where the route in question leads.
func (a action) destination() destination {
	if a.want != nil {
		return a.want.destination
	}
	return destinationOf(a.old.DestinationCIDR)
}

// wanted returns the route to make, as the plugin is to be given it.
func (a action) wanted() *cloudprovider.Route {
	route := &cloudprovider.Route{
		TargetNode: a.want.node, TargetNodeAddresses: slices.Clone(a.want.addresses), DestinationCIDR: a.want.cidr,
	}
	if a.kind == replace {
		// In place means that all else stays, the cloud's spelling of the destination included.
		route.Name, route.DestinationCIDR, route.EnableNodeAddresses = a.old.Name, a.old.DestinationCIDR, a.old.EnableNodeAddresses
	}
	return route
}

// problem is why a want is not met, or hardly so. It is also the reason of the event that says so.
type problem string

const (
	// podCIDRConflict wants are for a destination that another node or Services have, or a part of one.
	podCIDRConflict problem = "PodCIDRConflict"
	// routeTableFull wants find no room in the cloud's route table.
	routeTableFull problem = "RouteTableFull"
	// routeTableNearlyFull wants are met, by one of the last routes for which there is room.
	routeTableNearlyFull problem = "RouteTableNearlyFull"
	// outsideClusterCIDRs wants are met, by routes that this controller will never remove.
	outsideClusterCIDRs problem = "PodCIDROutsideClusterCIDRs"
)

// notice is something that the owner of a node has to know.
type notice struct {
	problem problem
	want    want
	message string
}

// abilities are what the provider declares about its routes.
type abilities struct {
	// replaces says that it can change a route in place.
	replaces bool
	// maxRoutes is how many routes there can be; zero means unknown.
	maxRoutes int
}

// plan is what to do about the difference between what is desired and what is there.
type plan struct {
	// removals come first: they make room, and free destinations for others.
	removals []action
	// makes are replacements, then creations.
	makes []action
	// unmet are wants for which nothing can be done now; each has a notice.
	unmet []want
	// notices are the events to record about wants, met or not.
	notices []notice
	// withoutPodCIDRs are nodes of ours without pod CIDRs to which routes pointed.
	withoutPodCIDRs []types.NodeName
}

// nearlyFull is from which share of the declared limit on a new route is worth an event, in percent.
const nearlyFull = 90

// planner holds what makePlan works on.
type planner struct {
	desired
	abilities
	routes  map[destination][]*cloudprovider.Route
	holders map[destination]want          // what the node of ours wants that has a destination to itself
	old     map[*cloudprovider.Route]bool // routes that are replaced
	plan    plan
}

// makePlan compares what is desired with the complete list of the cluster's routes. Its result does not depend on the order
// of that list.
//
// See ADR 30.
func makePlan(d desired, routes []*cloudprovider.Route, can abilities) plan {
	p := &planner{
		desired: d, abilities: can, routes: map[destination][]*cloudprovider.Route{},
		holders: map[destination]want{}, old: map[*cloudprovider.Route]bool{},
	}
	// A route that is listed twice, because the pages of a list shifted, is one route.
	sorted := slices.CompactFunc(slices.SortedFunc(slices.Values(routes), byPlace),
		func(a, b *cloudprovider.Route) bool { return byPlace(a, b) == 0 })
	for _, route := range sorted {
		destination := destinationOf(route.DestinationCIDR)
		p.routes[destination] = append(p.routes[destination], route)
	}
	p.assign()
	creations := p.fulfill()
	var stay []*cloudprovider.Route
	for _, route := range sorted {
		if why, stale := p.stale(route); stale {
			p.plan.removals = append(p.plan.removals, action{kind: remove, old: route, why: why})
		} else {
			stay = append(stay, route)
		}
	}
	creations = append(creations, p.offer(stay)...)
	p.makeRoom(len(sorted)-len(p.plan.removals), creations)
	p.noteNodesWithoutPodCIDRs(sorted)
	return p.plan
}

// byPlace is a total order of routes: two that it calls equal are the same to everybody.
func byPlace(a, b *cloudprovider.Route) int {
	return cmp.Or(
		cmp.Compare(a.DestinationCIDR, b.DestinationCIDR),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.TargetNode, b.TargetNode),
	)
}

// assign gives each destination to one node and turns the others down. Pod CIDRs are unique in a sound cluster.
func (p *planner) assign() {
	claimants := map[destination][]want{}
	for _, w := range p.wants {
		claimants[w.destination] = append(claimants[w.destination], w)
	}
	others := p.overlapped()
	for _, w := range p.wants {
		winner := p.winner(w.destination, claimants[w.destination])
		other, overlaps := others[prefixes.Claim{Owner: string(w.node), Prefix: w.destination.prefix}]
		if services, overlaps := p.ofServices(w.destination); overlaps && !p.delivered(w) {
			p.plan.unmet = append(p.plan.unmet, w)
			p.notice(podCIDRConflict, w, fmt.Sprintf("The pod CIDR %s overlaps the range %s of Services, and gets no route: delete the node, "+
				"so it registers anew with a pod CIDR of its own", w.cidr, services))
			continue
		}
		if winner == w.node && overlaps && !p.delivered(w) {
			p.plan.unmet = append(p.plan.unmet, w)
			p.notice(podCIDRConflict, w, fmt.Sprintf("The pod CIDR %s overlaps %s of node %s, and gets no route: delete one of the two nodes, "+
				"so it registers anew with a pod CIDR of its own", w.cidr, other.Prefix, other.Owner))
			continue
		}
		if winner == w.node {
			p.holders[w.destination] = w
			continue
		}
		p.plan.unmet = append(p.plan.unmet, w)
		p.notice(podCIDRConflict, w, fmt.Sprintf("The pod CIDR %s belongs to node %s, too, which has the route: "+
			"delete one of the two nodes, so it registers anew with a pod CIDR of its own", w.cidr, winner))
	}
}

// overlapped returns the claims that overlap another node's which counts before them. A kubelet may register its node with any pod CIDR: a new
// route to a part of another node's would take its packets.
func (p *planner) overlapped() map[prefixes.Claim]prefixes.Claim {
	overlapped := map[prefixes.Claim]prefixes.Claim{}
	var held prefixes.Held
	for _, claim := range prefixes.Rank(p.claims) {
		if other, taken := held.Take(claim); !taken && other.Owner != claim.Owner && other.Prefix != claim.Prefix {
			overlapped[claim] = other
		}
	}
	return overlapped
}

// delivered reports whether a want has its route already. What works stays.
func (p *planner) delivered(w want) bool {
	return slices.ContainsFunc(p.routes[w.destination], func(r *cloudprovider.Route) bool { return r.TargetNode == w.node && !r.Blackhole })
}

// winner returns the node that gets a destination. The node that has the route keeps it, because taking it away would break what works. This includes
// nodes of other owners.
func (p *planner) winner(d destination, claimants []want) types.NodeName {
	for _, w := range claimants {
		if p.delivered(w) {
			return w.node
		}
	}
	for _, route := range p.routes[d] {
		if !route.Blackhole && p.spared(route) {
			return route.TargetNode
		}
	}
	return claimants[0].node
}

// spared reports whether a route leads to a pod CIDR of a node that is not ours, by that node.
func (p *planner) spared(route *cloudprovider.Route) bool {
	target, known := p.targets[route.TargetNode]
	return known && target.membership != ours && target.claims(destinationOf(route.DestinationCIDR))
}

// fulfill decides what becomes of each want that has its destination to itself, and returns the routes to create.
func (p *planner) fulfill() (creations []action) {
	for i := range p.wants {
		w := &p.wants[i]
		if p.holders[w.destination].node != w.node {
			continue
		}
		if !w.destination.within(p.clusterCIDRs) {
			p.notice(outsideClusterCIDRs, *w, fmt.Sprintf("The pod CIDR %s is not within --cluster-cidr: the route to it is made, "+
				"but will not be removed when the node is gone", w.cidr))
		}
		if slices.ContainsFunc(p.routes[w.destination], w.fits) {
			continue
		}
		if old := p.replaceable(*w); old != nil {
			p.old[old] = true
			p.plan.makes = append(p.plan.makes, action{kind: p.replacement(), old: old, want: w, why: w.unfit(old)})
			continue
		}
		creations = append(creations, action{kind: create, want: w, why: "the node has none to this pod CIDR"})
	}
	return creations
}

// offer returns the routes to create for nodes that are presumed to be ours. A pod CIDR gets a route only if no remaining route leads there and no
// other node has it. An existing route may belong to another owner.
func (p *planner) offer(stay []*cloudprovider.Route) (creations []action) {
	for i := range p.presumed {
		w := &p.presumed[i]
		switch {
		case slices.ContainsFunc(p.routes[w.destination], w.fits):
		case p.contested(*w, stay):
			p.plan.unmet = append(p.plan.unmet, *w)
		default:
			creations = append(creations, action{kind: create, want: w, why: "the node has none to this pod CIDR"})
		}
	}
	return creations
}

// contested reports whether a route, another node or Services have a part of what a want is for, or the want is outside the cluster's ranges.
func (p *planner) contested(w want, stay []*cloudprovider.Route) bool {
	for _, route := range stay {
		if destinationOf(route.DestinationCIDR).overlaps(w.destination) {
			return true
		}
	}
	for name, target := range p.targets {
		if name != w.node && slices.ContainsFunc(target.destinations, w.destination.overlaps) {
			return true
		}
	}
	_, ofServices := p.ofServices(w.destination)
	return ofServices || !w.destination.within(p.clusterCIDRs)
}

// fits reports whether a route to the want's destination is what is wanted.
func (w want) fits(route *cloudprovider.Route) bool { return w.unfit(route) == "" }

// unfit returns why a route to the want's destination is not what is wanted. Addresses count only where the provider says that
// it looks at them, as in the reference.
func (w want) unfit(route *cloudprovider.Route) string {
	switch {
	case route.Blackhole:
		return "it drops packets"
	case route.TargetNode != w.node:
		return "the pod CIDR is another node's now"
	case route.EnableNodeAddresses && !sameAddresses(route.TargetNodeAddresses, w.addresses):
		return "the node's addresses have changed"
	default:
		return ""
	}
}

// sameAddresses compares without regard to order.
func sameAddresses(a, b []corev1.NodeAddress) bool {
	return len(a) == len(b) && sets.New(a...).Equal(sets.New(b...))
}

// replaceable returns the route that makes way for a want: first one that still delivers, if only to an old address of the
// node, so this one is there until its replacement is. Nil: there is none that may be touched.
func (p *planner) replaceable(w want) *cloudprovider.Route {
	rank := func(r *cloudprovider.Route) int {
		switch {
		case r.Blackhole:
			return 2
		case r.TargetNode != w.node:
			return 1
		default:
			return 0
		}
	}
	var best *cloudprovider.Route
	for _, route := range p.routes[w.destination] {
		if w.destination.within(p.clusterCIDRs) && !p.spared(route) && (best == nil || rank(route) < rank(best)) {
			best = route
		}
	}
	return best
}

func (p *planner) replacement() kind {
	if p.replaces {
		return replace
	}
	return recreate
}

// stale reports whether a route has to go, and why. A route that is right stays even if another is right as well: a cloud may list it
// once for each of its tables, or in two spellings, and a deletion that goes by the destination would delete all of them.
func (p *planner) stale(route *cloudprovider.Route) (why string, stale bool) {
	d := destinationOf(route.DestinationCIDR)
	if p.old[route] || !d.within(p.clusterCIDRs) || p.spared(route) {
		return "", false
	}
	target, known := p.targets[route.TargetNode]
	holder, held := p.holders[d]
	switch {
	case held && holder.fits(route):
		return "", false
	case held:
		return "another route serves its destination", true
	case known && target.membership == ours:
		return "its node does not have this pod CIDR", true
	case known:
		return "", false
	case route.Blackhole:
		return "it drops packets", true
	case p.claimedByOthers(d):
		return "", false // the owner of that node may call it by another name in the cloud
	default:
		return "its node is gone", true
	}
}

// claimedByOthers reports whether a node that is not ours has pods in a destination.
func (p *planner) claimedByOthers(d destination) bool {
	for _, target := range p.targets {
		if target.membership != ours && slices.ContainsFunc(target.destinations, d.overlaps) {
			return true
		}
	}
	return false
}

// makeRoom plans the creations for which the cloud has room, given how many routes are there when the removals are through.
func (p *planner) makeRoom(occupied int, creations []action) {
	for _, creation := range creations {
		if p.maxRoutes > 0 && occupied >= p.maxRoutes {
			p.plan.unmet = append(p.plan.unmet, *creation.want)
			p.notice(routeTableFull, *creation.want, fmt.Sprintf("No room for the route to %s: the cloud takes %d routes for this "+
				"cluster, and all are in use; raise that limit or remove nodes", creation.want.cidr, p.maxRoutes))
			continue
		}
		occupied++
		p.plan.makes = append(p.plan.makes, creation)
		if p.maxRoutes > 0 && occupied*100 > p.maxRoutes*nearlyFull {
			p.notice(routeTableNearlyFull, *creation.want, fmt.Sprintf("The route to %s is number %d of %d that the cloud takes for "+
				"this cluster", creation.want.cidr, occupied, p.maxRoutes))
		}
	}
}

// noteNodesWithoutPodCIDRs finds the nodes of ours without pod CIDRs to which routes point.
func (p *planner) noteNodesWithoutPodCIDRs(routes []*cloudprovider.Route) {
	for _, route := range routes {
		target, known := p.targets[route.TargetNode]
		if known && target.membership == ours && len(target.destinations) == 0 && !slices.Contains(p.plan.withoutPodCIDRs, route.TargetNode) {
			p.plan.withoutPodCIDRs = append(p.plan.withoutPodCIDRs, route.TargetNode)
		}
	}
}

func (p *planner) notice(problem problem, w want, message string) {
	p.plan.notices = append(p.plan.notices, notice{problem: problem, want: w, message: message})
}
