package bgp

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// sessions remember what the library says about the sessions. Their lock is held for moments only, so status and metrics
// do not wait for the library.
type sessions struct {
	mu    sync.Mutex
	peers map[netip.Addr]*peerState
	// elsewhere are the routers that only other replicas are to serve.
	elsewhere map[string]OtherPeer
	// tallies are how much is announced, by group.
	tallies map[string]*tally
	// begun are the groups to which everything has to be announced again, repeatDelay after a session has begun.
	begun       *notices[string]
	repeatDelay time.Duration
	// resets are the routers whose sessions the library is to reset, and which have none.
	resets *notices[netip.Addr]
	// graceful says that the mode is GracefulRestart.
	graceful bool
	// watchers have room for one notice each.
	watchers map[chan struct{}]bool
	now      func() time.Time
	log      logr.Logger
}

// peerState is what is remembered of one router.
type peerState struct {
	neighbor neighbor
	state    bgp.FSMState
	since    time.Time
	flaps    uint64
	last     failure
	errAt    time.Time
	failures map[Problem]uint64
	// logged is the problem that was logged last, empty after the session was up.
	logged Problem
	// asn is the one that the router named last, and own the speaker's.
	asn, own uint32
	// missing is what this replica lacks for the session.
	missing []failure
	// negotiated holds the families that both sides take, and whether with several paths.
	negotiated map[config.AddressFamily]bool
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{
		peers: map[netip.Addr]*peerState{}, tallies: map[string]*tally{}, begun: newNotices[string](), resets: newNotices[netip.Addr](),
		watchers: map[chan struct{}]bool{}, now: now, log: logr.Discard(),
	}
}

// subscribe returns a channel that has something to receive after something is different, until cancel is called.
func (s *sessions) subscribe() (changed <-chan struct{}, cancel func()) {
	watcher := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[watcher] = true
	return watcher, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, watcher)
	}
}

// notify says that something is different. Callers hold the lock.
func (s *sessions) notify() {
	for watcher := range s.watchers {
		select {
		case watcher <- struct{}{}:
		default: // it is going to look anyway
		}
	}
}

// logTo sets where the sessions' ends and beginnings are logged.
func (s *sessions) logTo(log logr.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = log
}

// fail remembers why a session is not up, and logs it if that is another problem than the last one. Callers hold the lock.
func (s *sessions) fail(peer *peerState, why failure) {
	if peer.logged != why.problem {
		peer.logged = why.problem
		s.log.Info("BGP session is not up", "peer", peer.neighbor.name, "problem", string(why.problem), "reason", why.words)
	}
	peer.last, peer.errAt = why, s.now()
	if peer.failures == nil {
		peer.failures = map[Problem]uint64{}
	}
	peer.failures[why.problem]++
}

// expect sets which routers there are that this replica is to serve. Of the others nothing is remembered.
func (s *sessions) expect(settings settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeatDelay, s.graceful = repeatDelay(settings.config.Mode), settings.config.Mode == config.GracefulRestart
	peers := make(map[netip.Addr]*peerState, len(settings.peers))
	different := !reflect.DeepEqual(s.elsewhere, settings.elsewhere)
	s.elsewhere = settings.elsewhere
	for i := range settings.peers {
		configured := &settings.peers[i]
		addr := configured.Addr()
		if _, others := settings.elsewhere[configured.Name]; others {
			continue
		}
		peer, known := s.peers[addr]
		if !known {
			peer = &peerState{state: bgp.BGP_FSM_IDLE, since: s.now()}
		}
		is := newNeighbor(configured, addr, settings.groups[configured.Name])
		missing := settings.missing[addr]
		different = different || !known || peer.neighbor != is || !slices.Equal(peer.missing, missing)
		peer.neighbor, peer.own = is, settings.config.OwnASN(configured)
		for _, what := range missing {
			if !slices.Contains(peer.missing, what) {
				s.fail(peer, what)
			}
		}
		peer.missing = missing
		if _, has := settings.neighbors[addr]; !has {
			peer.end(s.now()) // the library may say nothing more of a router that it no longer knows
		}
		peers[addr] = peer
	}
	different = different || len(s.peers) != len(peers)
	s.peers = peers
	if different {
		s.notify()
	}
}

func (s *sessions) isGraceful() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.graceful
}

// ended forgets the state of sessions that are over, because the library is.
func (s *sessions) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, peer := range s.peers {
		peer.end(s.now())
	}
	clear(s.tallies)
	s.notify()
}

// end forgets the state of a session that is over.
func (p *peerState) end(now time.Time) {
	if p.state == bgp.BGP_FSM_ESTABLISHED {
		p.since = now
		p.flaps++
	}
	p.state, p.negotiated = bgp.BGP_FSM_IDLE, nil
}

// counted sets how much is announced to a group after some destinations have changed.
func (s *sessions) counted(group string, change func(*tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tallies[group] == nil {
		s.tallies[group] = &tally{families: map[config.AddressFamily]count{}}
	}
	change(s.tallies[group])
	s.notify()
}

// explain remembers why a session is not up.
func (s *sessions) explain(addr netip.Addr, why failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if peer, known := s.peers[addr]; known {
		changed := peer.last != why
		s.fail(peer, why)
		if changed {
			s.notify()
		}
	}
}

// reset takes notice that the library has a session reset, which may not be up.
func (s *sessions) reset(addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if peer, known := s.peers[addr]; known && peer.state != bgp.BGP_FSM_ESTABLISHED {
		s.resets.add(addr)
	}
}

// observe remembers the state of a session.
func (s *sessions) observe(event *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
	state := event.Peer.State
	s.mu.Lock()
	defer s.mu.Unlock()
	peer, known := s.peers[state.NeighborAddress]
	if !known || peer.state == state.SessionState {
		return
	}
	was, is := peer.state == bgp.BGP_FSM_ESTABLISHED, state.SessionState == bgp.BGP_FSM_ESTABLISHED
	refused := peer.state == bgp.BGP_FSM_OPENCONFIRM && state.SessionState == bgp.BGP_FSM_IDLE
	peer.state = state.SessionState
	switch {
	case is:
		peer.since, peer.negotiated, peer.asn = s.now(), negotiated(state.RemoteCap), state.PeerASN
		peer.logged = ""
		s.log.Info("BGP session is up", "peer", peer.neighbor.name)
		if group := peer.neighbor.session.group; group != "" && slices.Contains(slices.Collect(maps.Values(peer.negotiated)), true) {
			time.AfterFunc(s.repeatDelay, func() { s.begun.add(group) })
		}
	case was:
		peer.since, peer.negotiated = s.now(), nil
		peer.flaps++
		if why := endOf(state); why != (failure{}) {
			s.fail(peer, why)
		}
	case refused:
		// What the router said against it the library keeps for itself.
		s.fail(peer, failure{OpenRefused, fmt.Sprintf("the router refused the speaker's OPEN message (%s): "+
			"does it expect another AS of this speaker?", state.DisconnectMessage)})
	}
	s.notify()
}

// endOf says why a session ended, where the library's log has not said it better.
func endOf(state apiutil.PeerState) failure {
	switch state.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT, api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED,
		api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED, api.PeerState_DISCONNECT_REASON_DECONFIGURED:
		return failure{}
	case api.PeerState_DISCONNECT_REASON_READ_FAILED, api.PeerState_DISCONNECT_REASON_WRITE_FAILED,
		api.PeerState_DISCONNECT_REASON_GRACEFUL_RESTART:
		return failure{ConnectionLost, "the connection broke: the router or the path to it failed (" + state.DisconnectMessage + ")"}
	}
	return failure{Ended, "the session ended (" + state.DisconnectMessage + ")"}
}

// negotiated returns the families that a router takes, and whether with several paths. One that names none takes IPv4.
func negotiated(capabilities []bgp.ParameterCapabilityInterface) map[config.AddressFamily]bool {
	families := map[config.AddressFamily]bool{}
	paths := map[config.AddressFamily]bool{}
	for _, capability := range capabilities {
		switch capability := capability.(type) {
		case *bgp.CapMultiProtocol:
			if family, ours := familyName(capability.CapValue); ours {
				families[family] = false
			}
		case *bgp.CapAddPath:
			for _, tuple := range capability.Tuples {
				if family, ours := familyName(tuple.Family); ours && tuple.Mode&bgp.BGP_ADD_PATH_RECEIVE != 0 {
					paths[family] = true
				}
			}
		}
	}
	if len(families) == 0 {
		families[config.IPv4] = false
	}
	for family := range families {
		families[family] = paths[family]
	}
	return families
}

func familyName(family bgp.Family) (config.AddressFamily, bool) {
	switch family {
	case bgp.RF_IPv4_UC:
		return config.IPv4, true
	case bgp.RF_IPv6_UC:
		return config.IPv6, true
	}
	return "", false
}

// status returns how it stands with all routers, in the order of their addresses.
func (s *sessions) status(updates map[netip.Addr]uint64) []PeerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	statuses := make([]PeerStatus, 0, len(s.peers))
	for _, addr := range slices.SortedFunc(maps.Keys(s.peers), netip.Addr.Compare) {
		peer := s.peers[addr]
		status := PeerStatus{
			Name: peer.neighbor.name, Address: addr, ASN: cmp.Or(peer.neighbor.session.asn, peer.asn), State: stateName(peer.state), Since: peer.since,
			Flaps: peer.flaps, UpdatesSent: updates[addr], LastError: peer.last.words, LastErrorAt: peer.errAt,
			LastProblem: peer.last.problem, Failures: maps.Clone(peer.failures),
			OwnASN: peer.neighbor.session.external && peer.asn == peer.own,
		}
		for _, missing := range peer.missing {
			status.Missing = append(status.Missing, missing.problem)
			status.Problems = append(status.Problems, missing.words)
		}
		for _, family := range peer.families() {
			status.Families = append(status.Families, s.family(peer, family))
		}
		for _, problem := range status.FamilyProblems() {
			if problem.Family != "" {
				status.Problems = append(status.Problems, problem.sentence())
			}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

func (p *peerState) families() (families []config.AddressFamily) {
	if p.neighbor.session.ipv4 {
		families = append(families, config.IPv4)
	}
	if p.neighbor.session.ipv6 {
		families = append(families, config.IPv6)
	}
	return families
}

func (s *sessions) family(peer *peerState, family config.AddressFamily) FamilyStatus {
	status := FamilyStatus{Family: family}
	status.AddPath, status.Negotiated = peer.negotiated[family]
	if !status.Negotiated {
		return status
	}
	if tally := s.tallies[peer.neighbor.session.group]; tally != nil {
		status.Prefixes, status.Paths = tally.families[family].prefixes, tally.families[family].paths
	}
	if !status.AddPath {
		status.Paths = status.Prefixes
	}
	return status
}

// leftOut returns how many next hops are not announced because one destination has too many.
func (s *sessions) leftOut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	leftOut := 0
	for _, tally := range s.tallies {
		leftOut += tally.leftOut
	}
	return leftOut
}

// states are the names of all states, as stateName returns them.
var states = []string{"Idle", "Connect", "Active", "OpenSent", "OpenConfirm", Established}

func stateName(state bgp.FSMState) string {
	switch state {
	case bgp.BGP_FSM_CONNECT:
		return "Connect"
	case bgp.BGP_FSM_ACTIVE:
		return "Active"
	case bgp.BGP_FSM_OPENSENT:
		return "OpenSent"
	case bgp.BGP_FSM_OPENCONFIRM:
		return "OpenConfirm"
	case bgp.BGP_FSM_ESTABLISHED:
		return Established
	default:
		return "Idle"
	}
}
