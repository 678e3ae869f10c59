// Package bgp announces to routers which nodes lead to pods and to load balancers, with BGP-4 (RFC 4271) for IPv4 and IPv6 (RFC 4760).
//
// The speaker is not a router: it forwards nothing and learns nothing. What it announces has the nodes as next hops, several
// for one destination by ADD-PATH (RFC 7911), and the routers spread traffic over them. The protocol is the library GoBGP's;
// here is what to give it, in which order, and what became of it.
//
// See ADR 71.
package bgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v4/api"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

const (
	// bfdPort is the port of BFD between neighbors (RFC 5881).
	bfdPort = 3784
	// lookAgain is how often passwords are read again, and what failed is tried again.
	lookAgain = 10 * time.Second
)

// Ending is how a speaker takes leave of its routers.
type Ending int

const (
	// Withdraw has the routers drop at once what this speaker announced.
	Withdraw Ending = iota + 1
	// Graceful has them keep it until this speaker is back or the restart time is over, in mode GracefulRestart. In mode
	// ActiveActive it is the same as Withdraw: the other replicas' announcements stay.
	Graceful
)

// Options are what a speaker is made of.
type Options struct {
	// Config is the section of the configuration, with its defaults and valid. Without any the speaker waits for Reconfigure.
	Config config.BGP
	// Registerer gets the metrics; nil for none.
	Registerer prometheus.Registerer
	// Machine is what the sessions depend on besides the section.
	Machine Machine
	// LookAgain is how often password files are read again, and the machine is asked. Default: 10s.
	LookAgain time.Duration
	// FirstTable is how long sessions wait for the first table. Default: the restart time in mode GracefulRestart, in which an End-of-RIB
	// marker (RFC 4724) without the routes before it would have routers drop them. In mode ActiveActive they do not wait.
	FirstTable time.Duration
}

// Speaker is one BGP speaker. A process runs one at a time: GoBGP keeps part of its configuration in variables of a package.
type Speaker struct {
	options   Options
	sessions  *sessions
	readiness readiness
	// handover is for the goroutine of Run only.
	handover handover
	// running is nil unless there is a server. It is for reading without the lock.
	running atomic.Pointer[library]
	// first is closed when there is a table, stopping when the speaker is to end, and stopped when it has.
	first, stopping, stopped chan struct{}
	firstOnce, stopOnce      sync.Once
	ending                   Ending
	// greeted are what went wrong last, by interface. It is for the goroutine of Run only.
	greeted map[string]string
	// lookNow has room for one.
	lookNow chan struct{}

	// mu guards what follows. It is held while the library is called, so changes come one after the other.
	mu       sync.Mutex
	settings settings
	log      logr.Logger
	// begun says that there is to be a server where there is a section, also when the last one could not be started.
	begun bool
	// mode is the first section's; empty before. Another one is for another process.
	mode config.BGPMode
	// restarting says that routers which are added now may still have what an earlier process announced.
	restarting bool
	// announced, by group of routers, and neighbors are what the library knows.
	announced  map[string]map[netip.Prefix]destination
	neighbors  map[netip.Addr]neighbor
	repetition *repetition
	// wanted is the table that was asked for last, and behind says that not all of it could be announced.
	wanted routing.Table
	behind bool
}

// New returns a speaker that does nothing until Run.
func New(options Options) (*Speaker, error) {
	options.Machine = options.Machine.withDefaults()
	settings, err := newSettings(options.Config, settings{}, options.Machine)
	if err != nil {
		return nil, fmt.Errorf("BGP: %w", err)
	}
	s := &Speaker{
		options: options, sessions: newSessions(time.Now), settings: settings, log: logr.Discard(),
		lookNow: make(chan struct{}, 1), first: make(chan struct{}), stopping: make(chan struct{}), stopped: make(chan struct{}),
		announced: map[string]map[netip.Prefix]destination{}, neighbors: map[netip.Addr]neighbor{},
		repetition: newRepetition(), greeted: map[string]string{},
	}
	if s.options.LookAgain == 0 {
		s.options.LookAgain = lookAgain
	}
	s.sessions.expect(settings)
	if s.mode = settings.identity.mode; s.mode == "" {
		s.readiness.set(nil)
		s.handover.done = true
	}
	if options.Registerer != nil {
		if err := options.Registerer.Register(collector{s}); err != nil {
			return nil, fmt.Errorf("BGP: register metrics: %w", err)
		}
	}
	return s, nil
}

// Run keeps the sessions until ctx ends or Stop is called. In mode GracefulRestart it begins no session before there is a table, or before it has
// waited long enough for one. When ctx ends, it takes leave in the way that its mode is for: Graceful with GracefulRestart, otherwise
// Withdraw. It returns an error when it cannot begin, or cannot end its sessions. It runs once.
func (s *Speaker) Run(ctx context.Context) error {
	defer close(s.stopped)
	if !s.waitForTable(ctx) {
		return nil
	}
	s.mu.Lock()
	s.log = logr.FromContextOrDiscard(ctx).WithName("bgp")
	s.sessions.logTo(s.log)
	// Nodes are listed since New.
	now, err := s.observe()
	if err == nil {
		s.settings = now
		s.sessions.expect(now)
		err = s.begin(ctx, true)
	}
	if err != nil && s.options.Config.Mode == "" {
		s.log.Error(err, "BGP speaker could not begin; trying again", "retryAfter", s.options.LookAgain)
		s.begun, err = true, nil // what else the process does goes on
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(s.options.LookAgain)
	defer ticker.Stop()
	looks := time.NewTicker(handoverInterval)
	defer looks.Stop()
	if s.handover.done {
		looks.Stop()
	}
	greeting := time.NewTicker(min(greetInterval, s.options.LookAgain))
	defer greeting.Stop()
	s.greet()
	for {
		select {
		case <-ticker.C:
			s.refresh(ctx)
		case <-greeting.C:
			if s.greet() {
				s.refresh(ctx)
			}
		case <-s.lookNow:
			s.refresh(ctx)
		case <-s.sessions.begun.some:
			s.repeat(ctx)
		case <-s.sessions.resets.some:
			s.renew(ctx)
		case <-s.repetition.timer.C:
			s.repeatSinglePaths(ctx)
		case now := <-looks.C:
			if s.handOver(now) {
				looks.Stop()
			}
		case <-s.stopping:
			return s.end(s.ending)
		case <-ctx.Done():
			return s.end(Graceful)
		}
	}
}

// waitForTable reports whether sessions are to begin.
func (s *Speaker) waitForTable(ctx context.Context) bool {
	patience := s.options.FirstTable
	if patience == 0 {
		s.mu.Lock()
		mode, restart := s.mode, s.settings.identity.restart
		s.mu.Unlock()
		if mode != config.GracefulRestart {
			return true // the library takes up to two seconds to connect, in which the table comes
		}
		patience = restart
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-s.first:
		return true
	case <-timer.C:
		return true
	case <-s.stopping:
		return false
	case <-ctx.Done():
		return false
	}
}

// begin starts the library and gives it the whole table, if there is one, before any router: in mode GracefulRestart one that comes first would learn
// that there is nothing. It fails only where there is no speaker without. Callers hold the lock.
func (s *Speaker) begin(ctx context.Context, restarting bool) error {
	id, err := s.settings.identify(deriveRouterID)
	if err != nil {
		return fmt.Errorf("BGP: %w", err)
	}
	library, err := startLibrary(ctx, id, &s.settings, &bridge{to: s.log, explain: s.sessions.explain, reset: s.sessions.reset}, s.sessions)
	if err != nil {
		return fmt.Errorf("BGP: %w", err)
	}
	s.running.Store(library)
	s.begun, s.restarting = true, restarting
	s.log.Info("BGP speaker started", "asn", id.asn, "routerID", id.routerID, "mode", id.mode)
	if err := errors.Join(s.update(ctx, s.wanted), s.adjust(ctx)); err != nil {
		s.log.Error(err, "BGP speaker could not announce everything to every router; trying again", "retryAfter", s.options.LookAgain)
	}
	s.restarting = false
	return nil
}

// end takes leave of the routers.
func (s *Speaker) end(how Ending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = false
	return s.halt(how == Graceful && s.settings.identity.mode == config.GracefulRestart)
}

// halt stops the library. Callers hold the lock.
func (s *Speaker) halt(graceful bool) error {
	library := s.running.Swap(nil)
	if library == nil {
		return nil
	}
	clear(s.announced)
	clear(s.neighbors)
	defer s.sessions.ended()
	return library.stop(graceful)
}

// Stop ends Run with the given leave, and returns when it has ended or ctx has. It is for a speaker that runs.
func (s *Speaker) Stop(ctx context.Context, how Ending) error {
	s.stopOnce.Do(func() {
		s.ending = how
		close(s.stopping)
	})
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("BGP: wait for the sessions' end: %w", context.Cause(ctx))
	}
}

// Announce makes the table what is announced, and returns when the library has it: only what is different is sent.
// Before Run has begun its sessions, it returns at once, and they begin with the table. After an error, part of the table may
// be announced, and the rest is tried again.
func (s *Speaker) Announce(ctx context.Context, t routing.Table) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = t
	s.firstOnce.Do(func() { close(s.first) })
	if s.running.Load() == nil {
		return nil
	}
	return s.update(ctx, t)
}

// Reconfigure takes another section of the configuration, with its defaults and valid. Only what has to be ends sessions: of a
// router whose AS, port, password, source address, families or TTL changed; of all when the speaker's own AS, router ID or port
// did, and when the section is without any. After an error the sessions that could be changed are.
func (s *Speaker) Reconfigure(ctx context.Context, section config.BGP) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mode = cmp.Or(s.mode, section.Mode); section.Mode != "" && section.Mode != s.mode {
		return fmt.Errorf("BGP: the mode is %s in this process, and another one takes effect when it is started anew", s.mode)
	}
	after, err := newSettings(section, s.settings, s.options.Machine)
	if err != nil {
		return fmt.Errorf("BGP: %w", err)
	}
	return s.become(ctx, after, true)
}

// refresh reads passwords again, asks the machine, and tries again what failed.
func (s *Speaker) refresh(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, err := s.observe()
	if err == nil {
		err = s.become(ctx, after, s.behind)
	}
	for _, neighbor := range s.neighbors {
		if neighbor.timers.bfd { // GoBGP opens the socket some time after it was told of the neighbor
			err = errors.Join(err, dropDistant(bfdPort))
			break
		}
	}
	if err != nil {
		s.log.Error(err, "BGP speaker could not bring its sessions up to date; trying again", "retryAfter", s.options.LookAgain)
	}
}

// become changes the settings, and announces the table again if asked to. Callers hold the lock.
func (s *Speaker) become(ctx context.Context, after settings, announce bool) error {
	another := s.settings.identity != after.identity
	s.settings = after
	s.sessions.expect(after)
	if !s.begun {
		return nil
	}
	if another || s.running.Load() == nil {
		if err := s.halt(false); err != nil {
			return fmt.Errorf("BGP: end the sessions of the speaker as it was: %w", err)
		}
		if after.identity.mode == "" {
			return nil
		}
		return s.begin(ctx, false)
	}
	var err error
	if announce || !s.complete() {
		err = s.update(ctx, s.wanted)
	}
	return errors.Join(err, s.adjust(ctx))
}

// adjust makes the routers that the library knows those of the settings. Callers hold the lock.
func (s *Speaker) adjust(ctx context.Context) error {
	library := s.running.Load()
	plan := planNeighbors(s.neighbors, s.settings.neighbors)
	if plan.policy {
		policies, err := policies(&s.settings)
		if err == nil {
			err = library.setPolicies(ctx, policies)
		}
		if err != nil {
			return fmt.Errorf("BGP: %w", err)
		}
	}
	var errs []error
	each := func(neighbors []neighbor, apply func(neighbor) error, then func(neighbor)) {
		for _, n := range neighbors {
			if err := apply(n); err != nil {
				errs = append(errs, fmt.Errorf("BGP: %w", err))
				continue
			}
			then(n)
		}
	}
	remember := func(n neighbor) { s.neighbors[n.addr] = n }
	each(plan.remove, func(n neighbor) error { return library.remove(ctx, n) }, func(n neighbor) { delete(s.neighbors, n.addr) })
	each(plan.add, func(n neighbor) error { return library.add(ctx, n, s.restarting) }, remember)
	each(plan.update, func(n neighbor) error { return library.update(ctx, n) }, remember)
	each(plan.resend, func(n neighbor) error { return library.resend(ctx, n) }, remember)
	return errors.Join(append(errs, s.clean(ctx))...)
}

// Sessions returns how it stands with the routers, in the order of their addresses, without what only the library counts: it does
// not wait for the library, however busy that is.
func (s *Speaker) Sessions() []PeerStatus { return s.sessions.status(nil) }

// Peers returns how it stands with the routers, in the order of their addresses.
func (s *Speaker) Peers() []PeerStatus {
	var updates map[netip.Addr]uint64
	if library := s.running.Load(); library != nil {
		updates = library.updates(func(*api.PeerState) bool { return true })
	}
	return s.sessions.status(updates)
}

// Subscribe returns a channel that has something to receive after Peers or Elsewhere has changed, until cancel is called. It is for one receiver.
func (s *Speaker) Subscribe() (changed <-chan struct{}, cancel func()) { return s.sessions.subscribe() }
