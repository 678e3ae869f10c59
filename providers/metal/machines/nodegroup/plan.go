package nodegroup

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

// changes are new intents, by the IDs of machines.
type changes map[string]intent

// errNotEnough says that a group has no further machine that may be turned on.
var errNotEnough = errors.New("the node group has no further machine that may be turned on")

// size is how many machines are to be awake.
func size(machines []facts) int {
	count := 0
	for _, m := range machines {
		if m.intent.Want != asleep {
			count++
		}
	}
	return count
}

// increase returns the intents by which so many machines more are awake. First come machines that may be turned on at once: a BMC that
// answers before one that does not, and then the machine that was off for longest. Machines that still rest come last: they are turned on
// later, and are shown as an error until then. If there are too few, increase returns the ones that there are, and an error.
func increase(machines []facts, l limits, delta int, now time.Time) (changes, error) {
	if now := size(machines); delta < 1 || now+delta > l.max {
		return nil, fmt.Errorf("%w: %q has %d, by %d more it would not be within its maximum of %d", provider.ErrNodeGroupSize, l.name, now, delta, l.max)
	}
	var free []facts
	why := map[string]int{}
	for _, m := range machines {
		switch reason := unavailable(m); {
		case m.intent.Want != asleep:
		case reason != "":
			why[reason]++
		default:
			free = append(free, m)
		}
	}
	slices.SortFunc(free, func(a, b facts) int { return compareFree(a, b, l, now) })
	planned := changes{}
	for _, m := range free[:min(delta, len(free))] {
		next := intent{Want: awake, Since: now, Waking: true, Cycle: m.intent.Cycle}
		if m.intent.rested(l.minCycle, now) {
			next.Cycle = now
		}
		planned[m.id] = next
	}
	if len(free) < delta {
		return planned, fmt.Errorf("%w: %d of %d are turned on%s", errNotEnough, len(free), delta, reasons(why))
	}
	return planned, nil
}

// unavailable returns why a machine that is asleep cannot be turned on by us; empty if it can.
func unavailable(m facts) string {
	switch {
	case m.unreadable:
		return "record unreadable"
	case m.maintenance:
		return "under maintenance"
	case m.intent.Held != "":
		return m.intent.Held
	case m.node.held != "":
		return m.node.held
	case !m.intent.sleeps(), m.busy:
		return "still going to sleep"
	case m.node.name != "":
		return "old node still there"
	default:
		return ""
	}
}

func reasons(why map[string]int) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		parts = append(parts, fmt.Sprintf("%d %s", why[reason], reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; of the others, " + strings.Join(parts, ", ")
}

// compareFree orders machines by which is better turned on.
func compareFree(a, b facts, l limits, now time.Time) int {
	first := func(better, worse bool) int {
		switch {
		case better == worse:
			return 0
		case better:
			return -1
		default:
			return 1
		}
	}
	restedA, restedB := a.intent.rested(l.minCycle, now), b.intent.rested(l.minCycle, now)
	if byRest := first(restedA, restedB); byRest != 0 {
		return byRest
	}
	if !restedA {
		return cmp.Or(a.intent.Cycle.Compare(b.intent.Cycle), cmp.Compare(a.id, b.id))
	}
	return cmp.Or(first(a.power == nodestate.Off, b.power == nodestate.Off), a.intent.Off.Compare(b.intent.Off), cmp.Compare(a.id, b.id))
}

// decrease returns the intents by which so many machines that are not on yet stay off: those first that have not been told to turn
// on, then the newest.
func decrease(machines []facts, l limits, delta int, now time.Time) (changes, error) {
	var waiting []facts
	for _, m := range machines {
		if m.intent.Want != asleep && m.intent.Waking && m.power != nodestate.On && m.node.name == "" && !m.unreadable {
			waiting = append(waiting, m)
		}
	}
	if delta < 1 || delta > len(waiting) {
		return nil, fmt.Errorf("%w: %q waits for %d, which cannot be reduced by %d", provider.ErrNodeGroupSize, l.name, len(waiting), delta)
	}
	slices.SortFunc(waiting, func(a, b facts) int {
		if a.intent.begun() != b.intent.begun() {
			if b.intent.begun() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.intent.Since.Compare(a.intent.Since), cmp.Compare(a.id, b.id))
	})
	planned := changes{}
	for _, m := range waiting[:delta] {
		planned[m.id] = intent{Want: asleep, Since: now, Cycle: m.intent.lastCycle(now)}
	}
	return planned, nil
}

// remove returns the intents by which machines go to sleep. If one of them may not, none does.
func remove(machines []facts, ids []string, now time.Time) (changes, error) {
	planned := changes{}
	for _, m := range machines {
		if !slices.Contains(ids, m.id) || m.intent.Want == asleep {
			continue
		}
		if err := mayTurnOff(m); err != nil {
			return nil, err
		}
		planned[m.id] = intent{Want: asleep, Since: now, Cycle: m.intent.lastCycle(now), Held: m.node.held}
	}
	return planned, nil
}

// lastCycle returns when a machine was last turned on, for one that goes to sleep: one that was told to turn on and has not been seen to be
// may have turned on until now.
func (i intent) lastCycle(now time.Time) time.Time {
	if i.Waking && i.begun() {
		return now
	}
	return i.Cycle
}

// errNotToBeTurnedOff says that a machine must stay on.
var errNotToBeTurnedOff = errors.New("the machine is not turned off")

// mayTurnOff returns why a machine must not be turned off, whatever is recorded of it; nil if it may.
func mayTurnOff(m facts) error {
	why := ""
	switch {
	case m.unreadable:
		why = "its record cannot be read"
	case m.maintenance:
		why = "it is under maintenance"
	case m.node.needed:
		why = fmt.Sprintf("its node %s is ready and does not have the taint %s", m.node.name, names.TaintToBeDeleted)
	case m.node.controlPlane:
		why = fmt.Sprintf("its node %s is one of the control plane", m.node.name)
	case m.node.own:
		why = fmt.Sprintf("this replica runs on its node %s", m.node.name)
	default:
		return nil
	}
	return fmt.Errorf("machine %s: %w: %s", m.name, errNotToBeTurnedOff, why)
}

// kind is what is done to a machine.
type kind int

const (
	// turnOn tells its BMC to turn it on, shutDown to have its operating system shut down, and turnOff to take the power away.
	turnOn kind = iota
	shutDown
	turnOff
)

// action is one command to a BMC.
type action struct {
	kind    kind
	machine facts
}

// powerOnDelay is how long after the command to turn a machine on its BMC may still report it as off.
const powerOnDelay = 15 * time.Second

// tainted is how long it may take at most until the taint of a node is seen that the autoscaler removes.
const tainted = time.Minute

// advance returns what is to be recorded of machines, by what is known of them now, and what their BMCs are to be told. Of a machine
// whose intent changes nothing is told before that is recorded. The leader leads since begun.
func advance(machines []facts, l limits, begun, now time.Time) (changes, []action) {
	planned := changes{}
	var actions []action
	for _, m := range machines {
		if m.busy || m.unreadable {
			continue
		}
		if next, changed := follow(m, l, now); changed {
			planned[m.id] = next
			continue
		}
		if what, due := command(m, l, begun, now); due {
			actions = append(actions, action{what, m})
		}
	}
	return planned, actions
}

// follow returns what a machine is to be by what others did to it, and whether that is something else than what is recorded.
func follow(m facts, l limits, now time.Time) (intent, bool) {
	next := m.intent
	turnedOn := m.node.needed && now.Sub(m.intent.Since) >= tainted || m.power == nodestate.On && !m.intent.Off.IsZero()
	switch {
	case !m.recorded: // a machine that is off and has no node counts as one that was put to sleep
		return intent{Want: asleep, Since: now, Off: m.powerSince}, m.power == nodestate.Off && m.node.name == "" && !m.maintenance
	case m.intent.Want == asleep && turnedOn: // by an operator, whose decision that is
		return intent{Want: awake, Since: now, Cycle: m.intent.Cycle}, true
	case m.intent.Want == asleep && m.intent.Off.IsZero() && m.power == nodestate.Off && m.powerSeen.Sub(lastTold(m)) >= powerOnDelay:
		next.Off = m.powerSince
		return next, true
	case m.intent.Want == asleep:
		return next, false
	case m.intent.Waking && m.power == nodestate.On:
		if next.Waking = false; m.powerSince.After(next.Cycle) { // its BMC took its time
			next.Cycle = m.powerSince
		}
		return next, true
	case m.intent.Waking && !m.intent.begun() && m.intent.rested(l.minCycle, now) && !m.maintenance:
		next.Cycle = now
		return next, true
	default:
		return next, false
	}
}

// lastTold returns when a machine was last told to turn on, as far as that is known.
func lastTold(m facts) time.Time {
	if m.told.After(m.intent.Cycle) {
		return m.told
	}
	return m.intent.Cycle
}

// command returns what the BMC of a machine is to be told now, if anything is. A machine is turned off by force when its operating
// system has had its time: since this leader asked it, or, where it could not be asked, since that was decided and this leader leads.
func command(m facts, l limits, begun, now time.Time) (kind, bool) {
	switch {
	case m.maintenance || now.Before(m.notBefore):
		return 0, false
	case m.intent.Waking:
		return turnOn, m.intent.begun() && m.power != nodestate.On
	case m.intent.Want != asleep || !m.intent.Off.IsZero() || m.power == nodestate.Off || mayTurnOff(m) != nil:
		return 0, false
	}
	since := m.asked
	if since.IsZero() {
		since = m.intent.Since
		if since.Before(begun) {
			since = begun
		}
	}
	if now.Sub(since) >= l.shutDown {
		return turnOff, true
	}
	return shutDown, m.asked.IsZero()
}
