package bgp

import (
	"net/netip"
	"time"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Established is the state of a session over which routes are announced.
const Established = names.SessionEstablished

// PeerStatus is how it stands with one router.
type PeerStatus struct {
	// Name is the router's name in the configuration.
	Name string
	// Address is the router's address.
	Address netip.Addr
	// ASN is the router's autonomous system, zero as long as only the router knows it.
	ASN uint32
	// State is the session's state by the names of RFC 4271 section 8.2.2: Idle, Connect, Active, OpenSent, OpenConfirm or
	// Established.
	State string
	// Since is when the session came up or went down, or when the speaker began with it.
	Since time.Time
	// Families are what the session is to carry, IPv4 before IPv6.
	Families []FamilyStatus
	// Flaps is how often the session went down.
	Flaps uint64
	// UpdatesSent is how many messages with routes were sent to the router.
	UpdatesSent uint64
	// LastProblem is the kind of LastError, and Failures counts how often each kind came.
	LastProblem Problem
	Failures    map[Problem]uint64
	// Missing is what this replica lacks for the session: NoPassword, NoSource, NoGateway, NoRouter or NoNode. One that is up goes on with what it has.
	Missing []Problem
	// OwnASN says that the router is in the speaker's autonomous system although it is to be in another one.
	OwnASN bool
	// LastError says in words why the session is not up, or why it was not the last time. Empty if it always was.
	LastError string
	// LastErrorAt is when that was.
	LastErrorAt time.Time
	// Problems are what keeps the router from doing what is asked for although the session is up, one sentence each.
	Problems []string
}

// Up reports whether routes are announced.
func (s PeerStatus) Up() bool { return s.State == Established }

// FamilyStatus is how it stands with one address family of a session.
type FamilyStatus struct {
	// Family is the address family.
	Family config.AddressFamily
	// Negotiated says that the router takes the family.
	Negotiated bool
	// AddPath says that the router takes several paths to one destination (RFC 7911). Without it, it gets one next hop of each.
	AddPath bool
	// Prefixes and Paths are how many were announced to the router, zero while the session is not up.
	Prefixes, Paths int
}

// OtherPeer is a router with which this speaker has no session by choice: its nodeSelectors select other replicas' nodes. What
// becomes of it there, this speaker does not know.
type OtherPeer struct {
	// Name is the router's name in the configuration.
	Name string
	// Families are what the sessions of the others are to carry.
	Families []config.AddressFamily
}

// count is how much is announced of one family.
type count struct {
	prefixes, paths int
}

// tally is how much is announced.
type tally struct {
	families map[config.AddressFamily]count
	// leftOut is how many next hops are not announced because one destination has too many.
	leftOut int
}

// change counts that a destination is announced as after instead of as before.
func (t *tally) change(prefix netip.Prefix, before, after destination) {
	family := config.IPv6
	if prefix.Addr().Is4() {
		family = config.IPv4
	}
	counted := t.families[family]
	counted.paths += len(after.hops) - len(before.hops)
	counted.prefixes += announcedOne(after) - announcedOne(before)
	t.families[family] = counted
	t.leftOut += after.leftOut - before.leftOut
}

func announcedOne(d destination) int { return min(len(d.hops), 1) }
