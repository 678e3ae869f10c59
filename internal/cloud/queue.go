package cloud

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// noticeAfter is for how long a call waits until its listeners learn what it waits for. A cluster that starts, and each new leader, would send an
	// event for each node if that was short.
	noticeAfter = time.Minute
	// firstPause is the longest that one object's Retry-After pauses its group: then another object may try. That one call is waited for as long
	// until the next may try: a write may take minutes. If that is refused as well, the group pauses for twice as long, and so on. Each object
	// waits for as long as it is asked to.
	firstPause = time.Second
	// MaxGroupPause is the longest pause of a group: for so long a cloud that fails all calls is left alone at most.
	MaxGroupPause = 30 * time.Second
	// refusedTogether is within which time two objects have to be refused for that to show a quota.
	refusedTogether = 10 * time.Second
	// actingRefusals is how many refusals in a row of one object reduce the rate of its group; only the first pauses it.
	actingRefusals = 2
)

// queue lets calls through: each pool by its bound, each group by its own priorities and rate, and never two calls about the same
// object. Where a flag or a provider declares how many calls may be under way at once, all of them are under that bound.
type queue struct {
	metrics *metrics
	pools   pools
	// most is how many calls may be under way at once, if declared.
	most     int
	declared bool
	// share are the places that are kept for each group.
	share int

	mu       sync.Mutex
	groups   []*groupQueue
	methods  map[string]*method
	busy     map[string]*waiter // calls that have not returned, by what they are about
	cap      *rate.Limiter      // what the operator allows; nil: any
	arrivals uint64
	raised   uint64      // raises that were taken in
	timer    *time.Timer // runs dispatch when time is all that is missing
}

// waiter is a call that waits, and then one that is under way.
type waiter struct {
	ctx       context.Context
	request   *request
	about     subject
	exclusive []string
	timeout   time.Duration // its deadline once it is let in; 0: none
	arrival   uint64
	behind    bool
	since     time.Time // when this wait began
	pool      *pool
	rank      int // among the waiting calls
	let       chan struct{}
	err       error // why it was not let in, once let is closed

	ticket   ticket
	admitted time.Time
	shown    time.Time // when it last showed that it goes on
	paused   bool      // what it has returned is being worked on
	// outstanding says that it no longer counts as under way. Given is closed then.
	outstanding bool
	given       chan struct{}
}

// newQueue returns a queue. Most is how many calls may be under way at once, 0 if nothing but the pools bounds that.
func newQueue(groups []string, bounds pools, most int, limit rate.Limit, burst int, metrics *metrics) *queue {
	q := &queue{
		metrics: metrics, pools: bounds, most: most, declared: most > 0, share: (most + 5) / 10, methods: map[string]*method{}, busy: map[string]*waiter{},
	}
	for _, name := range groups {
		q.groups = append(q.groups, newGroupQueue(name, bounds))
		metrics.begin(name)
	}
	if limit > 0 {
		q.cap = rate.NewLimiter(limit, burst)
	}
	q.timer = time.AfterFunc(time.Hour, q.wake)
	q.timer.Stop()
	return q
}

// of returns a group's part.
func (q *queue) of(group string) *groupQueue {
	for _, g := range q.groups {
		if g.name == group {
			return g
		}
	}
	return q.groups[0] // groups are known before there are calls
}

// enter waits until the call may be made. Unless it returns an error, leave has to follow.
func (q *queue) enter(ctx context.Context, about subject, timeout time.Duration) (*waiter, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{
		ctx: ctx, request: requestOf(ctx), about: about, exclusive: about.exclusive(), timeout: timeout, since: time.Now(),
		let: make(chan struct{}), given: make(chan struct{}),
	}
	if err := q.insert(w); err != nil {
		return nil, err
	}
	notice := time.NewTimer(noticeAfter)
	defer notice.Stop()
	for {
		select {
		case <-w.let:
			w.request.waits("")
			return w, w.err
		case <-notice.C:
			if reason := q.obstacle(w); reason != "" {
				w.request.waits(reason)
			}
		case <-ctx.Done():
			return q.remove(w)
		}
	}
}

// insert adds a call to the waiting ones, or says why it may not wait.
func (q *queue) insert(w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of(w.about.group)
	if w.err = q.blocked(w); w.err != nil {
		return w.err
	}
	o := g.object(w.about.key(), w.since)
	if wait := o.refusedUntil.Sub(w.since); wait > 0 { // many ask for it, and none of them has a backoff that the others obey
		return &provider.ThrottledError{RetryAfter: wait, Err: o.refusal}
	}
	q.place(w)
	w.behind = o.behind()
	g.insert(w)
	q.dispatch()
	return nil
}

// blocked returns an error if a call about the same object is outstanding: it may never return.
func (q *queue) blocked(w *waiter) error {
	for _, key := range w.exclusive {
		if other := q.busy[key]; other != nil && other.outstanding {
			return other.stillRunning()
		}
	}
	return nil
}

// free reports whether no call about the same object is under way.
func (q *queue) free(w *waiter) bool {
	return !slices.ContainsFunc(w.exclusive, func(key string) bool { return q.busy[key] != nil })
}

// place gives a call its place by arrival: the one of the turn which it is part of, or the last one.
func (q *queue) place(w *waiter) {
	turn := turnOf(w.ctx)
	if turn != nil {
		w.arrival = turn.arrival.Load()
	}
	if w.arrival == 0 {
		q.arrivals++
		w.arrival = q.arrivals
	}
	if turn != nil {
		turn.arrival.Store(w.arrival)
	}
}

// remove takes a call out whose context has ended.
func (q *queue) remove(w *waiter) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.pool.remove(w) {
		q.dispatch() // the timer may have been set for it
		return nil, context.Cause(w.ctx)
	}
	return w, w.err // let in at the same moment; the call itself looks at the context
}

func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dispatch()
}

// dispatch lets in every call that may enter now, and sets the timer for the next. The lock is held.
func (q *queue) dispatch() {
	q.timer.Stop()
	now := time.Now()
	if count := raises.Load(); count != q.raised {
		q.raised = count
		for _, g := range q.groups {
			g.sort()
		}
	}
	q.age(now)
	for _, g := range q.groups {
		g.expire(q.blocked)
	}
	next := time.Time{}
	for {
		var best *waiter
		if best, next = q.next(now); best == nil {
			break
		}
		q.admit(best, now)
	}
	next = soonest(next, q.aging())
	if !next.IsZero() {
		q.timer.Reset(max(next.Sub(now), 1))
	}
	for _, g := range q.groups {
		q.metrics.inFlight.WithLabelValues(g.name).Set(float64(g.running()))
		q.metrics.waiting.WithLabelValues(g.name).Set(float64(g.waiting()))
		q.metrics.rateLimit.WithLabelValues(g.name).Set(g.quota.rate)
	}
}

// next returns the call to let in next, or when it is worth looking again; zero if that takes more than time.
func (q *queue) next(now time.Time) (best *waiter, again time.Time) {
	for _, g := range q.groups {
		if g.waiting() == 0 {
			continue
		}
		w, at := q.candidate(g, now)
		if w != nil && (best == nil || w.rank > best.rank || w.rank == best.rank && w.arrival < best.arrival) {
			best = w
		}
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	return best, again
}

// candidate returns the call of a group to let in next, or when it is worth looking again.
func (q *queue) candidate(g *groupQueue, now time.Time) (*waiter, time.Time) {
	at := g.ready(now)
	if q.cap != nil {
		if missing := 1 - q.cap.TokensAt(now); missing > 0 {
			at = later(at, now.Add(time.Duration(missing/float64(q.cap.Limit())*float64(time.Second))+1))
		}
	}
	if at.After(now) {
		return nil, at
	}
	if q.room(g) {
		return g.pick(q.free), time.Time{}
	}
	return nil, time.Time{}
}

// room reports whether the bound of all groups leaves a place for one of a group: what other groups have not taken of their
// shares is kept for them.
func (q *queue) room(g *groupQueue) bool {
	if !q.declared {
		return true
	}
	taken := 0
	for _, other := range q.groups {
		used := other.running()
		taken += used
		if other != g {
			taken += max(q.share-used, 0)
		}
	}
	return taken < q.most
}

func (q *queue) admit(w *waiter, now time.Time) {
	g := q.of(w.about.group)
	w.pool.remove(w)
	w.ticket, w.admitted, w.shown = g.quota.admit(now), now, now
	if q.cap != nil {
		q.cap.AllowN(now, 1)
	}
	for _, key := range w.exclusive {
		q.busy[key] = w
	}
	w.pool.running = append(w.pool.running, w)
	g.admitted++
	close(w.let)
}

// goesOn notes that a call under way has shown that it goes on. Paused says that what it has returned is being worked on.
func (q *queue) goesOn(w *waiter, paused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.shown, w.paused = time.Now(), paused
	q.dispatch()
}

// outcome is what became of a call, as the queue sees it.
type outcome struct {
	err        error
	label      string
	refused    bool
	retryAfter time.Duration
	// notMade says that the call had its place, and was not made.
	notMade bool
}

// answered reports whether the cloud said anything.
func (o outcome) answered() bool {
	switch o.label {
	case classify.OutcomeTimeout, classify.OutcomeCanceled, classify.OutcomePanic:
		return false
	default:
		return true
	}
}

// leave gives a call's place back, takes in what came of it, and reports whether the call was outstanding.
func (q *queue) leave(w *waiter, result outcome) (late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	g := q.of(w.about.group)
	for _, key := range w.exclusive {
		delete(q.busy, key)
	}
	w.pool.release(w)
	if !result.notMade {
		q.method(w.about.name).note(now.Sub(w.admitted))
	}
	if w.outstanding {
		q.method(w.about.name).outstanding--
		q.showOutstanding(g)
		q.dispatch()
		return true
	}
	o := g.object(w.about.key(), now)
	behind := o.behind()
	if result.label != classify.OutcomeCanceled {
		o.hung = result.label == classify.OutcomeTimeout // it took a place for all that time
	}
	switch {
	case result.refused:
		q.metrics.refusals.WithLabelValues(g.name).Inc()
		g.refuse(o, w, result.retryAfter, now)
		if w.about.whole && !w.about.write {
			o.refusedUntil, o.refusal = now.Add(result.retryAfter), result.err
		}
	case result.answered():
		o.refusals, g.pauses = 0, 0
		g.quota.accept(w.ticket)
	}
	if behind && !o.behind() {
		g.catchUp(w.about.key())
	}
	q.dispatch()
	return false
}

// soonest returns the earlier of two times, of which a zero one is never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
