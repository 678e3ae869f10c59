// Package pods decides which ranges of pod addresses are announced. A kubelet may name any range when it registers its node, so that
// what a Node claims is not believed where it would take traffic away from others.
package pods

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/mooring-ccm/mooring/providers/metal/announce/model"
)

// Input is everything that decides.
type Input struct {
	Nodes map[string]model.Node
	// Within are the ranges in which those of nodes have to be; none: anywhere.
	Within []netip.Prefix
	// PoolOverlap returns the name of a pool with addresses in a range, or empty if no pool has any. Nil: there are no pools.
	PoolOverlap func(netip.Prefix) string
}

// Ranges are those of one node.
type Ranges struct {
	// Announced are sorted as in the Node.
	Announced []netip.Prefix
	Problems  []model.PodProblem
}

// address is one of a node.
type address struct {
	addr netip.Addr
	node string
}

// Desired returns which ranges of each node are announced, and why others are not. They follow the Node object alone: a node that
// does not answer may have pods that do, and no other node has them. Of nodes that claim the same range the one that was there
// first has it.
func Desired(in Input) map[string]Ranges {
	result := make(map[string]Ranges, len(in.Nodes))
	owners := map[netip.Prefix]string{}
	taken := in.addresses()
	seniority := func(a, b model.Node) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) }
	for _, node := range slices.SortedFunc(maps.Values(in.Nodes), seniority) {
		var ranges Ranges
		for _, cidr := range node.PodCIDRs {
			cidr = cidr.Masked()
			owner, owned := owners[cidr]
			problem := in.problem(cidr, taken)
			switch {
			case problem != nil:
				ranges.Problems = append(ranges.Problems, *problem)
			case owned && owner != node.Name:
				ranges.Problems = append(ranges.Problems, model.PodProblem{CIDR: cidr, Reason: model.PodsOfOtherNode, Owner: owner})
			case !node.Address(model.FamilyOf(cidr.Addr())).IsValid():
				ranges.Problems = append(ranges.Problems, model.PodProblem{CIDR: cidr, Reason: model.PodsWithoutAddress})
			case !owned:
				owners[cidr] = node.Name
				ranges.Announced = append(ranges.Announced, cidr)
			}
		}
		result[node.Name] = ranges
	}
	return result
}

// addresses returns those of all nodes, sorted.
func (in Input) addresses() []address {
	var all []address
	for name, node := range in.Nodes {
		for _, addr := range node.Addresses {
			all = append(all, address{addr, name})
		}
	}
	slices.SortFunc(all, func(a, b address) int { return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.node, b.node)) })
	return all
}

// problem returns why a range is nobody's pods, nil if nothing speaks against it. Where the ranges of pods are known, an InternalIP
// within them is not held against anybody's pods: that is the word of a kubelet too.
func (in Input) problem(cidr netip.Prefix, taken []address) *model.PodProblem {
	inside := func(within netip.Prefix) bool { return within.Bits() <= cidr.Bits() && within.Contains(cidr.Addr()) }
	if len(in.Within) > 0 && !slices.ContainsFunc(in.Within, inside) {
		return &model.PodProblem{CIDR: cidr, Reason: model.PodsOutside}
	}
	next, _ := slices.BinarySearchFunc(taken, cidr.Addr(), func(a address, addr netip.Addr) int { return a.addr.Compare(addr) })
	if len(in.Within) == 0 && next < len(taken) && cidr.Contains(taken[next].addr) {
		return &model.PodProblem{CIDR: cidr, Reason: model.PodsOverNode, Owner: taken[next].node}
	}
	if in.PoolOverlap != nil {
		if pool := in.PoolOverlap(cidr); pool != "" {
			return &model.PodProblem{CIDR: cidr, Reason: model.PodsOverPool, Owner: pool}
		}
	}
	return nil
}
