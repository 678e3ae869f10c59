package admission

import (
	"math"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
)

const (
	// firstRate is the rate after a first refusal, in calls a second. What was achieved before came out of the quota's burst, and says nothing.
	firstRate = 30.0
	// leastRate and mostRate bound the rate: a slower one would stop the process, and an unlimited one is no faster.
	leastRate, mostRate = 0.5, 2000.0
	// leastGuess bounds it where too few calls were accepted to estimate it by: the refusals may be about an object.
	leastGuess = 1.0
	// caution is the part of an estimate that is used, and mostCut the least that is left of the rate if enough calls were accepted.
	caution, mostCut = 0.95, 0.7
	// fewAccepted are too few calls to estimate a rate by.
	fewAccepted = 5
	// lateShare is by which part of the time between two calls one may be late without delaying the next, as a timer is: about what caution leaves.
	lateShare = 16
)

// ticket is a call that has been let in: the how many-th, when, and after how many cuts.
type ticket struct {
	seq  uint64
	at   time.Time
	cuts int
}

// quota is the rate that a cloud's refusals show. The zero value knows of none, and calls are let in as they come. A quota is a token bucket, and a
// refusal means that it is empty: the calls accepted between two refusals, by their time, are the rate at which it fills. The rate is cut to a
// little less, and grows while calls wait for it, more slowly after each cut. See decision 50.
type quota struct {
	rate     float64       // calls a second, 0: none is known
	doubling time.Duration // how long the rate takes to double while calls wait for it
	cuts     int

	last, empty       ticket    // the newest call, and the newest refused one
	next, pausedUntil time.Time // no call is let in before next, as the rate has it, and not before pausedUntil, as the cloud has it
	probing           bool      // after a pause, one call at a time, the last of them at probed
	probed            time.Time
	wanted            time.Time // when a call last waited for the rate, or the rate was cut
}

// ready returns when the next call may be let in, as far as the quota goes. A rate is dropped that no call has waited for, or that bounds no more.
func (q *quota) ready(now time.Time) time.Time {
	if q.rate > 0 && (q.rate >= mostRate || now.Sub(q.wanted) >= classify.MaxRetryAfter) {
		*q = quota{last: q.last, empty: q.last, cuts: q.cuts + 1}
	}
	if q.probing && !q.probed.IsZero() {
		return later(q.next, q.probed.Add(firstPause))
	}
	return q.next
}

// admit lets a call in.
func (q *quota) admit(now time.Time) ticket {
	if q.rate > 0 {
		gap := q.gap()
		if now.Sub(q.next) < gap/2 { // the call has waited for the rate
			q.wanted = now
			q.grow(min(now.Sub(q.last.at), max(time.Second, gap)))
		}
		if now.Sub(q.next) > gap/lateShare {
			q.next = now
		}
		q.next = q.next.Add(gap)
	}
	if q.probing {
		q.probed = now
	}
	q.last = ticket{seq: q.last.seq + 1, at: now, cuts: q.cuts}
	return q.last
}

func (q *quota) gap() time.Duration { return time.Duration(float64(time.Second) / q.rate) }

// grow raises the rate for a time in which calls have waited for it.
func (q *quota) grow(by time.Duration) {
	if q.probing {
		return
	}
	q.rate *= math.Exp2(by.Seconds() / q.doubling.Seconds())
}

// accept learns that a call was not refused, whatever else came of it.
func (q *quota) accept(t ticket) {
	if t.cuts == q.cuts && q.probing {
		q.probing, q.empty = false, t // the pause is in no estimate
	}
}

// refuse learns that a call was refused. Hold is for how long no call is wanted. Calls that were under way when the rate was cut belong to the
// same event.
func (q *quota) refuse(t ticket, pause time.Duration, now time.Time) {
	early := q.probing && pause > 0 // the one call came too early, not too often
	if pause > 0 {
		q.pausedUntil, q.probing = later(q.pausedUntil, now.Add(min(pause, classify.MaxRetryAfter))), true
	}
	if t.cuts == q.cuts {
		if !early {
			q.cut(t)
		}
		q.cuts++
		q.probed, q.wanted = time.Time{}, now
		q.next = now.Add(q.gap())
	}
	q.next = later(q.next, q.pausedUntil)
	if t.seq > q.empty.seq {
		q.empty = t
	}
}

// cut sets the rate by the first refusal of an event. It then doubles in a time in which it can be estimated again, and after each cut in four times as
// long, up to guard.Long.
func (q *quota) cut(t ticket) {
	accepted, took := float64(t.seq-1-q.empty.seq), t.at.Sub(q.empty.at).Seconds()
	switch {
	case q.rate == 0:
		q.rate, q.doubling, q.probing = firstRate, fewAccepted*time.Second/firstRate, true
		return
	case accepted < fewAccepted:
		q.rate = max(q.rate/2, min(q.rate, leastGuess))
	default:
		q.rate = caution * max(mostCut*q.rate, min(q.rate, accepted/took))
	}
	q.rate, q.doubling = max(q.rate, leastRate), min(4*q.doubling, guard.Long)
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{b, a}, time.Time.Compare) }
