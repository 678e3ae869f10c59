package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// greetInterval is how often a speaker makes itself known on the links of routers without a session, and asks for the routers there. RFC 4861
// section 6.2.4 allows an advertisement every three seconds.
const greetInterval = 3 * time.Second

// Link is what a machine knows of the other end of one of its interfaces.
type Link struct {
	// Own is the link-local address of the machine itself.
	Own netip.Addr
	// Routers are the link-local addresses of the machines that have advertised themselves as routers there, and that answer as far as it is
	// known.
	Routers []netip.Addr
}

// router returns the router at the other end: the one of before until another one has taken its place. The kernel forgets neighbors, and a
// session tells by itself that its router is away.
func (l Link) router(name string, before netip.Addr) (netip.Addr, error) {
	known := before.IsValid() && before != config.Link(name)
	switch {
	case slices.Contains(l.Routers, before), known && len(l.Routers) == 0:
		return before, nil
	case len(l.Routers) == 1:
		return l.Routers[0], nil
	case len(l.Routers) == 0:
		return netip.Addr{}, fmt.Errorf("no router has advertised itself on %s", name)
	}
	var found []string
	for _, router := range l.Routers {
		found = append(found, router.WithZone("").String())
	}
	return netip.Addr{}, fmt.Errorf("%d routers have advertised themselves on %s, %s: a link has one", len(found), name, strings.Join(found, " and "))
}

// linked puts the address of the router at the other end of its interface into a peer, and the machine's own. The error says why there is
// none. Before are the addresses of the routers until now.
func (m Machine) linked(peer *config.BGPPeer, before map[string]netip.Addr) error {
	link, err := m.Link(peer.Interface)
	addr := config.Link(peer.Interface)
	if err == nil {
		var found netip.Addr
		if found, err = link.router(peer.Interface, before[peer.Name]); err == nil {
			addr, peer.SourceAddress = found, link.Own.String()
		}
	}
	peer.Address = addr.String()
	return err
}

// greet makes this machine known on the links of routers without a session, and asks for the routers there: it sends a router solicitation
// and a router advertisement with a lifetime of zero, by which no host sends anything here. Routers that know their neighbors by such
// advertisements only would refuse its session. It reports whether there are such links.
func (s *Speaker) greet() bool {
	found := false
	for _, name := range s.sessions.quietLinks() {
		found = true
		if err := s.options.Machine.Greet(name); err != nil && s.greeted[name] != err.Error() {
			s.greeted[name] = err.Error()
			s.log.Error(err, "Could not ask for the router at the other end of the interface", "interface", name)
		}
	}
	return found
}

// quietLinks returns the interfaces of routers whose sessions are not up.
func (s *sessions) quietLinks() (names []string) {
	for _, status := range s.status(nil) {
		if !status.Up() && status.Address.Zone() != "" {
			names = append(names, status.Address.Zone())
		}
	}
	return names
}
