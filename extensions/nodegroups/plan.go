package nodegroups

import (
	"fmt"
	"strings"
	"time"
)

// The pauses between looks at a node.
const (
	// lookAgain is after how long it is looked again whether load balancers have let go of a node.
	lookAgain = 2 * time.Second
	// insist is after how long an instance is deleted again whose node is still there. To delete one again is no error.
	insist = 2 * time.Minute
)

// targetState says whether load balancers have a node as a target.
type targetState int

const (
	// targetUnknown is when no list says so: there is none, or it does not have the targets.
	targetUnknown targetState = iota
	// targetNotListed is when there is a list and it could not be had.
	targetNotListed
	// targetOf is when some have.
	targetOf
	// targetOfNone is when none has, or there are none.
	targetOfNone
)

// facts are what is known of a node whose instance is to be deleted.
type facts struct {
	// announced says that the node carries the autoscaler's taint, and asked is when the deletion was asked for, at the latest when this process
	// first saw it: the clock of who wrote it may be ahead.
	announced bool
	asked     time.Time
	// accepted is when the cloud took the deletion, zero if it has not.
	accepted time.Time
	// next is when the cloud may be asked again after a failure.
	next time.Time
	// targets says whether load balancers have it, and balancers which.
	targets   targetState
	balancers []string
}

// kind is what is done.
type kind int

const (
	// wait looks again later.
	wait kind = iota
	// cancel takes the intent back.
	cancel
	// remove has the cloud delete the instance.
	remove
)

// decision is what is done about a node.
type decision struct {
	kind kind
	// after is when to look again. Zero: when something changes.
	after time.Duration
	// late says why it is removed although load balancers may have it, empty if they do not.
	late string
}

// decide returns what is to be done. Most is how long load balancers are waited for.
func decide(known facts, most time.Duration, now time.Time) decision {
	switch {
	case !known.announced && known.accepted.IsZero():
		return decision{kind: cancel}
	case !known.accepted.IsZero():
		if left := insist - now.Sub(known.accepted); left > 0 {
			return decision{kind: wait, after: left}
		}
		if !known.announced {
			return decision{kind: wait, after: insist} // it was taken back after it was done
		}
	}
	waited := now.Sub(known.asked)
	limit := most
	if known.targets == targetUnknown {
		limit /= 2
	}
	if known.targets != targetOfNone && known.accepted.IsZero() && waited < limit {
		return decision{kind: wait, after: min(lookAgain, limit-waited)}
	}
	if left := known.next.Sub(now); left > 0 {
		return decision{kind: wait, after: left}
	}
	return decision{kind: remove, late: lateness(known, waited)}
}

// lateness says what is not known to have happened.
func lateness(known facts, waited time.Duration) string {
	waited = waited.Round(time.Second)
	switch known.targets {
	case targetOf:
		return fmt.Sprintf("after %s it is still a target of the load balancers of %s", waited, strings.Join(known.balancers, ", "))
	case targetNotListed:
		return fmt.Sprintf("for %s the load balancers that may have it as a target could not be listed", waited)
	default:
		return ""
	}
}
