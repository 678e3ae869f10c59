package bgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Here is what the speaker does only because GoBGP is as it is. Each of the six says what the library does, in which version, and which
// tests fail without it. A new version has to be tried with each.

// 1. Tables (GoBGP v4.8.0; TestGroupsWithoutAddPath).
//
// A group of routers that are announced other things than the rest has a table of its own in the library: a VRF (RFC 4364). The
// library chooses the best path of each table by itself, which is what a router without ADD-PATH gets. An export policy would
// choose among all paths first, and leave such a router with none when the best one is not for it. See ADR 69.

// tables are the tables of the library besides the one that it has anyhow.
type tables struct {
	// vrfs are their numbers, by group.
	vrfs map[string]uint32
	last uint32
	// of are the groups of the routers.
	of map[netip.Addr]string
}

func newTables() tables {
	return tables{vrfs: map[string]uint32{}, of: map[netip.Addr]string{}}
}

// makeTable makes the table of a group if it is not there yet.
func (l *library) makeTable(ctx context.Context, group string) error {
	if _, there := l.tables.vrfs[group]; there || group == "" {
		return nil
	}
	number := l.tables.last + 1
	target := []*api.RouteTarget{{Rt: &api.RouteTarget_TwoOctetAsSpecific{TwoOctetAsSpecific: &api.TwoOctetAsSpecificExtended{
		IsTransitive: true, SubType: routeTarget, LocalAdmin: number,
	}}}}
	distinguisher := &api.RouteDistinguisher{Rd: &api.RouteDistinguisher_TwoOctetAsn{
		TwoOctetAsn: &api.RouteDistinguisherTwoOctetASN{Assigned: number},
	}}
	request := &api.AddVrfRequest{Vrf: &api.Vrf{Name: group, Id: number, Rd: distinguisher, ImportRt: target, ExportRt: target}}
	if err := l.server.AddVrf(ctx, request); err != nil {
		return fmt.Errorf("make the table of the group of peer %s: %w", group, err)
	}
	l.tables.vrfs[group], l.tables.last = number, number
	return nil
}

// routeTarget is the sub-type of an extended community that is a route target (RFC 4360 section 4). Numbers of tables and their
// targets never leave the library.
const routeTarget = 2

// dropTable removes the table of a group without routers.
func (l *library) dropTable(ctx context.Context, group string) error {
	if _, there := l.tables.vrfs[group]; !there {
		return nil
	}
	if err := l.server.DeleteVrf(ctx, &api.DeleteVrfRequest{Name: group}); err != nil {
		return fmt.Errorf("remove the table of the group of peer %s: %w", group, err)
	}
	delete(l.tables.vrfs, group)
	return nil
}

// serves reports whether a router is still served from the table of a group.
func (l *library) serves(group string) bool {
	for _, of := range l.tables.of {
		if of == group {
			return true
		}
	}
	return false
}

// 2. Repetition at the begin of a session (GoBGP v4.8.0; TestRoutersOfTwoGroups, TestRouterChangesItsGroup).
//
// Over a session that begins, the library sends one path of each destination of a table that is not its first one, even to a router
// that takes several: it looks whether ADD-PATH was negotiated for the family that such a table has in the library. What is
// announced while the session is up it sends as it should. So what is announced is announced again when a session has begun.

// notices remember what was reported since the last take. They are safe for concurrent use.
type notices[K comparable] struct {
	// some has room for one notice.
	some chan struct{}

	mu       sync.Mutex
	reported map[K]bool
}

func newNotices[K comparable]() *notices[K] {
	return &notices[K]{some: make(chan struct{}, 1), reported: map[K]bool{}}
}

// add reports one.
func (n *notices[K]) add(one K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reported[one] = true
	select {
	case n.some <- struct{}{}:
	default: // a notice is waiting already
	}
}

// take returns what was reported since the last time, sorted.
func (n *notices[K]) take(compare func(K, K) int) []K {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer clear(n.reported)
	return slices.SortedFunc(maps.Keys(n.reported), compare)
}

// repeatDelay is how long after its begin a session takes what is announced. A speaker that restarts gracefully says nothing
// before the deferral time is over.
func repeatDelay(mode config.BGPMode) time.Duration {
	if mode == config.GracefulRestart {
		return 2 * deferral
	}
	return 0
}

// repeat announces once more what is announced to the groups with sessions that have begun.
func (s *Speaker) repeat(ctx context.Context) {
	groups := s.sessions.begun.take(strings.Compare)
	s.mu.Lock()
	defer s.mu.Unlock()
	library, encoder := s.running.Load(), newEncoder(&s.settings)
	if library == nil {
		return
	}
	for _, group := range groups {
		prefixes := slices.SortedFunc(maps.Keys(s.announced[group]), netip.Prefix.Compare)
		for some := range slices.Chunk(prefixes, stepDestinations) {
			if ctx.Err() != nil {
				return
			}
			if err := library.apply(group, again(some, s.announced[group]), encoder); err != nil {
				s.log.Error(err, "BGP speaker could not announce everything to every router; trying again", "retryAfter", s.options.LookAgain)
				time.AfterFunc(s.options.LookAgain, func() { s.sessions.begun.add(group) })
				break
			}
		}
	}
}

// again returns a step that announces destinations as they are.
func again(prefixes []netip.Prefix, announced map[netip.Prefix]destination) step {
	var s step
	for _, prefix := range prefixes {
		d := announced[prefix]
		for _, hop := range d.hops {
			s.add = append(s.add, path{prefix: prefix, hop: hop, pool: d.pool, uncertain: d.uncertain, own: d.ownOf(hop)})
		}
	}
	return s
}

// 3. Repetition after a change (GoBGP v4.8.0; TestRapidChangesWithoutAddPath).
//
// A router without ADD-PATH is sent the best path of each destination. The library puts together what waits to be sent, and sends
// withdrawals first, then the announcements in no order. Of one path it sends the last state only; but when the best path of a destination
// changes twice meanwhile, that is two paths to it, and the router may keep the first of them. A step changes each best path once (see
// encode), but steps follow each other. So such a router is sent everything again after a change, when nothing else waits to be sent.

// singlePathDelay is how long after a change routers without ADD-PATH are sent everything again. It is longer than what was announced waits
// in the library, on a busy machine, too.
const singlePathDelay = time.Second

// repetition is when routers without ADD-PATH are sent everything again. Callers hold the speaker's lock.
type repetition struct {
	timer *time.Timer
	// armed says that the timer runs, and changed when something was announced last.
	armed   bool
	changed time.Time
}

func newRepetition() *repetition {
	timer := time.NewTimer(singlePathDelay)
	timer.Stop()
	return &repetition{timer: timer}
}

// change says that something was announced.
func (r *repetition) change() {
	r.changed = time.Now()
	if !r.armed {
		r.armed = true
		r.timer.Reset(singlePathDelay)
	}
}

// fired says that the timer has. It runs again if the last change is so recent that it may still wait to be sent.
func (r *repetition) fired() {
	r.armed = time.Since(r.changed) < singlePathDelay
	if r.armed {
		r.timer.Reset(singlePathDelay)
	}
}

// repeatSinglePaths sends everything again to the routers without ADD-PATH.
func (s *Speaker) repeatSinglePaths(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repetition.fired()
	library := s.running.Load()
	if library == nil {
		return
	}
	var errs []error
	for _, addr := range s.sessions.singlePath() {
		if n, found := s.neighbors[addr]; found {
			errs = append(errs, library.resend(ctx, n))
		}
	}
	if err := errors.Join(errs...); err != nil {
		s.repetition.change()
		s.log.Error(fmt.Errorf("BGP: %w", err), "BGP speaker could not announce everything to every router; trying again", "retryAfter", singlePathDelay)
	}
}

// singlePath returns the routers whose sessions are up and that take one path of each destination of some family.
func (s *sessions) singlePath() (found []netip.Addr) {
	for _, status := range s.status(nil) {
		for _, family := range status.Families {
			if status.Up() && family.Negotiated && !family.AddPath {
				found = append(found, status.Address)
				break
			}
		}
	}
	return found
}

// 4. Withdrawals that wait (GoBGP v4.8.0; TestMakeBeforeBreak).
//
// The library puts together what waits to be sent, and sends withdrawals first. It does not say when it is done, but counts what it has sent.
// So when a destination keeps none of its next hops, its withdrawals wait until the additions were sent: without that it has no path between.

const (
	// sendTimeout bounds how long withdrawals wait for additions to be sent; a router that takes the additions' family not at
	// all is waited for in vain. They are sent when the count has not changed for unchangedLooks looks in a row.
	sendTimeout    = 500 * time.Millisecond
	sendInterval   = 2 * time.Millisecond
	unchangedLooks = 15
)

// awaitSent waits until the routers of a group were sent what was announced since there were so many messages to them.
func (l *library) awaitSent(group string, before map[netip.Addr]uint64) {
	last, quiet := before, 0
	for deadline := time.Now().Add(sendTimeout); time.Now().Before(deadline) && quiet < unchangedLooks; time.Sleep(sendInterval) {
		now := l.sentTo(group)
		if maps.Equal(now, last) && exceeds(now, before) {
			quiet++
		} else {
			quiet = 0
		}
		last = now
	}
}

// exceeds reports whether something was sent to each router.
func exceeds(now, before map[netip.Addr]uint64) bool {
	for addr, sent := range now {
		if sent == before[addr] {
			return false
		}
	}
	return true
}

// sentTo returns how many messages with routes were sent to the routers of a group whose sessions are up.
func (l *library) sentTo(group string) map[netip.Addr]uint64 {
	sent := l.sent()
	maps.DeleteFunc(sent, func(addr netip.Addr, _ uint64) bool { return l.tables.of[addr] != group })
	return sent
}

// sent returns how many messages with routes were sent to the routers whose sessions are up.
func (l *library) sent() map[netip.Addr]uint64 {
	return l.updates(func(state *api.PeerState) bool {
		return state.GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED
	})
}

// updates returns how many messages with routes were sent, by router, to those whose state is as wanted.
func (l *library) updates(wanted func(*api.PeerState) bool) map[netip.Addr]uint64 {
	sent := map[netip.Addr]uint64{}
	_ = l.server.ListPeer(context.Background(), &api.ListPeerRequest{}, func(peer *api.Peer) { // fails when the server has ended
		state := peer.GetState()
		if addr, err := netip.ParseAddr(state.GetNeighborAddress()); err == nil && wanted(state) {
			sent[addr] = state.GetMessages().GetSent().GetUpdate()
		}
	})
	return sent
}

// 5. Handover (GoBGP v4.8.0; TestHandover, TestReplacedWhenReady).
//
// The library does not say when a router has the whole table either. A replica that replaces another one has to know, so the speaker looks at
// what the library has counted and what the kernel has seen confirmed.

const (
	// handoverInterval is how often the speaker looks at what has been sent, until everything has.
	handoverInterval = 100 * time.Millisecond
	// handoverQuiet is how long nothing is sent to a router that has everything. The library prepares all messages of a table before
	// it sends the first.
	handoverQuiet = time.Second
	// handoverPerPath is what a router is given beyond that for each path. Its kernel confirms what its BGP process has yet to read: BIRD
	// took up to 40 µs a path where it shared two cores with everything else.
	handoverPerPath = 50 * time.Microsecond
	// absentPatience is how long routers are waited for that have had no session at all. It is longer than a few attempts to
	// connect, and than the hold time in which a router still counts on an earlier connection.
	absentPatience = 30 * time.Second
	// presentPatience is how long the others are waited for: a session that ends during a long transfer begins anew.
	presentPatience = 2 * time.Minute
)

// transmission is what has been sent to a router.
type transmission struct {
	// up says that its session is.
	up bool
	// updates counts the messages with routes.
	updates uint64
	// unacknowledged is how many bytes its kernel has not confirmed, as far as that is known.
	unacknowledged uint32
	// expects says that there is something to be sent over the session, in the families that were negotiated, and paths is how much.
	expects bool
	paths   int
}

// handover finds out when the routers have the first table: from then on they do without the replica that this one replaces.
// It does no I/O and reads no clock.
//
// See ADR 72.
type handover struct {
	// began is when the sessions began; zero before.
	began time.Time
	peers map[string]*progress
	done  bool
}

// progress is what is remembered of one router.
type progress struct {
	transmission
	// present says that there has been a session.
	present bool
	// before is how many messages were sent over earlier sessions.
	before uint64
	// changed is when something was sent or confirmed last, or the session came up.
	changed time.Time
	// begun says that the router has part of the table at least, and over that it has all of it.
	begun, over bool
}

// observe takes what has been sent to each router by now, and returns what is still missing; nil when the table has been handed over,
// and from then on.
//
// It is handed over when every router has it, or at least one has received something and the others have been waited for. A router may be
// away or slow, or the table may change so often that there is always something to send. A replica that no router listens to replaces no
// other replica, however long it waits. Without any router there is nothing to wait for.
func (h *handover) observe(now time.Time, seen map[string]transmission) error {
	if h.done {
		return nil
	}
	if h.began.IsZero() {
		h.began, h.peers = now, map[string]*progress{}
	}
	var missing []string
	begun, patience := false, absentPatience
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		state := h.follow(now, name, seen[name])
		begun = begun || state.begun
		if state.present && !state.over {
			patience = presentPatience
		}
		switch {
		case state.over:
		case state.up:
			missing = append(missing, name+" has not received everything")
		default:
			missing = append(missing, name+" has no session")
		}
	}
	if len(missing) == 0 || begun && now.Sub(h.began) >= patience {
		h.done, h.peers = true, nil
		return nil
	}
	return fmt.Errorf("the routers do not have every route of this replica yet: router %s", strings.Join(missing, ", router "))
}

// follow remembers what a router was sent.
func (h *handover) follow(now time.Time, name string, seen transmission) *progress {
	state := h.peers[name]
	if state == nil {
		state = &progress{}
		h.peers[name] = state
	}
	state.present = state.present || seen.up
	switch {
	case !seen.up:
		*state = progress{present: state.present, before: max(state.before, state.updates)}
	case seen != state.transmission:
		state.transmission, state.changed = seen, now
	}
	state.begun = state.up && (seen.updates > state.before || !seen.expects)
	quiet := handoverQuiet + time.Duration(seen.paths)*handoverPerPath
	state.over = state.over || state.begun && seen.unacknowledged == 0 && now.Sub(state.changed) >= quiet
	return state
}

// readiness is what Ready answers, for any goroutine.
type readiness struct{ problem atomic.Pointer[error] }

// errNoTable says that nothing has been announced yet.
var errNoTable = errors.New("the routes to announce are not computed yet: the cluster's objects are being listed, or nodes probed for the first time")

func (r *readiness) set(problem error) { r.problem.Store(&problem) }

func (r *readiness) get() error {
	if problem := r.problem.Load(); problem != nil {
		return *problem
	}
	return errNoTable
}

// Ready returns nil once every router has the first table whose session is up, and every other has been waited for. It stays
// so: routers that go away later are no reason to replace this process. The error says what is missing.
func (s *Speaker) Ready() error { return s.readiness.get() }

// handOver looks at what has been sent, and reports whether that is everything. Callers do not hold the lock.
func (s *Speaker) handOver(now time.Time) bool {
	s.mu.Lock()
	missing, ports := s.wanted == nil || s.behind, s.settings.ports()
	s.mu.Unlock()
	library := s.running.Load()
	if missing || library == nil {
		return false
	}
	problem := s.handover.observe(now, transmissions(s.Peers(), library.sent(), unacknowledged(ports)))
	s.readiness.set(problem)
	if problem == nil {
		s.log.Info("The routers have what this replica announces; it is ready")
	}
	return problem == nil
}

// transmissions joins what is known of the sessions with what the library and the kernel count.
func transmissions(peers []PeerStatus, sent map[netip.Addr]uint64, waiting map[netip.Addr]uint32) map[string]transmission {
	seen := make(map[string]transmission, len(peers))
	for _, peer := range peers {
		updates, up := sent[peer.Address]
		one := transmission{up: up && peer.Up(), updates: updates, unacknowledged: waiting[peer.Address.WithZone("")]}
		for _, family := range peer.Families {
			one.expects = one.expects || family.Prefixes > 0
			one.paths += family.Paths
		}
		seen[peer.Name] = one
	}
	return seen
}

// 6. Resets that outlive their session (GoBGP v4.8.0; TestBFDFailsWithoutASession).
//
// When BFD fails, the library has the session reset. If the session is not up at that moment, the reset waits, and ends the next one as it begins. BIRD
// ends its side of BFD with each session, the speaker's side then fails without one, and no session ever lasts. The library keeps the reset with the
// router, so the router is removed and added. GoBGP v4.9.0 drops such a reset, see https://github.com/osrg/gobgp/issues/3561.

// renew removes and adds the routers whose resets wait for a session.
func (s *Speaker) renew(ctx context.Context) {
	waiting := s.sessions.resets.take(netip.Addr.Compare)
	s.mu.Lock()
	defer s.mu.Unlock()
	library := s.running.Load()
	if library == nil {
		return
	}
	var errs []error
	for _, addr := range waiting {
		n, known := s.neighbors[addr]
		if !known {
			continue
		}
		if err := library.remove(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("BGP: %w", err))
			time.AfterFunc(s.options.LookAgain, func() { s.sessions.resets.add(addr) })
			continue
		}
		delete(s.neighbors, addr)
	}
	if err := errors.Join(append(errs, s.adjust(ctx))...); err != nil {
		s.log.Error(err, "BGP speaker could not begin sessions anew whose BFD has failed; trying again", "retryAfter", s.options.LookAgain)
	}
}
