package announce

import (
	"net/netip"
	"time"

	"github.com/mooring-ccm/mooring/providers/metal/lb/announce/model"
)

const (
	// downFor is how long a router takes nothing before conditions say so: a session that is reset is back within seconds.
	downFor = 10 * time.Second
	// A router that goes and comes costs a write for each Service each time, so what conditions say of it changes at most
	// routerChanges times in a row, and then once in a routerPause.
	routerChanges = 4
	routerPause   = time.Minute
)

// Router is how far announcements of this replica get with one router.
type Router struct {
	// Name is the router's name.
	Name string
	// Elsewhere says that other replicas are to have a session with it, and this one is not: what they get to it is not known.
	Elsewhere bool
	// Families say it for each address family.
	Families [model.Families]RouterFamily
}

// RouterFamily is how far announcements of one address family get.
type RouterFamily struct {
	// Wanted says that the router is to have the family.
	Wanted bool
	// Why says why nothing of the family is announced to it, as "does not answer"; empty if it is.
	Why string
}

type routerKey struct {
	name   string
	family model.Family
}

// routerState is what conditions say of a router, and what they are about to say.
type routerState struct {
	// elsewhere says that other replicas serve the router; then nothing else is set.
	elsewhere bool
	// known says that why is what conditions say, which is empty for a router that takes addresses.
	known bool
	why   string
	// differs is since when it is otherwise, and candidate how; zero while it is not.
	differs   time.Time
	candidate string
	// changes are how many changes are left, and counted is when one was last added.
	changes int
	counted time.Time
}

// routerStates are those of all routers.
type routerStates map[routerKey]*routerState

// observe takes what is so now, and returns after what time alone the state may be another one; zero if it will not.
func (s *routerState) observe(why string, now time.Time) time.Duration {
	if s.changes == 0 && s.counted.IsZero() {
		s.changes, s.counted = routerChanges, now
	}
	for s.changes < routerChanges && now.Sub(s.counted) >= routerPause {
		s.changes, s.counted = s.changes+1, s.counted.Add(routerPause)
	}
	if s.changes == routerChanges {
		s.counted = now
	}
	if s.known && s.why == why {
		s.differs = time.Time{}
		return 0
	}
	// Going down takes its time whatever the words for it; other words for being down have to last.
	if s.differs.IsZero() || s.known && s.why != "" && why != s.candidate {
		s.differs = now
	}
	s.candidate = why
	due := s.differs
	if why != "" {
		due = due.Add(downFor)
	}
	if s.known && s.changes == 0 && due.Before(s.counted.Add(routerPause)) {
		due = s.counted.Add(routerPause)
	}
	if wait := due.Sub(now); wait > 0 {
		return wait
	}
	if s.known {
		s.changes--
	}
	s.known, s.why, s.differs = true, why, time.Time{}
	return 0
}

// deliveries are how far addresses get, as conditions say it.
type deliveries struct {
	families  [model.Families]model.Delivery
	undecided [model.Families]bool
	each      map[routerKey]*routerState
}

// to returns who was given an address that is announced to these peers, nil for all, and whether that is not known yet.
func (d *deliveries) to(family model.Family, peers []string) (model.Delivery, bool) {
	if peers == nil {
		return d.families[family], d.undecided[family]
	}
	some := &deliveries{}
	for _, name := range peers {
		if key := (routerKey{name, family}); d.each[key] != nil {
			some.add(key, d.each[key])
		}
	}
	return some.families[family], some.undecided[family]
}

// deliveries returns how far addresses get, nil where that is not known, and after what time alone that may change.
func (w *ConditionWriter) deliveries(now time.Time, toRouters, onSegment bool) (*deliveries, time.Duration) {
	switch {
	case !toRouters && !onSegment:
		return nil, time.Minute
	case !toRouters:
		return &deliveries{families: [model.Families]model.Delivery{{SegmentOnly: true}, {SegmentOnly: true}}}, time.Minute
	}
	result, next, states := &deliveries{}, time.Minute, routerStates{}
	for _, router := range w.Routers() {
		for family, is := range router.Families {
			if !is.Wanted {
				continue
			}
			key := routerKey{router.Name, model.Family(family)}
			state := w.routers[key]
			if state == nil || state.elsewhere != router.Elsewhere {
				state = &routerState{elsewhere: router.Elsewhere}
			}
			states[key] = state
			if state.elsewhere {
				result.add(key, state)
				continue
			}
			if wait := state.observe(is.Why, now); wait > 0 {
				next = min(next, wait)
			}
			result.add(key, state)
		}
	}
	w.routers, result.each = states, states
	return result, next
}

func (d *deliveries) add(key routerKey, state *routerState) {
	delivery := &d.families[key.family]
	if state.elsewhere {
		delivery.Elsewhere++
		return
	}
	delivery.Routers++
	switch {
	case !state.known:
		d.undecided[key.family] = true
	case state.why == "":
		delivery.Took++
		delivery.TookBy = append(delivery.TookBy, key.name)
	default:
		delivery.Missing = append(delivery.Missing, key.name+" "+state.why)
	}
}

// of returns the state of a Service with who was given its addresses. It is undecided while that is not known of one that has next hops.
func (d *deliveries) of(state model.ServiceState, onSegment func(netip.Addr) (bool, string)) (delivered model.ServiceState, undecided bool) {
	delivered = model.ServiceState{UID: state.UID, Addresses: make([]model.AddressState, len(state.Addresses))}
	for i, address := range state.Addresses {
		family := model.FamilyOf(address.Addr)
		if len(address.NextHops) > 0 {
			delivery, unknown := d.to(family, address.Peers)
			undecided = undecided || unknown
			if onSegment != nil {
				delivery.OnSegment, delivery.Unanswered = onSegment(address.Addr)
			}
			address.Delivery = &delivery
		}
		delivered.Addresses[i] = address
	}
	return delivered, undecided
}
