package cloud

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// forgetObject is after how long without a call an object is forgotten.
	forgetObject = time.Hour
	// actingRefusals is how many refusals in a row of one object reduce the rate of its group; only the first holds it.
	actingRefusals = 2
	// Refusals are the object's own matter, and none of the quota's, when calls for others went through meanwhile and none of
	// those was refused: ownRefusals in a row while ownWitnesses others went through, or two over ownSpan while any did.
	ownRefusals  = 3
	ownWitnesses = 4
	ownSpan      = 10 * time.Second
	// So it is with an object that is refused in habitRows rows, with answers in between, none of them habitGap after the one
	// before, while others are accepted that never were refused.
	habitRows = 3
	habitGap  = 15 * time.Minute
	// againAfter is how many reads of one object may have been abandoned until the next has to wait: for the deadline of a
	// read, doubled with each further one, up to longestAgain. From manyAbandoned on the pause doubles again, up to rareAgain: each
	// read that never returns costs a goroutine forever, and one object alone must not use up in days what its group may have of them.
	againAfter    = 2
	longestAgain  = 30 * time.Minute
	manyAbandoned = 16
	rareAgain     = 24 * time.Hour
)

// ErrStillRunning says that a call was not made because an earlier one about the same object has not returned, long after its
// deadline. A write keeps its object until it returns: another beside it might undo what it does. Only a change that was one of several in
// a call may be made once more, alone: see subject.repeats.
var ErrStillRunning = errors.New("an earlier call has not returned")

// StillRunningError is an ErrStillRunning that says which call it is.
type StillRunningError struct {
	// Operation is the plugin's method that has not returned, Object what it is about.
	Operation, Object string
	// Since is when that call began.
	Since time.Time
}

// Error names the call.
func (e *StillRunningError) Error() string {
	return fmt.Sprintf("%v: %s for %s has been running since %s and ignores its deadline; if it never returns, restart this process",
		ErrStillRunning, e.Operation, e.Object, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrStillRunning.
func (e *StillRunningError) Unwrap() error { return ErrStillRunning }

// object is what is known of a node, a Service, a route or a listing from the calls about it.
type object struct {
	used time.Time
	// worked has a bit for each method whose last answer was no failure.
	worked uint64

	// refusals is how many calls in a row were refused for the quota. The row is looked at from a refusal at rowAt on, in which
	// there have been rowLength, when the group's counts were rowBefore.
	refusals  int
	rowAt     time.Time
	rowLength int
	rowBefore counts
	own       bool // the refusals are its own matter

	// rows is how many rows of refusals there were, the last at lastRow, and cleanBefore the count of the group at the first.
	rows        int
	lastRow     time.Time
	cleanBefore uint64

	hung      bool      // its last call was not back at its deadline
	abandoned int       // calls that have not returned long after that
	again     time.Time // when the next read may be made
	// hanging is the newest of those, and locked the writes among them.
	hanging *waiter
	locked  []*waiter
}

// counts are what became of the calls of a group, of whatever object.
type counts struct {
	accepted uint64
	// clean are those of objects that were not refused of late.
	clean uint64
	// fresh are refusals of objects whose last call was not refused.
	fresh uint64
}

// behind reports whether calls about an object wait behind those about others.
func (o *object) behind() bool { return o.hung || o.refusals > 0 }

// refuse notes a refusal for the quota. All are the counts of the group with this refusal.
func (o *object) refuse(all counts, now time.Time) {
	o.refusals++
	if o.refusals == 1 {
		if now.Sub(o.lastRow) > habitGap {
			o.rows, o.cleanBefore = 0, all.clean
		}
		o.rows, o.lastRow = o.rows+1, now
	}
	if o.refusals == 1 || !o.own && all.fresh > o.rowBefore.fresh {
		o.rowAt, o.rowLength, o.rowBefore = now, 0, all // somebody else was refused too: the row is looked at from here on
	}
	o.rowLength++
	o.attribute(all, now)
}

// attribute returns whether the object's refusals are its own matter: others are let through in between, and none of them is
// refused.
func (o *object) attribute(all counts, now time.Time) bool {
	if !o.own && o.rowLength > 1 && all.fresh == o.rowBefore.fresh {
		others := all.accepted - o.rowBefore.accepted
		o.own = o.rowLength >= ownRefusals && others >= ownWitnesses || now.Sub(o.rowAt) >= ownSpan && others > 0
	}
	o.own = o.own || o.rows >= habitRows && all.clean-o.cleanBefore >= ownWitnesses
	return o.own
}

// clean reports whether an object was not refused of late.
func (o *object) clean(now time.Time) bool { return o.rows == 0 || now.Sub(o.lastRow) > habitGap }

// accept notes that a call was not refused.
func (o *object) accept() { o.refusals, o.rowLength, o.own = 0, 0, false }

// abandon notes a call that is given up although it has not returned.
func (o *object) abandon(w *waiter, timeout time.Duration, now time.Time) {
	o.hung = true
	o.abandoned++
	o.hanging = w
	if w.about.write {
		o.locked = append(o.locked, w)
	}
	if o.abandoned >= againAfter {
		o.again = now.Add(againPause(o.abandoned, timeout))
	}
}

// againPause returns how long an object waits for its next read when so many have not returned.
func againPause(abandoned int, timeout time.Duration) time.Duration {
	const doublings = 16 // more than there are up to any of the bounds
	if beyond := abandoned - manyAbandoned; beyond > 0 {
		return min(longestAgain<<min(beyond, doublings), rareAgain)
	}
	return min(timeout<<min(abandoned-1, doublings), longestAgain)
}

// returned notes that an abandoned call has returned after all.
func (o *object) returned(w *waiter) {
	o.abandoned--
	o.locked = slices.DeleteFunc(o.locked, func(locked *waiter) bool { return locked == w })
	if o.abandoned == 0 {
		o.hanging, o.again = nil, time.Time{}
	}
}

// free returns an error while no call about the object may be made. Crowded says that the group has so many abandoned calls
// that what hangs already gets no more of them.
func (o *object) free(about subject, crowded bool, now time.Time) error {
	running := o.hanging
	lock := slices.IndexFunc(o.locked, func(w *waiter) bool { return !about.repeats(w.about) })
	switch {
	case about.write && lock >= 0:
		running = o.locked[lock]
	case o.abandoned > 0 && (crowded || now.Before(o.again)):
	default:
		return nil
	}
	return &StillRunningError{Operation: running.about.name, Object: running.about.key(), Since: running.admitted}
}

// idle reports whether nothing depends on what is known of the object.
func (o *object) idle(now time.Time) bool { return o.abandoned == 0 && now.Sub(o.used) > forgetObject }
