package bgp

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

// encoder makes the library's paths. Those of one pool, and those with the same attributes of their own, share these.
type encoder struct {
	settings *settings
	shared   map[attributed][]bgp.PathAttributeInterface
}

// attributed is what decides on the attributes of a path: its own, or else the pool.
type attributed struct {
	pool string
	own  ownAttributes
}

func newEncoder(s *settings) *encoder {
	return &encoder{settings: s, shared: map[attributed][]bgp.PathAttributeInterface{}}
}

// encode returns paths to announce, or to withdraw.
func (e *encoder) encode(group string, paths []path, withdrawal bool) ([]*apiutil.Path, error) {
	paths = slices.SortedStableFunc(slices.Values(paths), func(a, b path) int { return cmp.Compare(turn(a, withdrawal), turn(b, withdrawal)) })
	encoded := make([]*apiutil.Path, 0, len(paths))
	for _, p := range paths {
		one, err := e.path(p, withdrawal, e.settings.own[group])
		if err != nil {
			return nil, fmt.Errorf("encode the path to %s by %s: %w", p.prefix, p.hop.addr, err)
		}
		encoded = append(encoded, one)
	}
	return encoded, nil
}

// turn is when a path is announced or withdrawn: the lowest comes first. The best path of a destination is to change once. So what is announced
// and preferred comes before what is not, and what is withdrawn, or announced as worse than it was, the other way around. Otherwise a router
// without ADD-PATH is sent several paths in a row, and the library may send the last one before the others.
func turn(p path, withdrawal bool) int64 {
	if withdrawal || p.uncertain {
		return -age(p)
	}
	return age(p)
}

func (e *encoder) path(p path, withdrawal, own bool) (*apiutil.Path, error) {
	nlri, err := bgp.NewIPAddrPrefix(p.prefix)
	if err != nil {
		return nil, err
	}
	nextHop, err := nextHopAttribute(nlri, p, own)
	if err != nil {
		return nil, err
	}
	shared, err := e.attributes(attributed{p.pool, p.own})
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{
		Family:     familyOf(p.prefix.Addr()),
		Nlri:       nlri,
		RemoteID:   p.hop.id,
		Age:        age(p),
		Withdrawal: withdrawal,
		Attrs:      append(append([]bgp.PathAttributeInterface{origin(p.uncertain)}, shared...), nextHop),
	}, nil
}

// age returns when the library is to take a path for received, in seconds since 1970. Of paths that are equal otherwise it prefers the
// oldest, and sends that one to a router without ADD-PATH. Each destination prefers another next hop, by rendezvous hashing: such a router
// would otherwise send everything to one node. Every replica prefers the same next hop, and a next hop that goes or comes moves no other
// destination. The age is compared within this process only, and no router sees it. See ADR 91.
func age(p path) int64 {
	prefix, hop := p.prefix.Addr().As16(), p.hop.addr.As16()
	return math.MaxUint32 - int64(routing.Hash(string(prefix[:])+string(byte(p.prefix.Bits()))+string(hop[:]))>>32)
}

// origin returns the attribute by which routers prefer the paths of a replica that sees to the paths of a replica that does not (RFC 4271
// section 9.1.2.2). Routers compare it after local preference and the length of the AS path. So it decides among replicas of one cluster
// only, not between clusters that announce the same address with other preferences. See ADR 90.
func origin(uncertain bool) bgp.PathAttributeInterface {
	if uncertain {
		return bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_INCOMPLETE)
	}
	return bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP)
}

// nextHopAttribute says where traffic goes: for IPv4 the attribute of its own (RFC 4271), for IPv6 within MP_REACH_NLRI
// (RFC 4760). Own says that it goes to this machine, over a link: the library then puts its address of the session in the place of an
// unspecified one, for IPv4 too (RFC 8950).
func nextHopAttribute(nlri *bgp.IPAddrPrefix, p path, own bool) (bgp.PathAttributeInterface, error) {
	hop := p.hop.addr
	if own && hop.Is4() {
		hop = netip.IPv4Unspecified()
	} else if own {
		hop = netip.IPv6Unspecified()
	}
	if p.prefix.Addr().Is4() {
		return bgp.NewPathAttributeNextHop(hop)
	}
	return bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, []bgp.PathNLRI{{NLRI: nlri, ID: p.hop.id}}, hop)
}

// attributes returns what all such paths have.
func (e *encoder) attributes(of attributed) ([]bgp.PathAttributeInterface, error) {
	if shared, found := e.shared[of]; found {
		return shared, nil
	}
	attributes := e.settings.config.Attributes(of.pool)
	if of.own.set {
		attributes = config.BGPAttributes{
			Communities: strings.Fields(of.own.Communities), LocalPreference: &of.own.LocalPreference,
		}
	}
	standard, large, err := attributes.ParseCommunities()
	if err != nil {
		return nil, err
	}
	shared := []bgp.PathAttributeInterface{
		bgp.NewPathAttributeLocalPref(*attributes.LocalPreference),
	}
	if len(standard) > 0 {
		shared = append(shared, bgp.NewPathAttributeCommunities(standard))
	}
	if len(large) > 0 {
		shared = append(shared, bgp.NewPathAttributeLargeCommunities(encodeLarge(large)))
	}
	e.shared[of] = shared
	return shared, nil
}

func encodeLarge(communities []config.LargeCommunity) []*bgp.LargeCommunity {
	encoded := make([]*bgp.LargeCommunity, len(communities))
	for i, community := range communities {
		encoded[i] = bgp.NewLargeCommunity(community.Global, community.Local1, community.Local2)
	}
	return encoded
}

func familyOf(addr netip.Addr) bgp.Family {
	if addr.Is4() {
		return bgp.RF_IPv4_UC
	}
	return bgp.RF_IPv6_UC
}
