package bgp

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/osrg/gobgp/v4/api"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

const (
	// importPolicy lets in what the speaker announces itself. The library asks it of its own paths, too, so "reject" alone
	// would announce nothing.
	importPolicy = "own-paths"
	exportPolicy = "per-peer-attributes"
)

// policies returns what the library is to let in and what it is to add for single routers. The paths of a router that has a table
// of its own have its attributes already.
func policies(s *settings) (*api.SetPoliciesRequest, error) {
	request := &api.SetPoliciesRequest{Policies: []*api.Policy{{
		Name: importPolicy,
		Statements: []*api.Statement{{
			Name:       importPolicy,
			Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
			Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
		}},
	}}}
	export := &api.Policy{Name: exportPolicy}
	for i := range s.peers {
		peer := &s.peers[i]
		if s.neighbors[peer.Addr()].name != peer.Name || s.groups[peer.Name] != "" {
			continue // a router that is added later brings the policies up to date
		}
		actions, err := peerActions(peer.BGPAttributes)
		if err != nil {
			return nil, fmt.Errorf("peer %s: %w", peer.Name, err)
		}
		if actions == nil {
			continue
		}
		addr := peer.Addr()
		name := "peer-" + addr.String()
		request.DefinedSets = append(request.DefinedSets, &api.DefinedSet{
			DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, Name: name,
			List: []string{netip.PrefixFrom(addr, addr.BitLen()).String()},
		})
		export.Statements = append(export.Statements, &api.Statement{
			Name:       name,
			Conditions: &api.Conditions{NeighborSet: &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: name}},
			Actions:    actions,
		})
	}
	request.Policies = append(request.Policies, export)
	return request, nil
}

// peerActions returns what is done to each path to a router, or nil for nothing.
func peerActions(attributes config.BGPAttributes) (*api.Actions, error) {
	standard, large, err := attributes.ParseCommunities()
	if err != nil {
		return nil, err
	}
	if len(standard)+len(large) == 0 && attributes.LocalPreference == nil {
		return nil, nil
	}
	actions := &api.Actions{}
	if len(standard) > 0 {
		actions.Community = &api.CommunityAction{Type: api.CommunityAction_TYPE_ADD}
		for _, community := range standard {
			actions.Community.Communities = append(actions.Community.Communities, strconv.FormatUint(uint64(community), 10))
		}
	}
	if len(large) > 0 {
		actions.LargeCommunity = &api.CommunityAction{Type: api.CommunityAction_TYPE_ADD}
		for _, community := range large {
			actions.LargeCommunity.Communities = append(actions.LargeCommunity.Communities, community.String())
		}
	}
	if attributes.LocalPreference != nil {
		actions.LocalPref = &api.LocalPrefAction{Value: *attributes.LocalPreference}
	}
	return actions, nil
}

// assignments put the policies in force. Whatever a router announces is rejected.
func assignments() []*api.PolicyAssignment {
	return []*api.PolicyAssignment{
		{
			Direction: api.PolicyDirection_POLICY_DIRECTION_IMPORT, Policies: []*api.Policy{{Name: importPolicy}},
			DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
		},
		{
			Direction: api.PolicyDirection_POLICY_DIRECTION_EXPORT, Policies: []*api.Policy{{Name: exportPolicy}},
			DefaultAction: api.RouteAction_ROUTE_ACTION_ACCEPT,
		},
	}
}
