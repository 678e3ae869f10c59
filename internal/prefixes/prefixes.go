// Package prefixes says whose ranges of addresses are whose, where each is only claimed: kubelets may register nodes with any.
package prefixes

import (
	"net/netip"
	"slices"
)

// Claim is a range that an owner claims to have.
type Claim struct {
	Owner  string
	Prefix netip.Prefix
}

// Rank orders claims, which come in the order of their seniority, by how they count. In each family, claims with the most frequent prefix length come
// first. A single claim of a broad or a narrow range therefore never goes before all others. If several lengths are equally frequent, the length of
// the senior claim counts.
func Rank(claims []Claim) []Claim {
	counts, usual := map[length]int{}, map[bool]length{}
	for _, claim := range claims {
		counts[lengthOf(claim.Prefix)]++
	}
	for _, claim := range claims {
		of := lengthOf(claim.Prefix)
		if best, found := usual[of.is4]; !found || counts[of] > counts[best] {
			usual[of.is4] = of
		}
	}
	ranked := slices.Clone(claims)
	slices.SortStableFunc(ranked, func(a, b Claim) int {
		return unusual(a, usual) - unusual(b, usual)
	})
	return ranked
}

// length is one of prefixes of a family.
type length struct {
	is4  bool
	bits int
}

func lengthOf(prefix netip.Prefix) length { return length{prefix.Addr().Is4(), prefix.Bits()} }

func unusual(claim Claim, usual map[bool]length) int {
	if of := lengthOf(claim.Prefix); usual[of.is4] == of {
		return 0
	}
	return 1
}

// Held are ranges no two of which overlap. The zero value has none.
type Held struct {
	claims []Claim // in the order of addresses
}

// Take gives a range to who claims it, unless it overlaps one that is held: then it returns that one.
func (h *Held) Take(claim Claim) (other Claim, taken bool) {
	at, _ := slices.BinarySearchFunc(h.claims, claim, func(a, b Claim) int { return a.Prefix.Addr().Compare(b.Prefix.Addr()) })
	// The one before may hold this range, the one after may be a part of it.
	for i := max(at-1, 0); i < min(at+1, len(h.claims)); i++ {
		if h.claims[i].Prefix.Overlaps(claim.Prefix) {
			return h.claims[i], false
		}
	}
	h.claims = slices.Insert(h.claims, at, claim)
	return Claim{}, true
}
