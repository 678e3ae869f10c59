package cloud

import (
	"math"
	"time"
)

const (
	// firstRate is at how many calls a second the search begins after a first refusal. What was achieved before says nothing:
	// it came out of the quota's burst.
	firstRate = 30.0
	// leastRate is the least that a rate is cut to, in calls a second, and leastGuess the least where too little was accepted to
	// estimate it by: the refusals may be about an object, and not about the quota.
	leastRate, leastGuess = 0.5, 1.0
	// mostRate is the rate from which on none is needed: an unlimited rate is no faster.
	mostRate = 1000.0
	// levelCalls is how many answers in a row raise the rate while it is being searched.
	levelCalls = 4
	// steep and gentle are by how much: without any idea of the rate, and with a rough one.
	steep, gentle = 1.8, 1.12
	// levelTime is how long a rate is tried at least before it is raised.
	levelTime = 150 * time.Millisecond
	// agree is how far two estimates may be apart to confirm each other.
	agree = 1.25
	// sure is how many calls make an estimate that is taken as it is.
	sure = 8
	// caution is the part of the rate found that is used at first, and probe is after how long in demand all of it is. The
	// way there is CUBIC's (RFC 9438, section 4.2): quick far from the rate, flat close to it, and quick again beyond.
	caution = 0.95
	probe   = time.Minute
	// forget is how long the rate must not have held anybody up until it is dropped.
	forget = 5 * time.Minute
	// MaxRetryAfter bounds how long a cloud's Retry-After is obeyed, so that a wrong one cannot stop the process for good.
	MaxRetryAfter = 10 * time.Minute
	// lateTimer is how late a call may be let in without that the next one is late, too. Where no quota is known it is openLate: timers
	// of a busy machine are late by more than the pace, and there is no bucket that the few calls which make up for it could empty.
	lateTimer = time.Millisecond
	openLate  = 4 * time.Millisecond
	// probeTurn is how long the one call after a hold is waited for until another may try. A write may take minutes.
	probeTurn = time.Second
)

// ticket is a call that has been let in: the how many-th, when, and when the one before it was.
type ticket struct {
	seq          uint64
	at, before   time.Time
	epoch, level int
}

// mark is a call from which on others are counted.
type mark struct {
	seq uint64
	at  time.Time
}

// quota is what is known of a quota of the cloud, from its refusals. The zero value knows of none, and calls are let in as they
// come.
//
// A quota is taken to be a token bucket, as most are: a rate at which it fills, and a burst that it holds. Whenever a call is
// refused, the bucket is empty, so that between two refusals the cloud has accepted what it filled in: their number by their
// time is its rate. Where a pause let the bucket run over, that is too little; then what was accepted in any stretch, less
// the burst, is what it filled in at least. The best of these is taken.
//
//	state      rate        found  what it means                                 left by
//	open       0           0      no quota is known                             a refusal: searching
//	searching  r           0      r is raised by step every levelCalls answers  a refusal: found, or searching from less
//	found      up to f     f      r follows a curve to f and beyond             a refusal: found or searching from less;
//	                                                                            five minutes without demand: open
//	holding    as before          nobody is let in before hold, then one at a   an answer: as before; a refusal: the
//	                              time (probing)                                same with less
//
// See ADR 50.
type quota struct {
	rate float64 // calls a second, 0: none is known

	// While searching: by how much a level raises the rate, the how many-th it is, answers in it and since when; the next call
	// is its first if fresh.
	step     float64
	level    int
	accepted int
	levelAt  time.Time
	fresh    bool

	// Once found: the rate, for how long in demand it has grown along its curve, and whether it was refused soon after.
	found   float64
	grown   time.Duration
	doubted bool

	// What estimates rest on: the first call while open, the burst accepted before the first refusal and how long it took, the
	// newest refused call, the first call of each level since, and the newest estimate.
	opened    mark
	burst     uint64
	burstTook time.Duration
	empty     mark
	levels    []mark
	guess     float64

	// When calls are let in: the newest call; the pace lets nobody in before next, nor does the cloud before hold; one call at
	// a time while probing, the last of them at probed.
	last    mark
	next    time.Time
	hold    time.Time
	probing bool
	probed  time.Time

	epoch  int           // refusals that were acted upon
	wanted time.Time     // when the rate last held a call up, or a refusal was acted upon
	demand time.Duration // for how long it has held calls up since the newest event
}

// ready returns when the next call may be let in, as far as the quota goes.
func (q *quota) ready() time.Time {
	at := later(q.hold, q.next)
	if q.probing && !q.probed.IsZero() {
		at = later(at, q.probed.Add(probeTurn))
	}
	return at
}

// admit lets a call in. Open is the pace where no rate is known.
func (q *quota) admit(now time.Time, open time.Duration) ticket {
	q.forget(now)
	gap, late := open, openLate
	if q.rate > 0 {
		gap = time.Duration(float64(time.Second) / q.rate)
		late = min(gap/8, lateTimer)
		if now.Sub(q.next) < gap/2 { // it is the rate that calls wait for
			took := min(now.Sub(q.last.at), max(time.Second, gap))
			q.wanted, q.demand = now, q.demand+took
			q.grow(took)
		}
	}
	if now.Sub(q.next) > late {
		q.next = now
	}
	q.next = q.next.Add(gap)
	if q.probing {
		q.probed = now
	}
	t := ticket{seq: q.last.seq + 1, at: now, before: q.last.at, epoch: q.epoch, level: q.level}
	q.last = mark{seq: t.seq, at: now}
	if q.opened.at.IsZero() {
		q.opened = q.last
	}
	if q.fresh {
		q.fresh, q.levelAt, q.levels = false, now, append(q.levels, q.last)
	}
	return t
}

// accept learns that a call was not refused, whatever else came of it.
func (q *quota) accept(t ticket, now time.Time) {
	if q.rate == 0 || t.epoch != q.epoch {
		return
	}
	if q.probing {
		q.probing, q.fresh = false, true // the pause for the one call is in no count
	}
	if q.found > 0 || t.level != q.level {
		return
	}
	if q.accepted++; q.accepted >= levelCalls && now.Sub(q.levelAt) >= levelTime && !q.wanted.Before(t.at) {
		q.accepted, q.fresh = 0, true
		q.level++
		q.rate *= q.step
	}
}

// refuse learns that a call was refused, and returns whether that changed the rate. Hold is for how long nobody shall come
// again. Calls that were under way when a refusal was acted upon belong to the same event.
func (q *quota) refuse(t ticket, hold time.Duration, now time.Time) bool {
	if hold > 0 {
		q.hold = later(q.hold, now.Add(min(hold, MaxRetryAfter)))
		q.next = later(q.next, q.hold)
		q.probing = true
	}
	event := t.epoch == q.epoch
	if event {
		q.epoch++
		q.probed = time.Time{}
		q.decrease(t, hold > 0, now)
	}
	if t.seq > q.empty.seq {
		q.empty = mark{seq: t.seq, at: t.at}
	}
	return event
}

// decrease sets the rate by the first refusal of an event. Asked is whether the cloud said when to come again.
func (q *quota) decrease(t ticket, asked bool, now time.Time) {
	accepted := t.seq - 1 - q.empty.seq
	switch {
	case q.rate == 0:
		q.burst, q.burstTook = t.seq-q.opened.seq, t.at.Sub(q.opened.at)
		q.search(firstRate, steep)
		q.probing = true
	case accepted == 0 && q.probing && asked: // the one call came too early, not too often
	case accepted == 0 && q.probing:
		q.search(max(q.rate/4, min(q.rate, leastGuess)), q.step)
	case q.demand < t.at.Sub(q.empty.at)/4:
		// The rate held nobody up, so that how many calls were accepted says nothing of the quota.
		q.search(min(max(q.rate/2, leastGuess), firstRate), steep)
		q.probing = true
	case accepted < levelCalls && q.found > 0 && !q.doubted: // soon after the last one, whose estimate may still hold
		q.doubted, q.grown = true, 0
		q.found = max(caution*q.found, leastRate)
		q.rate = max(caution*q.found, leastRate)
	default:
		estimate, sound := q.estimate(t)
		if estimate >= q.rate {
			estimate = 0.9 * q.rate
		}
		if accepted < levelCalls {
			estimate, sound = max(estimate, q.rate/2, min(q.rate, leastGuess)), false
		} else {
			sound = sound || estimate >= 0.8*q.rate || q.guess > 0 && estimate <= q.guess*agree
			q.guess, q.doubted = estimate, false
		}
		if sound {
			q.found, q.grown, q.rate = max(estimate, leastRate), 0, max(caution*estimate, leastRate)
			break
		}
		q.search(estimate, gentle)
	}
	q.levels, q.fresh, q.accepted = nil, true, 0
	q.wanted, q.demand = now, 0
	gap := time.Duration(float64(time.Second) / q.rate)
	if asked {
		q.next = later(q.hold, q.last.at.Add(gap))
	} else {
		q.next = now.Add(gap)
	}
}

func (q *quota) search(rate, step float64) {
	q.rate, q.step, q.found = max(rate, leastRate), step, 0
	q.level++
}

// estimate returns the rate at which the cloud's bucket fills, by the calls up to the one that was refused, and whether the
// bucket has filled without running over.
func (q *quota) estimate(t ticket) (best float64, whole bool) {
	calls, span := t.seq-1-q.empty.seq, t.at.Sub(q.empty.at)
	best, whole = float64(calls)/max(span.Seconds(), 1e-6), calls >= sure
	for _, first := range q.levels {
		calls, span := float64(t.seq-first.seq), t.before.Sub(first.at).Seconds()
		if calls < levelCalls || span <= 0 {
			continue
		}
		least := (calls - float64(q.burst)) / span
		if took := q.burstTook.Seconds(); span > 2*took { // the burst was filled up while it was used
			least = (calls - float64(q.burst)) / (span - took)
		}
		if least > best {
			best, whole = least, false
		}
	}
	for _, first := range q.levels {
		held := best*first.at.Sub(q.empty.at).Seconds() - float64(first.seq-q.empty.seq-1)
		whole = whole && held < float64(q.burst)-best*q.burstTook.Seconds()
	}
	return best, whole
}

// grow moves a rate that was found along its curve, by time in which it was in demand.
func (q *quota) grow(by time.Duration) {
	if q.found == 0 {
		return
	}
	if steps := 8 * q.grown / probe; 8*(q.grown+by)/probe != steps {
		q.fresh = true
	}
	q.grown += by
	x := q.grown.Seconds()/probe.Seconds() - 1
	q.rate = q.found * (1 + (1-caution)*math.Pow(x, 3))
}

// forget removes the limit when the rate has not been in demand for long, or is no bound any more.
func (q *quota) forget(now time.Time) {
	enough := q.rate >= mostRate && q.last.seq-q.empty.seq > 4*q.burst+firstRate*levelCalls
	if q.rate == 0 || !enough && now.Sub(q.wanted) < forget {
		return
	}
	*q = quota{last: q.last, epoch: q.epoch + 1, level: q.level + 1, empty: q.last}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
