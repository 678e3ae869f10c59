// Package pods decides which ranges of pod addresses are announced. A kubelet may name any range when it registers its node, so
// what a Node claims is not believed where it would take traffic away from others.
package pods

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/mooring-ccm/mooring/internal/prefixes"
	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

// Input is everything that decides.
type Input struct {
	Nodes map[string]model.Node
	// Within are the ranges in which those of nodes have to be; none: nothing is announced.
	Within []netip.Prefix
	// PoolOverlap returns the name of a pool with addresses in a range, or empty if no pool has any. Nil: there are no pools.
	PoolOverlap func(netip.Prefix) string
}

// Ranges are those of one node.
type Ranges struct {
	Announced []netip.Prefix
	Problems  []model.PodProblem
}

// Desired returns which ranges of each node are announced, and why others are not. They follow the Node object alone: a node that
// does not answer may have pods that do, and no other node has them. Of nodes whose claims overlap the one that was there first has its own,
// unless its length is unusual in the cluster.
func Desired(in Input) map[string]Ranges {
	result := make(map[string]Ranges, len(in.Nodes))
	seniority := func(a, b model.Node) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) }
	var claims []prefixes.Claim
	for _, node := range slices.SortedFunc(maps.Values(in.Nodes), seniority) {
		var ranges Ranges
		for _, cidr := range node.PodCIDRs {
			cidr = cidr.Masked()
			problem := in.problem(cidr)
			switch {
			case problem != nil:
				ranges.Problems = append(ranges.Problems, *problem)
			case !node.Address(model.FamilyOf(cidr.Addr())).IsValid():
				ranges.Problems = append(ranges.Problems, model.PodProblem{CIDR: cidr, Reason: model.PodsWithoutAddress})
			default:
				claims = append(claims, prefixes.Claim{Owner: node.Name, Prefix: cidr})
			}
		}
		result[node.Name] = ranges
	}
	var held prefixes.Held
	for _, claim := range prefixes.Rank(claims) {
		ranges := result[claim.Owner]
		switch other, taken := held.Take(claim); {
		case taken:
			ranges.Announced = append(ranges.Announced, claim.Prefix)
		case other != claim:
			ranges.Problems = append(ranges.Problems, model.PodProblem{CIDR: claim.Prefix, Reason: model.PodsOfOtherNode, Owner: other.Owner})
		}
		result[claim.Owner] = ranges
	}
	return result
}

// The lengths that the range of a node's pods may have: one address, or a part of the Internet, is none.
const (
	minBits4, maxBits4 = 16, 30
	minBits6, maxBits6 = 48, 126
)

// problem returns why a range cannot be the pods of a node, nil if nothing speaks against it. An InternalIP within the ranges of pods
// speaks against no range: a kubelet chooses it, too.
func (in Input) problem(cidr netip.Prefix) *model.PodProblem {
	inside := func(within netip.Prefix) bool { return within.Bits() <= cidr.Bits() && within.Contains(cidr.Addr()) }
	if !slices.ContainsFunc(in.Within, inside) {
		return &model.PodProblem{CIDR: cidr, Reason: model.PodsOutside}
	}
	least, most := minBits4, maxBits4
	if cidr.Addr().Is6() {
		least, most = minBits6, maxBits6
	}
	if cidr.Bits() < least || cidr.Bits() > most {
		return &model.PodProblem{CIDR: cidr, Reason: model.PodsOfNoNode}
	}
	if in.PoolOverlap != nil {
		if pool := in.PoolOverlap(cidr); pool != "" {
			return &model.PodProblem{CIDR: cidr, Reason: model.PodsOverPool, Owner: pool}
		}
	}
	return nil
}
