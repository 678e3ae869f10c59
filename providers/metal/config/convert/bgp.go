package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// convertBGP converts peers and the advertisements to them. Without an advertisement MetalLB announces nothing, and a section bgp
// everything: there is none then.
func (c *conversion) convertBGP() {
	defer c.unused()
	if len(c.from.peers) == 0 {
		for i := range c.from.bgpAdverts {
			c.notes.add(Lost, c.from.bgpAdverts[i].name(), "", "there is no BGPPeer; the config has no section bgp")
		}
		return
	}
	if len(c.from.bgpAdverts) == 0 {
		for i := range c.from.peers {
			c.notes.add(Lost, c.from.peers[i].name(), "", "MetalLB announces nothing to it without a BGPAdvertisement; the config has no section bgp")
		}
		return
	}
	c.config.BGP = &config.BGP{ASN: c.usualASN()}
	selectors := map[string][]metav1.LabelSelector{}
	for i := range c.from.peers {
		from := &c.from.peers[i]
		peer, taken := c.peer(from)
		if !taken {
			c.leftOut = append(c.leftOut, from.name())
			continue
		}
		c.config.BGP.Peers = append(c.config.BGP.Peers, peer)
		if len(from.Spec.NodeSelectors) > 0 {
			selectors[peer.Name] = from.Spec.NodeSelectors
		}
	}
	if len(c.config.BGP.Peers) == 0 {
		c.notes.add(Lost, "BGPPeer", "", "none has a counterpart; the config has no section bgp")
		for i := range c.from.bgpAdverts {
			c.notes.add(Lost, c.from.bgpAdverts[i].name(), "", "there is no section bgp")
		}
		c.config.BGP = nil
		return
	}
	c.selectReplicas()
	c.convertAliases()
	for i := range c.from.bgpAdverts {
		c.advertise(&c.from.bgpAdverts[i], selectors)
	}
	if len(c.config.BGP.Advertisements) == 0 {
		c.notes.add(Lost, "BGPAdvertisement", "", "none has a counterpart; the config has no section bgp")
		c.config.BGP = nil
		return
	}
	c.config.Announcement.PodRoutes = ptr.To(false) // as in MetalLB
	c.notes.add(Info, "the cloud config", "announcement.clusterNextHops", "an address of a Service with externalTrafficPolicy Cluster is announced with 8 nodes at most, "+
		"and in MetalLB with all that its advertisements select")
	c.notes.add(Action, "BGPPeer", "", "routers get one session from each replica of Mooring, with ADD-PATH, and none from the nodes: "+
		"configure the addresses of the replicas as neighbors (docs/how-to/metal-routers.md)")
}

// usualASN is the autonomous system that most peers have for the speaker, of several the one of the first.
func (c *conversion) usualASN() uint32 {
	counts := map[uint32]int{}
	for i := range c.from.peers {
		counts[c.from.peers[i].ownASN()]++
	}
	usual := c.from.peers[0].ownASN()
	for i := range c.from.peers {
		if asn := c.from.peers[i].ownASN(); counts[asn] > counts[usual] {
			usual = asn
		}
	}
	return usual
}

// ownASN is the autonomous system that the speaker has for a peer.
func (p *bgpPeer) ownASN() uint32 { return cmp.Or(p.Spec.LocalASN, p.Spec.MyASN) }

// unused notes the profiles and communities that are not in the config: profiles that no peer names, and all without a section bgp.
func (c *conversion) unused() {
	for i := range c.from.bfd {
		name := c.from.bfd[i].Metadata.Name
		if !slices.ContainsFunc(c.from.peers, func(peer bgpPeer) bool { return peer.Spec.BFDProfile == name }) {
			c.notes.add(Info, c.from.bfd[i].name(), "", "no BGPPeer names it")
		} else if c.config.BGP == nil {
			c.notes.add(Lost, c.from.bfd[i].name(), "", "there is no section bgp")
		}
	}
	for i := range c.from.communities {
		if c.config.BGP == nil {
			c.notes.add(Lost, c.from.communities[i].name(), "", "there is no section bgp")
		}
	}
}

// convertAliases converts the names of communities.
func (c *conversion) convertAliases() {
	aliases := map[string]string{}
	for i := range c.from.communities {
		from := &c.from.communities[i]
		for j, alias := range from.Spec.Communities {
			value := communityValue(alias.Value)
			if other, taken := aliases[alias.Name]; taken && other != value {
				c.notes.add(Lost, from.name(), fmt.Sprintf("spec.communities[%d]", j), "%s is %s already", alias.Name, other)
				continue
			}
			aliases[alias.Name] = value
		}
	}
	if len(aliases) > 0 {
		c.config.BGP.CommunityAliases = aliases
	}
}

// communityValue is a community as we write it: large ones have three numbers, which says enough.
func communityValue(text string) string { return strings.TrimPrefix(text, "large:") }

// advertise converts an advertisement: one for the peers without nodes of their own, and one for each group of peers that only some nodes
// have, restricted to these. In MetalLB a node announces itself over its own sessions only.
func (c *conversion) advertise(from *bgpAdvertisement, selectors map[string][]metav1.LabelSelector) {
	note := c.notes.of(from.name())
	made := config.BGPAdvertisement{Name: from.Metadata.Name, ServiceSelectors: from.Spec.ServiceSelectors, NodeSelectors: from.Spec.NodeSelectors}
	pools, all := c.selected(from.Spec.IPAddressPools, from.Spec.IPAddressPoolSelectors, note)
	if !all && len(pools) == 0 {
		note(Lost, "", "selects no pool, and is left out")
		return
	}
	made.Pools = pools
	if from.Spec.LocalPref > 0 {
		made.LocalPreference = ptr.To(from.Spec.LocalPref)
	}
	for i, text := range from.Spec.Communities {
		made.Communities = c.community(made.Communities, text, fmt.Sprintf("spec.communities[%d]", i), note)
	}
	if length := from.Spec.AggregationLength; length != nil && *length != 32 {
		made.AggregationLength = *length
	}
	if length := from.Spec.AggregationLengthV6; length != nil && *length != 128 {
		made.AggregationLengthV6 = *length
	}
	if from.Spec.ASPathPrepend > 0 {
		note(Lost, "spec.asPathPrepend", "the AS path is not lengthened; a community or a local preference may say the same to the router")
	}
	peers := c.peersOf(from, note)
	if len(peers) == 0 {
		note(Lost, "", "none of its peers is in the config; it is left out")
		return
	}
	c.add(from, made, peers, selectors, note)
}

// add adds an advertisement to the peers, by groups of those whose nodes are the same.
func (c *conversion) add(from *bgpAdvertisement, made config.BGPAdvertisement, peers []string, selectors map[string][]metav1.LabelSelector,
	note note) {
	var everywhere []string
	for _, peer := range peers {
		if len(selectors[peer]) == 0 {
			everywhere = append(everywhere, peer)
		}
	}
	if len(everywhere) > 0 {
		general := made
		if len(everywhere) < len(c.config.BGP.Peers) {
			general.Peers = everywhere
		}
		c.append(from, general)
	}
	for _, peer := range peers {
		if len(selectors[peer]) == 0 {
			continue
		}
		some := made
		some.Name, some.Peers = from.Metadata.Name+"-"+peer, []string{peer}
		if some.NodeSelectors = both(made.NodeSelectors, selectors[peer]); len(some.NodeSelectors) == 0 {
			note(Info, "spec.nodeSelectors", "select no node that the BGPPeer %s selects too, so nothing is announced to it", peer)
			continue
		}
		c.append(from, some)
	}
}

func (c *conversion) append(from *bgpAdvertisement, made config.BGPAdvertisement) {
	c.config.BGP.Advertisements = append(c.config.BGP.Advertisements, made)
	c.advertised = append(c.advertised, from.name())
}

// peersOf returns the names of the peers of an advertisement that are in the config.
func (c *conversion) peersOf(from *bgpAdvertisement, note note) []string {
	var names []string
	for i := range c.config.BGP.Peers {
		names = append(names, c.config.BGP.Peers[i].Name)
	}
	if len(from.Spec.Peers) == 0 {
		return names
	}
	var found []string
	for i, name := range from.Spec.Peers {
		if !slices.Contains(names, name) {
			note(Lost, fmt.Sprintf("spec.peers[%d]", i), "the BGPPeer %q is not in the config", name)
			continue
		}
		found = appendNew(found, name)
	}
	return found
}

// community appends a community, by its alias if it has one.
func (c *conversion) community(to []string, text, field string, note note) []string {
	value := communityValue(text)
	_, isAlias := c.config.BGP.CommunityAliases[value]
	if _, _, err := (config.BGPAttributes{Communities: []string{value}}).ParseCommunities(); err != nil && !isAlias {
		note(Lost, field, "%q is neither a community nor the name of one in a Community", text)
		return to
	}
	return appendNew(to, value)
}

// both returns selectors of what one of each list selects: one for each pair that does not contradict itself. An empty list selects
// everything.
func both(a, b []metav1.LabelSelector) []metav1.LabelSelector {
	if len(a) == 0 {
		return b
	}
	var pairs []metav1.LabelSelector
	for _, first := range a {
		for _, second := range b {
			merged := metav1.LabelSelector{
				MatchLabels:      maps.Clone(first.MatchLabels),
				MatchExpressions: slices.Concat(first.MatchExpressions, second.MatchExpressions),
			}
			contradicts := false
			for label, value := range second.MatchLabels {
				if other, there := merged.MatchLabels[label]; there && other != value {
					contradicts = true
				}
				if merged.MatchLabels == nil {
					merged.MatchLabels = map[string]string{}
				}
				merged.MatchLabels[label] = value
			}
			if !contradicts {
				pairs = append(pairs, merged)
			}
		}
	}
	return pairs
}
