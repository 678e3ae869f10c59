package bgp

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

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
