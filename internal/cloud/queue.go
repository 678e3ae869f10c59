package cloud

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// slowAfter is when a call stops counting against the window of its group. The window is for finding out what the cloud
	// bears; who is still waiting for an answer after this long shows nothing about that, and must not hold up others.
	slowAfter = time.Second
	// noticeAfter is for how long a call waits until its listeners learn what it waits for.
	noticeAfter = time.Second
	// firstHold is the longest that one object's Retry-After holds its group: then another object may try. If that is refused as
	// well the group is held for twice as long, and so on up to longestGroupHold. Each object waits for as long as it is asked to.
	firstHold        = time.Second
	longestGroupHold = 30 * time.Second
	// jointWithin is how close together two groups have to be refused, and jointAfter how often, to be taken for users of one quota.
	jointWithin = 10 * time.Second
	jointAfter  = 3
	// maxOverdue is how many calls of a group may be slow or abandoned at once. Beyond it slow calls keep their places in the
	// window; what has been abandoned already gets no more calls from half of it on; and when all of them are abandoned, the
	// group is not called any more.
	maxOverdue = 256
)

// ErrTooManyAbandoned says that a call was not made because too many calls of its group have not returned from the plugin.
// Only a restart helps.
var ErrTooManyAbandoned = errors.New("too many calls have not returned from the cloud provider")

// queue lets calls through: each group by its own priorities, window, rate and breaker, and all of them under one bound.
type queue struct {
	metrics *metrics
	// most is how many calls may be under way at once. Strict says that somebody has declared that: then slow calls count, too.
	most   int
	strict bool
	// share are the places that are kept for each group.
	share int

	mu       sync.Mutex
	groups   []*groupQueue
	cap      *rate.Limiter // what the operator allows; nil: any
	arrivals uint64
	raised   uint64      // raises that were taken in
	timer    *time.Timer // runs dispatch when time is all that is missing
}

// waiter is a call that waits, and then one that is under way. A call that was refused waits again in its old place.
type waiter struct {
	ctx     context.Context
	request *request
	about   subject
	arrival uint64
	behind  bool
	since   time.Time // when this wait began
	rank    int       // among those that wait
	let     chan struct{}
	err     error // why it was not let in, once let is closed

	ticket   ticket
	admitted time.Time
	slow     bool
}

func newQueue(groups []string, most int, strict bool, limit rate.Limit, burst int, metrics *metrics) *queue {
	q := &queue{metrics: metrics, most: most, strict: strict, share: (most + 5) / 10}
	window := max(most-q.share*(len(groups)-1), 1)
	for _, name := range groups {
		q.groups = append(q.groups, newGroupQueue(name, window))
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

// enter waits until the call may be made. Arrival is zero, or what enter returned when the same call was made before. Unless it
// returns an error, leave has to follow.
func (q *queue) enter(ctx context.Context, about subject, arrival uint64) (*waiter, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{ctx: ctx, request: requestOf(ctx), about: about, arrival: arrival, since: time.Now(), let: make(chan struct{})}
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

// insert adds a call to those that wait, or says why it may not wait.
func (q *queue) insert(w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of(w.about.group)
	o := g.object(w.about.key(), w.since)
	if err := g.full(); err != nil {
		return err
	}
	if err := o.free(w.about, g.abandoned >= maxOverdue/2, w.since); err != nil {
		return err
	}
	if g.breaker.open && Priority(w.request.priority.Load()) == PriorityRefresh && w.since.Before(g.breaker.next) {
		return g.breaker.unavailable(g.name)
	}
	q.place(w)
	w.behind = o.behind()
	g.insert(w)
	q.dispatch()
	return nil
}

// place gives a call its place by arrival: that of its earlier attempts, that of the turn which it is part of, or the last one.
func (q *queue) place(w *waiter) {
	turn := turnOf(w.ctx)
	if turn != nil && w.arrival == 0 {
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
	g := q.of(w.about.group)
	if g.remove(w) {
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

// dispatch lets in whoever may enter now, and sets the timer for the next. The lock is held.
func (q *queue) dispatch() {
	q.timer.Stop()
	now := time.Now()
	if count := raises.Load(); count != q.raised {
		q.raised = count
		for _, g := range q.groups {
			g.sort()
		}
	}
	for _, g := range q.groups {
		g.age(now)
		g.expire(now)
	}
	next := time.Time{}
	for {
		var best *waiter
		if best, next = q.next(now); best == nil {
			break
		}
		q.admit(best, now)
	}
	if !next.IsZero() {
		q.timer.Reset(max(next.Sub(now), 1))
	}
	for _, g := range q.groups {
		q.metrics.inFlight.WithLabelValues(g.name).Set(float64(len(g.brisk) + g.slow))
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
		return nil, soonest(at, g.expiry())
	}
	if !q.room(g) {
		again := g.expiry()
		for _, other := range q.groups {
			again = soonest(again, other.slowing())
		}
		return nil, again
	}
	if len(g.brisk) < g.window.size {
		if w := g.pick(); w != nil {
			return w, time.Time{}
		}
	}
	return nil, soonest(g.slowing(), g.expiry())
}

// room reports whether the bound of all groups leaves a place for one of a group: what other groups have not taken of their
// shares is kept for them.
func (q *queue) room(g *groupQueue) bool {
	taken := 0
	for _, other := range q.groups {
		used := other.used(q.strict)
		taken += used
		if other != g {
			taken += max(q.share-used, 0)
		}
	}
	return taken < q.most
}

func (q *queue) admit(w *waiter, now time.Time) {
	g := q.of(w.about.group)
	g.remove(w)
	g.window = g.window.admitted(now)
	w.ticket, w.admitted = g.quota.admit(now, g.window.pace()), now
	if q.cap != nil {
		q.cap.AllowN(now, 1)
	}
	if g.breaker.open {
		g.breaker.probe(now)
	}
	g.brisk = append(g.brisk, w)
	g.admitted++
	close(w.let)
}

// outcome is what became of a call, as the queue sees it.
type outcome struct {
	err        error
	label      string
	refused    bool
	retryAfter time.Duration
	// rejected says that the cloud blames the request: that is an answer.
	rejected bool
	// abandoned says that the call is given up although it has not returned; timeout is its deadline.
	abandoned bool
	timeout   time.Duration
	// repeat makes the same call again, if it reads; see breaker.
	repeat func(context.Context) error
}

// answered reports whether the cloud said anything.
func (o outcome) answered() bool {
	switch o.label {
	case outcomeError:
		return o.rejected
	case outcomeTimeout, outcomeCanceled, outcomePanic:
		return false
	default:
		return true
	}
}

// change is what a call has changed for its group, for the log.
type change struct {
	group  string
	opened bool
	closed bool
	since  time.Time
	count  int // of failures
	err    error
	check  bool // it is time to see whether the cloud answers at all
	own    bool // the object's refusals are its own matter from now on
}

// leave gives a call's place back, and takes in what came of it.
func (q *queue) leave(w *waiter, result outcome) change {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	g := q.of(w.about.group)
	g.release(w)
	o := g.object(w.about.key(), now)
	changed := change{group: g.name}
	if result.abandoned {
		q.abandoned(g, w, result.timeout, now)
	} else if result.label != outcomeCanceled {
		o.hung = result.label == outcomeTimeout // even if it came back then: it took a place for all that time
	}
	switch {
	case result.refused:
		q.metrics.refusals.WithLabelValues(g.name).Inc()
		changed.own = q.refuse(g, o, w, result.retryAfter, now)
	case result.answered() || result.label == outcomeError:
		g.counts.accepted++
		g.holds = 0
		g.accept(o, w.ticket, now)
		g.window = g.window.answered(len(g.brisk)+1, g.quota.rate == 0 && g.waiting() > 0)
		g.witness(now)
	}
	q.metrics.own.WithLabelValues(g.name).Set(float64(g.owned))
	g.learn(w.about, o, result, now, &changed)
	q.metrics.breaker.WithLabelValues(g.name).Set(boolToFloat(g.breaker.open))
	q.dispatch()
	return changed
}

// refuse takes in a refusal for the quota, and reports whether that is found to be the object's own matter. The group takes
// notice of the first refusals in a row of each object: that one object is refused again and again says nothing new of the quota.
func (q *queue) refuse(g *groupQueue, o *object, w *waiter, retryAfter time.Duration, now time.Time) (own bool) {
	fresh, known := o.refusals == 0, o.own
	if fresh {
		g.counts.fresh++
	}
	if o.refuse(g.counts, now); o.own && !known {
		g.drop(w.about.key())
	}
	if o.own || o.refusals > actingRefusals || w.ticket.quota != g.quota {
		return o.own && !known
	}
	hold := time.Duration(0)
	if fresh {
		hold = min(retryAfter, g.hold(w))
		g.holds++
	}
	g.refused[w.about.key()] = struct{}{}
	if g.quota.refuse(w.ticket, hold, now) && fresh {
		g.refusedAt = now
		q.join(g, now)
	}
	return false
}

// join lets groups share a quota that are refused at the same time again and again: their calls draw on one bucket.
func (q *queue) join(g *groupQueue, now time.Time) {
	for _, other := range q.groups {
		if other == g || other.quota == g.quota || other.quota.rate == 0 || other.refusedAt.IsZero() || now.Sub(other.refusedAt) > jointWithin {
			continue
		}
		g.coincided[other.name]++
		if g.coincided[other.name]+other.coincided[g.name] < jointAfter {
			continue
		}
		shared, before := joint(g.quota, other.quota, now), []*quota{g.quota, other.quota}
		for _, member := range q.groups {
			if slices.Contains(before, member.quota) {
				member.quota = shared
				clear(member.coincided)
			}
		}
	}
}

// takeCanary returns a read of a group that worked, or nil if no such read is left.
func (q *queue) takeCanary(group string) *canary {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(group).takeCanary()
}

// endCheck ends the check whether the cloud of a group answers. Answered is the read that was answered, nil if there was none, and
// failed says that one has failed.
func (q *queue) endCheck(group string, answered *canary, failed bool) change {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of(group)
	changed := change{group: group, since: g.breaker.since, count: g.breaker.failures, err: g.breaker.err}
	if answered != nil {
		g.keepCanary(*answered)
		g.breaker.answered()
		return changed
	}
	g.breaker.endCheck(failed, time.Now())
	changed.opened = g.breaker.open
	q.metrics.breaker.WithLabelValues(g.name).Set(boolToFloat(g.breaker.open))
	q.dispatch()
	return changed
}

func boolToFloat(value bool) float64 {
	if value {
		return 1
	}
	return 0
}

// soonest returns the earlier of two times, of which a zero one is never.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
