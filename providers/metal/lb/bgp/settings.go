package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// identity is what every session of a speaker has in common. Another one is another speaker.
type identity struct {
	asn        uint32
	routerID   netip.Addr
	listenPort int32
	mode       config.BGPMode
	restart    time.Duration
}

// settings is a section of the configuration with what it refers to.
type settings struct {
	config   config.BGP
	identity identity
	// peers are the routers of the section, with the addresses at which they are.
	peers     []config.BGPPeer
	neighbors map[netip.Addr]neighbor
	// own are the groups of routers at the other ends of links, by their names.
	own map[string]bool
	// groups are the names of the groups of the routers that have a table of their own, by the routers' names.
	groups map[string]string
	// missing says of a router what this replica lacks for the session: there is none, or it goes on with what was known before.
	missing map[netip.Addr][]failure
	// elsewhere are the routers with which only other replicas are to have a session, by their names.
	elsewhere map[string]OtherPeer
	// labels are those of the replica's node when it was known last; nil before, and where no router selects nodes.
	labels map[string]string
	// pools holds the attributes of the pools that were asked for, as something to compare.
	pools map[string]string
}

// newSettings reads what a section refers to. What this machine cannot say at the moment stays what it was; what it never said
// leaves the router out, since a session without it would be another than the one that is asked for.
func newSettings(section config.BGP, before settings, machine Machine) (settings, error) {
	s := settings{
		config:    section,
		identity:  identity{section.ASN, section.RouterAddr(), section.ListenPort, section.Mode, section.RestartTime.Duration},
		neighbors: make(map[netip.Addr]neighbor, len(section.Peers)),
		groups:    map[string]string{},
		own:       map[string]bool{},
		missing:   map[netip.Addr][]failure{},
		elsewhere: map[string]OtherPeer{},
		pools:     map[string]string{},
	}
	var noNode error
	s.labels, noNode = machine.ownLabels(&section, before.labels)
	machine.Addresses = sync.OnceValues(machine.Addresses)
	for _, group := range section.Groups() {
		s.own[group.Name] = group.OwnNode
		for _, name := range group.Peers {
			s.groups[name] = group.Name
		}
	}
	known := map[string]netip.Addr{}
	for i := range before.peers {
		known[before.peers[i].Name] = before.peers[i].Addr()
	}
	peers, nowhere := machine.located(section.Peers, known)
	s.peers = peers
	taken := map[netip.Addr]bool{}
	for i := range peers {
		peer := &peers[i]
		addr := peer.Addr()
		if !addr.IsValid() {
			return s, fmt.Errorf("peer %s: %q is not an address", peer.Name, peer.Address)
		}
		if taken[addr] && len(peer.NodeSelectors) == 0 {
			return s, fmt.Errorf("peer %s: there is another one with the address %s", peer.Name, addr)
		}
		takesPart := partOf(peer, s.labels)
		if takesPart == leaves || taken[addr] {
			s.elsewhere[peer.Name] = OtherPeer{Name: peer.Name, Families: peer.Families}
			continue
		}
		taken[addr] = true
		if err := nowhere[addr]; err != nil {
			what := NoGateway
			if peer.Interface != "" {
				what = NoRouter
			}
			s.lacks(addr, what, err)
			continue
		}
		if noNode != nil && len(peer.NodeSelectors) > 0 {
			s.lacks(addr, NoNode, noNode)
		}
		n := newNeighbor(peer, addr, s.groups[peer.Name])
		known := before.neighbors[addr].session
		if known.asn != n.session.asn {
			known = session{} // another rack's router of the same address
		}
		if s.complete(&n.session, peer, known, machine) && takesPart == serves {
			s.neighbors[addr] = n
		}
	}
	return s, nil
}

// lacks remembers what this replica lacks for the session with a router.
func (s *settings) lacks(addr netip.Addr, what Problem, err error) {
	s.missing[addr] = append(s.missing[addr], failure{what, err.Error()})
}

// complete puts into a session what this machine has to say about it, and reports whether that is all there.
func (s *settings) complete(of *session, peer *config.BGPPeer, before session, machine Machine) bool {
	var noSource, noPassword error
	if of.source, noSource = sourceOf(peer, before.source, machine.Addresses); noSource != nil {
		s.lacks(peer.Addr(), NoSource, noSource)
	}
	if of.password, noPassword = machine.password(peer.PasswordFile); noPassword != nil {
		s.lacks(peer.Addr(), NoPassword, fmt.Errorf("its password cannot be read: %w", noPassword))
		of.password = before.password
	}
	return noSource == nil && (noPassword == nil || before.password != "")
}

// newNeighbor returns a router that is served from the table of a group.
func newNeighbor(peer *config.BGPPeer, addr netip.Addr, group string) neighbor {
	n := neighbor{
		name: peer.Name,
		addr: addr,
		session: session{
			group: group, asn: peer.ASN, external: peer.DynamicASN == config.ExternalASN, localASN: peer.LocalASN, minTTL: minTTL(peer.TTLSecurityHops),
			port: peer.Port, multihop: peer.EBGPMultihop, source: peer.SourceAddr(),
			ipv4: slices.Contains(peer.Families, config.IPv4), ipv6: slices.Contains(peer.Families, config.IPv6),
		},
		timers: timers{
			hold:         uint64(peer.HoldTime.Seconds()),
			keepalive:    uint64(peer.KeepaliveTime.Seconds()),
			connectRetry: uint64(peer.ConnectRetry.Seconds()),
		},
	}
	if group == "" {
		n.attributes = key(peer.BGPAttributes)
	}
	if peer.BFD != nil {
		n.timers.bfd = true
		n.timers.bfdTransmit = uint32(peer.BFD.TransmitInterval.Microseconds())
		n.timers.bfdReceive = uint32(peer.BFD.ReceiveInterval.Microseconds())
		n.timers.bfdMultiplier = uint32(peer.BFD.Multiplier)
	}
	return n
}

// ports returns the TCP ports of the sessions: the routers', and the speaker's own if it listens.
func (s *settings) ports() map[uint16]bool {
	ports := map[uint16]bool{}
	for _, n := range s.neighbors {
		ports[uint16(n.session.port)] = true
	}
	if s.identity.listenPort > 0 {
		ports[uint16(s.identity.listenPort)] = true
	}
	return ports
}

// minTTL returns the least TTL of packets from a router that is at most so many hops away and sends with 255 (RFC 5082); 0 for any.
func minTTL(hops int32) int32 {
	if hops == 0 {
		return 0
	}
	return 256 - hops
}

// attributes returns what goes with the addresses of a pool, as something to compare.
func (s *settings) attributes(pool string) string {
	attributes, found := s.pools[pool]
	if !found {
		attributes = key(s.config.Attributes(pool))
		s.pools[pool] = attributes
	}
	return attributes
}

// key returns attributes as something to compare. It is empty for none.
func key(attributes config.BGPAttributes) string {
	var text strings.Builder
	text.WriteString(strings.Join(attributes.Communities, ","))
	if attributes.LocalPreference != nil {
		fmt.Fprintf(&text, "|%d", *attributes.LocalPreference)
	}
	return text.String()
}

func (m Machine) password(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := m.ReadFile(file)
	if err != nil {
		return "", err
	}
	password, err := config.Password(content)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return password, nil
}

// errNoRouterID says that there is nothing to derive a BGP identifier from.
var errNoRouterID = errors.New("no router ID: this machine reaches no peer and has no address; set routerID")

// identify returns the settings' identity with a router ID.
func (s *settings) identify(derive func([]netip.Addr) netip.Addr) (identity, error) {
	id := s.identity
	if id.routerID.IsValid() {
		return id, nil
	}
	peers := make([]netip.Addr, 0, len(s.peers))
	for i := range s.peers {
		peer := &s.peers[i]
		if peer.Addr().WithZone("").IsUnspecified() {
			continue // one that is not found yet is at no address from which anything follows
		}
		peers = append(peers, cmp.Or(s.neighbors[peer.Addr()].session.source, peer.SourceAddr(), peer.Addr()))
	}
	if id.routerID = derive(peers); !id.routerID.IsValid() {
		return id, errNoRouterID
	}
	return id, nil
}
