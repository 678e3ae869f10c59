package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

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
