package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// Machine is what a speaker asks about the machine that it runs on. It asks again with each look at the password files, so its
// answers may change. Its functions do not wait for anything.
type Machine struct {
	// Addresses returns the machine's own addresses, the primary one of an interface before what was added to it. Default: those of
	// the network namespace.
	Addresses func() ([]netip.Addr, error)
	// Gateway returns the gateway of the default route of a family. Default: as the network namespace has it.
	Gateway func(ipv6 bool) (netip.Addr, error)
	// Link returns what is at the other end of an interface, and Greet asks for it. Default: as the network namespace has it.
	Link  func(name string) (Link, error)
	Greet func(name string) error
	// NodeLabels returns the labels of the node on which the speaker runs, nil as long as nodes are being listed. The error says why
	// the node is not known. Default: it never is.
	NodeLabels func() (map[string]string, error)
	// ReadFile returns the content of a password file. Default: os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// errNoNodes says that the speaker is part of nothing that follows nodes.
var errNoNodes = errors.New("nodes are not followed")

func (m Machine) withDefaults() Machine {
	if m.Addresses == nil {
		m.Addresses = self.Addresses
	}
	if m.Gateway == nil {
		m.Gateway = self.Gateway
	}
	if m.Link == nil {
		m.Link = lookAtLink
	}
	if m.Greet == nil {
		m.Greet = greetOn
	}
	if m.ReadFile == nil {
		m.ReadFile = os.ReadFile
	}
	if m.NodeLabels == nil {
		m.NodeLabels = func() (map[string]string, error) { return nil, errNoNodes }
	}
	return m
}

// sourceOf returns the address from which this machine is to have the session with a router; one that is not valid leaves it to the
// kernel. An address that is in use is kept for as long as the machine has it: one that comes to an interface ends no session.
func sourceOf(peer *config.BGPPeer, before netip.Addr, addresses func() ([]netip.Addr, error)) (netip.Addr, error) {
	if peer.SourceSubnet == "" {
		return peer.SourceAddr(), nil
	}
	subnet, err := netip.ParsePrefix(peer.SourceSubnet)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("its sourceSubnet cannot be read: %w", err)
	}
	own, err := addresses()
	if err != nil {
		if before.IsValid() && subnet.Contains(before) {
			return before, nil // whether it is still there, the kernel says when it is used
		}
		return netip.Addr{}, fmt.Errorf("its sourceSubnet is %s, and the addresses of this machine cannot be listed: %w", subnet, err)
	}
	own = slices.DeleteFunc(slices.Clone(own), func(addr netip.Addr) bool { return !subnet.Contains(addr) })
	switch {
	case slices.Contains(own, before):
		return before, nil
	case len(own) == 0:
		return netip.Addr{}, fmt.Errorf("its sourceSubnet is %s, and this machine has no address there", subnet)
	}
	return own[0], nil
}

// part is what this replica has to do with a router.
type part int

const (
	// serves has a session.
	serves part = iota + 1
	// leaves has none by choice: the nodeSelectors of the router select other nodes.
	leaves
	// waits has none, because it is not known yet whether it is to have one.
	waits
)

// partOf returns what this replica has to do with a router, by the labels of its node; nil labels are not known.
func partOf(peer *config.BGPPeer, labels map[string]string) part {
	switch {
	case len(peer.NodeSelectors) == 0:
		return serves
	case labels == nil:
		return waits
	case config.MatchesAny(peer.NodeSelectors, labels):
		return serves
	}
	return leaves
}

// ownLabels returns the labels of this replica's node if some router needs them, as far as they are known. While the node is unknown, the
// labels stay what they were: a Node that is gone for a moment ends no session.
func (m Machine) ownLabels(section *config.BGP, before map[string]string) (map[string]string, error) {
	if !slices.ContainsFunc(section.Peers, func(peer config.BGPPeer) bool { return len(peer.NodeSelectors) > 0 }) {
		return nil, nil
	}
	labels, err := m.NodeLabels()
	if err != nil {
		return before, fmt.Errorf("it has nodeSelectors, and the node of this replica is not known: %w", err)
	}
	if labels == nil {
		return before, nil
	}
	return labels, nil
}

// Elsewhere returns the routers that the nodeSelectors give to other replicas, in the order of their names. They are in neither
// Peers nor Sessions.
func (s *Speaker) Elsewhere() []OtherPeer {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	var others []OtherPeer
	for _, name := range slices.Sorted(maps.Keys(s.sessions.elsewhere)) {
		others = append(others, s.sessions.elsewhere[name])
	}
	return others
}

// LookNow has the speaker ask its machine again without waiting for the next look. It returns at once.
func (s *Speaker) LookNow() {
	select {
	case s.lookNow <- struct{}{}:
	default: // it is going to look anyway
	}
}

// observe takes what the machine says by now. Callers hold the lock.
func (s *Speaker) observe() (settings, error) {
	return newSettings(s.settings.config, s.settings, s.options.Machine)
}

// located returns the routers with the addresses at which they are, and why one has none: it is at an address of nowhere then. Before are the
// addresses at which they were.
func (m Machine) located(peers []config.BGPPeer, before map[string]netip.Addr) ([]config.BGPPeer, map[netip.Addr]error) {
	if !slices.ContainsFunc(peers, func(peer config.BGPPeer) bool { return peer.DefaultGateway != "" || peer.Interface != "" }) {
		return peers, nil
	}
	peers, nowhere := slices.Clone(peers), map[netip.Addr]error{}
	for i := range peers {
		peer := &peers[i]
		if peer.Interface != "" {
			if err := m.linked(peer, before); err != nil {
				nowhere[peer.Addr()] = err
			}
		}
		if peer.DefaultGateway == "" {
			continue
		}
		addr, err := m.Gateway(peer.DefaultGateway == config.IPv6)
		if err == nil && slices.ContainsFunc(peers, func(other config.BGPPeer) bool { return other.Addr() == addr }) {
			err = fmt.Errorf("the default gateway of this machine, %s, is another peer, too", addr)
		}
		if err != nil {
			if addr = netip.IPv4Unspecified(); peer.DefaultGateway == config.IPv6 {
				addr = netip.IPv6Unspecified()
			}
			nowhere[addr] = err
		}
		peer.Address = addr.String()
	}
	return peers, nowhere
}
