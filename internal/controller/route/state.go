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

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// firstDelay is the pause after an operation failed for the first time; it doubles with each further failure.
	firstDelay = time.Second
	// maxFresh is how long a list of routes may take to show what was done to them.
	maxFresh = 5 * time.Second
	// alone is after how many failures in company an operation is alone, however large batches are.
	alone = 16
)

// state is what the controller remembers of its operations from one pass to the next: which are under way, which have just
// been done, and which failed and when they may be tried again.
type state struct {
	// fresh is how long a list is not believed that contradicts what was done. maxDelay is the longest pause after failures.
	fresh, maxDelay time.Duration

	mu       sync.Mutex
	attempts map[string]*attempt
}

// attempt is what is remembered of one operation.
type attempt struct {
	destination destination
	underWay    bool
	// abandoned says that the pass which began the operation has ended without waiting for it.
	abandoned bool
	done      time.Time
	// accepted is how many times in a row the operation was done and the list of routes asked for it again.
	accepted  int
	failures  int
	notBefore time.Time
	// together is how many times in a row the operation failed because the call failed that it shared with others; alone if that hung.
	together int
}

func newState(fresh, maxDelay time.Duration) *state {
	return &state{fresh: fresh, maxDelay: maxDelay, attempts: map[string]*attempt{}}
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

// admission is what of a plan is done in this pass.
type admission struct {
	removals, makes []action
	// waiting are the wants whose operations have to wait: they failed a moment ago, or others are in their way.
	waiting []want
}

// without holds back what would touch routes to some nodes, and whatever these routes are in the way of.
func (a admission) without(held map[types.NodeName]bool) admission {
	if len(held) == 0 {
		return a
	}
	rest := admission{waiting: slices.Clone(a.waiting)}
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
// operation is under way, would take packets from it.
func (s *state) admit(p plan, busy []destination, now time.Time) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(p, now)
	var admitted admission
	blocked := busy
	for _, removal := range p.removals {
		known := s.attempts[removal.operation()]
		switch {
		case slices.Contains(busy, removal.destination()), known.rests(now):
			blocked = append(blocked, removal.destination())
		case !known.fresh(now, s.believed(known)):
			admitted.removals = append(admitted.removals, removal)
		}
	}
	for _, making := range p.makes {
		known := s.attempts[making.operation()]
		switch {
		case slices.ContainsFunc(blocked, making.destination().losesTo), known.rests(now):
			admitted.waiting = append(admitted.waiting, *making.want)
		case !known.fresh(now, s.believed(known)):
			admitted.makes = append(admitted.makes, making)
		}
	}
	return admitted
}

// forget drops what is of no use any more. The lock is held.
func (s *state) forget(p plan, now time.Time) {
	planned := map[string]bool{}
	for _, action := range slices.Concat(p.removals, p.makes) {
		planned[action.operation()] = true
	}
	for operation, known := range s.attempts {
		if !planned[operation] && !known.underWay && !known.fresh(now, s.fresh) {
			delete(s.attempts, operation)
		}
	}
}

// rests reports whether the operation failed and may not be tried again yet.
func (a *attempt) rests(now time.Time) bool { return a != nil && now.Before(a.notBefore) }

// fresh reports whether the operation has been done so recently that a list may not show it yet.
func (a *attempt) fresh(now time.Time, within time.Duration) bool {
	return a != nil && !a.done.IsZero() && now.Sub(a.done) < within
}

// believed returns how long what was done is believed against a list that contradicts it. It doubles each time: some clouds list a
// route by another name than that of its node, and making it again interrupts the node's traffic.
func (s *state) believed(known *attempt) time.Duration {
	within := s.fresh
	for again := 1; known != nil && again < known.accepted && within < s.maxDelay; again++ {
		within *= 2
	}
	return min(within, max(s.fresh, s.maxDelay))
}

// acceptedBefore returns how many times in a row an operation was done that the list of routes still asks for.
func (s *state) acceptedBefore(a action) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.attempts[a.operation()]; known != nil {
		return known.accepted
	}
	return 0
}

// begin notes that an operation is under way.
func (s *state) begin(a action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.attempts[a.operation()]
	if known == nil {
		known = &attempt{destination: a.destination()}
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
	if err == nil {
		known.done, known.failures, known.notBefore, known.together = now, 0, time.Time{}, 0
		known.accepted++
		return known.abandoned
	}
	known.done, known.notBefore = time.Time{}, now.Add(backoff(s.maxDelay).After(known.failures, err))
	known.failures++
	switch {
	case errors.Is(err, cloud.ErrDeadline), errors.Is(err, cloud.ErrStillRunning):
		known.together = alone // each smaller batch with the one that hangs would take as long again
	case isOwnFailure(err), provider.IsThrottled(err), errors.Is(err, cloud.ErrUnavailable):
		// A refusal for quota, or a call that was never made, says that there are too many calls: not that there are too few.
	default:
		known.together++
	}
	return known.abandoned
}

// batchFailures returns how many times in a row an operation failed because the call failed that it shared with others.
func (s *state) batchFailures(a action) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.attempts[a.operation()]; known != nil {
		return known.together
	}
	return 0
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

// next returns when the first of the operations that rest may be tried again, zero if none rests.
func (s *state) next(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for _, known := range s.attempts {
		if !known.underWay && known.rests(now) && (first.IsZero() || known.notBefore.Before(first)) {
			first = known.notBefore
		}
	}
	return first
}

// backoff returns the pauses after failures of one operation, or of passes: the longest after an error that repeating cannot help, if it
// is not another operation's.
func backoff(longest time.Duration) kit.Backoff {
	return kit.Backoff{
		First: firstDelay, Longest: longest, Terminal: longest,
		IsTerminal: func(err error) bool { return provider.IsTerminal(err) && isOwnFailure(err) },
	}
}
