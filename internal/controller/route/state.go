package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// persistent is how many failures in a row an operation has, some ten minutes, until only every kit.LongestRetry another try is worth its call.
	persistent = 20
	// maxLag is how late a list may show what the cloud has accepted: no list that contradicts it is believed before.
	maxLag = 2 * time.Minute
	// singleAfter is after how many failures in company an operation is alone, however large batches are.
	singleAfter = 16
)

// state is what the controller remembers of its operations from one pass to the next: which are under way, which have just
// been done, and which failed and when they may be tried again; and which routes there are by all that it has seen.
type state struct {
	// period is the time between two lists: one list alone denies no route that was shown before.
	period time.Duration

	mu       sync.Mutex
	attempts map[string]*attempt
	// shown are the routes that a list, a creation of ours or the condition of its node has shown.
	shown map[key]shownRoute
	// unsupported are the families of which the provider last said that it makes no routes.
	unsupported []family
}

// shownRoute is a route that was there.
type shownRoute struct {
	// made is when this process made it; zero once a list has shown it. denied is since when lists lack it; zero: the newest one shows it.
	made, denied time.Time
}

// attempt is what is remembered of one operation.
type attempt struct {
	destination destination
	removal     bool
	underWay    bool
	// abandoned says that the pass which began the operation has ended without waiting for it.
	abandoned bool
	done      time.Time
	// accepted is how many times in a row the operation was done and the list of routes asked for it again.
	accepted int
	failures kit.Row
	// together is how many times in a row the operation failed because the call failed that it shared with others; alone if that hung.
	together int
}

func newState(period time.Duration) *state {
	return &state{period: period, attempts: map[string]*attempt{}, shown: map[key]shownRoute{}}
}

// operation names what an action is about. A want whose node has got other addresses is another operation: what failed with
// the old ones is tried with the new ones at once.
func (a action) operation() string {
	if a.kind == remove {
		return fmt.Sprintf("remove|%s|%s|%s", a.old.Name, a.old.DestinationCIDR, a.old.TargetNode)
	}
	return fmt.Sprintf("make|%s|%s|%s", a.want.uid, a.want.destination, joinAddresses(a.want.addresses))
}

func joinAddresses(addresses []corev1.NodeAddress) string {
	var texts []string
	for _, address := range addresses {
		texts = append(texts, string(address.Type)+"="+address.Address)
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// allowed is what of a plan is done in this pass.
type allowed struct {
	removals, makes []action
	// waiting are the wants whose operations have to wait: they failed a moment ago, or others are in their way.
	waiting []want
}

// without holds back what would touch routes to some nodes, and whatever these routes are in the way of.
func (a allowed) without(held map[types.NodeName]bool) allowed {
	if len(held) == 0 {
		return a
	}
	rest := allowed{waiting: slices.Clone(a.waiting)}
	var blocked []destination
	for _, removal := range a.removals {
		if held[removal.old.TargetNode] {
			blocked = append(blocked, removal.destination())
		} else {
			rest.removals = append(rest.removals, removal)
		}
	}
	for _, making := range a.makes {
		if making.old != nil && held[making.old.TargetNode] || slices.ContainsFunc(blocked, making.destination().losesTo) {
			rest.waiting = append(rest.waiting, *making.want)
		} else {
			rest.makes = append(rest.makes, making)
		}
	}
	return rest
}

// underWay returns the destinations of the operations that have not ended. Take them before the routes are listed: the list
// may show them in any state.
func (s *state) underWay() []destination {
	s.mu.Lock()
	defer s.mu.Unlock()
	var destinations []destination
	for _, known := range s.attempts {
		if known.underWay {
			destinations = append(destinations, known.destination)
		}
	}
	return destinations
}

// admit returns the part of a plan that is to be done now. busy are the destinations whose operations were under way when the
// routes were listed. Nothing is done to a destination that is busy, and no route is made while one that should be gone, or whose
// operation is under way, would take packets from it. Nor is one made again that a list lacks, before lists have lacked it for
// longer than they may lag.
func (s *state) admit(d desired, p plan, busy []destination, now time.Time) allowed {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p, now)
	s.observe(d, p, busy, now)
	var admitted allowed
	blocked := busy
	for _, removal := range p.removals {
		known := s.attempts[removal.operation()]
		switch {
		case slices.Contains(busy, removal.destination()), known.waitsForRetry(now):
			blocked = append(blocked, removal.destination())
		case !known.justDone(now):
			admitted.removals = append(admitted.removals, removal)
		}
	}
	for _, making := range p.makes {
		known := s.attempts[making.operation()]
		switch {
		case slices.ContainsFunc(blocked, making.destination().losesTo), known.waitsForRetry(now):
			admitted.waiting = append(admitted.waiting, *making.want)
		case !known.justDone(now) && !s.doubted(making, now):
			admitted.makes = append(admitted.makes, making)
		}
	}
	return admitted
}

// forget drops attempts that are no longer needed. The lock is held.
func (s *state) forget(p plan, now time.Time) {
	planned := map[string]bool{}
	for _, action := range slices.Concat(p.removals, p.makes) {
		planned[action.operation()] = true
	}
	for operation, known := range s.attempts {
		if !planned[operation] && !known.underWay && !(known.removal && known.justDone(now)) {
			delete(s.attempts, operation)
		}
	}
}

// observe takes in which of the wanted routes the list shows: those for which nothing is planned. The lock is held.
func (s *state) observe(d desired, p plan, busy []destination, now time.Time) {
	missing, other := map[key]bool{}, map[key]bool{}
	for _, making := range p.makes {
		missing[making.want.key()] = true
		// Another route is where this one should be: that is no list that lags, unless it has just been replaced.
		other[making.want.key()] = making.kind != create && !s.attempts[making.operation()].justDone(now)
	}
	for _, want := range p.unmet {
		missing[want.key()] = true
	}
	before := s.shown
	s.shown = map[key]shownRoute{}
	for _, want := range slices.Concat(d.wants, d.presumed) {
		known, found := before[want.key()]
		switch {
		case other[want.key()]:
			continue
		case slices.Contains(busy, want.destination):
		case !missing[want.key()]:
			known, found = shownRoute{}, true
		case known.denied.IsZero():
			known.denied, found = now, found || want.shown
		}
		if found {
			s.shown[want.key()] = known
		}
	}
}

// doubted reports whether a list that lacks a route is not to be believed yet. The lock is held.
func (s *state) doubted(making action, now time.Time) bool {
	known, found := s.shown[making.want.key()]
	return found && making.kind == create && now.Before(s.believed(known))
}

// believed is when a list is believed that lacks a route. The lock is held.
func (s *state) believed(known shownRoute) time.Time {
	return kit.Later(known.denied.Add(s.period), known.made.Add(maxLag))
}

// deniable reports whether a node may be told that it lacks a route: there was never one, or lists deny it for longer than they may lag. That is
// maxLag, however late lists were so far: one page may be empty several times in a row, and the creation that follows may be refused. While a route
// that was there is being made again, its end is what counts, as in the reference.
func (s *state) deniable(k key, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.shown[k]
	if !found {
		return true
	}
	for _, attempt := range s.attempts {
		if attempt.underWay && attempt.destination == k.destination {
			return false
		}
	}
	return !known.denied.IsZero() && now.Sub(known.denied) >= maxLag
}

// doubts reports whether the newest list lacks routes for which it is not believed: another list is due.
func (s *state) doubts(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.shown {
		if !known.denied.IsZero() && now.Before(s.believed(known)) {
			return true
		}
	}
	return false
}

// waitsForRetry reports whether the operation failed and may not be tried again yet.
func (a *attempt) waitsForRetry(now time.Time) bool { return a != nil && a.failures.Rests(now) }

// justDone reports whether the operation has been done so recently that a list may not show it yet.
func (a *attempt) justDone(now time.Time) bool {
	return a != nil && !a.done.IsZero() && now.Sub(a.done) < maxLag
}

// get returns a copy of what is remembered of an operation, the zero value for nothing.
func (s *state) get(a action) attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.attempts[a.operation()]; known != nil {
		return *known
	}
	return attempt{}
}

// begin notes that an operation is under way.
func (s *state) begin(a action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.attempts[a.operation()]
	if known == nil {
		known = &attempt{destination: a.destination(), removal: a.kind == remove}
		s.attempts[a.operation()] = known
	}
	known.underWay, known.abandoned = true, false
}

// end notes what became of an operation. It reports whether the pass that began it has ended before.
func (s *state) end(a action, err error, now time.Time) (late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.attempts[a.operation()]
	known.underWay = false
	s.support(a, err)
	if err == nil {
		known.done, known.failures, known.together = now, kit.Row{}, 0
		known.accepted++
		if a.want != nil {
			s.shown[a.want.key()] = shownRoute{made: now}
		}
		return known.abandoned
	}
	known.done, known.failures = time.Time{}, known.failures.Failed(now, s.retries(known.failures.Count, err), err)
	switch {
	case errors.Is(err, classify.ErrDeadline), errors.Is(err, classify.ErrStillRunning):
		known.together = singleAfter // each smaller batch with the one that hangs would take as long again
	case isOwnFailure(err), provider.IsThrottled(err):
		// A refusal for quota says that there are too many calls: not that there are too few.
	default:
		known.together++
	}
	return known.abandoned
}

// support takes in whether the provider makes routes of a family: its last answer counts. The lock is held.
func (s *state) support(a action, err error) {
	to := a.destination().prefix
	if a.want == nil || !to.IsValid() {
		return
	}
	s.unsupported = slices.DeleteFunc(s.unsupported, func(one family) bool { return one == familyOf(to) })
	if errors.Is(err, cloudprovider.NotImplemented) {
		s.unsupported = append(s.unsupported, familyOf(to))
	}
}

// unsupportedFamilies returns the families of which the provider makes no routes.
func (s *state) unsupportedFamilies() []family {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unsupported)
}

// abandon marks those of the actions that are still under way, and returns how many they are.
func (s *state) abandon(actions []action) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, action := range actions {
		if known := s.attempts[action.operation()]; known.underWay {
			known.abandoned = true
			left++
		}
	}
	return left
}

// next returns when the first of the operations that rest may be tried again, or a list is believed that lacks a route; zero: nothing
// waits for that.
func (s *state) next(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for _, known := range s.attempts {
		if known.underWay || !known.waitsForRetry(now) {
			continue
		}
		at := known.failures.Until
		if soonest := now.Add(min(s.period, DefaultPeriod)); known.together == 0 && at.Before(soonest) {
			at = soonest // a pass costs a list: operations that failed one after the other are tried together
		}
		first = earlier(first, at)
	}
	for _, known := range s.shown {
		if at := s.believed(known); !known.denied.IsZero() && at.After(now) {
			first = earlier(first, at)
		}
	}
	return first
}

// retries returns the pauses after failures of one operation. The reference repeats it with each of its lists, one in ten seconds by default.
// What failed in company is not to wait for that: it may not be at fault.
func (s *state) retries(before int, err error) kit.Backoff {
	pauses := backoff()
	if isOwnFailure(err) {
		pauses.First = min(s.period, DefaultPeriod)
		if before < persistent {
			pauses.Longest = idlePeriods * pauses.First
		}
	}
	return pauses
}

// backoff returns the pauses after failures in a row: the longest after an error that repeating cannot help, if it is not another operation's.
func backoff() kit.Backoff {
	return kit.Backoff{
		First: kit.Moment, Longest: kit.LongestRetry, Terminal: kit.LongestRetry,
		IsTerminal: func(err error) bool { return provider.IsTerminal(err) && isOwnFailure(err) },
	}
}
