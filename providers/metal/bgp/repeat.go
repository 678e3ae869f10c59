package bgp

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/config"
)

// Over a session that begins, the library sends one path of each destination of a table that is not its first one, even to a router
// that takes several: it looks whether ADD-PATH was negotiated for the family that such a table has in the library. What is
// announced while the session is up it sends as it should. So what is announced is announced again when a session has begun.

// beginnings remember the groups with routers whose sessions have begun since the last take. It is safe for concurrent use.
type beginnings struct {
	// some has room for one notice.
	some chan struct{}

	mu     sync.Mutex
	groups map[string]bool
}

func newBeginnings() *beginnings {
	return &beginnings{some: make(chan struct{}, 1), groups: map[string]bool{}}
}

// add says that a session has begun with a router that is served from the table of a group.
func (b *beginnings) add(group string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.groups[group] = true
	select {
	case b.some <- struct{}{}:
	default: // a notice is waiting already
	}
}

// take returns the groups since the last time, sorted.
func (b *beginnings) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer clear(b.groups)
	return slices.Sorted(maps.Keys(b.groups))
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
	groups := s.sessions.begun.take()
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
