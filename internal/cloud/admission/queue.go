// Package admission decides when a call of the plugin may begin: each pool by its bound, each group by its own priorities and rate, and never two calls
// about the same object.
package admission

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// firstPause is the longest that one object's Retry-After pauses its group: then another object may try. That one call is waited for as long
	// until the next may try: a write may take minutes. If that is refused as well, the group pauses for twice as long, and so on. Each object
	// waits for as long as it is asked to.
	firstPause = time.Second
	// MaxGroupPause is the longest pause of a group: for so long a cloud that fails all calls is left alone at most.
	MaxGroupPause = 30 * time.Second
	// actingRefusals is how many refusals in a row of one object reduce the rate of its group; only the first pauses it.
	actingRefusals = 2
	// fairShare is how often the call that has waited longest is let in, whatever its priority: every so many-th.
	fairShare = 16
)

// Metrics are what a queue shows, by group.
type Metrics struct {
	InFlight, Waiting, RateLimit, Outstanding *prometheus.GaugeVec
	Refusals, GivenUp                         *prometheus.CounterVec
}

// Queue lets calls through. Where a flag or a provider declares how many calls may be under way at once, all of them are under that bound.
type Queue struct {
	metrics Metrics
	bounds  Bounds
	// most is how many calls may be under way at once, 0 if that is not declared. Share are the places of them that are kept for each group.
	most, share int

	mu       sync.Mutex
	calls    *guard.Calls
	groups   []*group
	byName   map[string]*group
	cap      *rate.Limiter // what the operator allows; nil: any
	arrivals uint64
	raised   uint64      // raises that were taken in
	timer    *time.Timer // runs dispatch when time is all that is missing
}

// group are the calls of one group: waiting, under way, and what the cloud lets through.
type group struct {
	name    string
	quota   quota
	objects map[string]*object
	swept   time.Time
	pools   []*pool
	// waiting, running and outstanding are how many calls are.
	waiting, running, outstanding int
	admitted                      uint64
	// refused is the call that was refused last. Pauses are how many objects were refused in a row.
	refused refusal
	pauses  int
}

// pool are the calls of one pool of a group.
type pool struct {
	name    string
	size    int       // how many may be under way
	waiting []*Waiter // by rank and then by arrival
	running []*Waiter // the ones that count as under way
}

// refusal is a call that was refused.
type refusal struct {
	object string
	at     time.Time
	ticket ticket
}

// object is what is known of a node, a Service, a route or a listing from the calls about it.
type object struct {
	used time.Time
	// refusals is how many calls in a row were refused for the quota.
	refusals int
	// refusedUntil is until when the cloud wants to be asked for no listing, and refusal how it said so.
	refusedUntil time.Time
	refusal      error
	// hung says that its last call was outstanding.
	hung bool
}

// behind reports whether calls about an object wait behind those about others.
func (o *object) behind() bool { return o.hung || o.refusals > 0 }

// Waiter is a call that waits, and then one that is under way.
type Waiter struct {
	guard.Call
	// priority is the one with which it waits, or was let in.
	priority Priority

	about   Subject
	request *Request
	since   time.Time // when this wait began
	group   *group
	object  *object
	pool    *pool
	arrival uint64
	behind  bool
	rank    int // among the waiting calls: a higher one goes first
	let     chan struct{}
	err     error // why it was not let in, once let is closed
	ticket  ticket
}

// order compares waiting calls: the one that goes first is less.
func order(a, b *Waiter) int {
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.arrival, b.arrival))
}

// New returns a queue. Most is how many calls may be under way at once, 0 if nothing but the pools bounds that.
func New(groups []string, bounds Bounds, most int, limit rate.Limit, burst int, metrics Metrics) *Queue {
	q := &Queue{
		metrics: metrics, bounds: bounds, most: max(most, 0), share: (most + 5) / 10, calls: guard.NewCalls(most > 0), byName: map[string]*group{},
	}
	for _, name := range groups {
		g := &group{name: name, objects: map[string]*object{}}
		q.groups, q.byName[name] = append(q.groups, g), g
		metrics.Outstanding.WithLabelValues(name).Set(0)
		metrics.Refusals.WithLabelValues(name)
		metrics.GivenUp.WithLabelValues(name)
	}
	if limit > 0 {
		q.cap = rate.NewLimiter(limit, burst)
	}
	q.timer = time.AfterFunc(time.Hour, q.wake)
	q.wake()
	return q
}

// Enter waits until the call may be made. Unless it returns an error, Leave has to follow.
func (q *Queue) Enter(ctx context.Context, request *Request, about Subject, timeout time.Duration) (*Waiter, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &Waiter{
		Call:    guard.Call{Method: about.Method, Object: about.key, Keys: about.exclusive, Write: about.Write, Timeout: timeout, Given: make(chan struct{})},
		request: request, about: about, since: time.Now(), let: make(chan struct{}),
	}
	if err := q.insert(w); err != nil {
		return nil, err
	}
	// A cluster that starts, and each new leader, would send an event for each node if this was short.
	notice := time.NewTimer(guard.Long)
	defer notice.Stop()
	told := false
	for {
		select {
		case <-w.let:
			if told {
				request.waits("")
			}
			return w, w.err
		case <-notice.C:
			if reason := q.obstacle(w); reason != "" {
				told = true
				request.waits(reason)
			}
		case <-ctx.Done():
			return q.remove(w, context.Cause(ctx))
		}
	}
}

// insert adds a call to the waiting ones, or says why it may not wait.
func (q *Queue) insert(w *Waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.group = q.byName[w.about.Group]
	w.object = w.group.object(w.Object, w.since)
	w.behind = w.object.behind()
	q.rank(w)
	if other := q.calls.About(w.Keys); other != nil && other.Outstanding { // it may never return
		return other.StillRunning()
	}
	if wait := w.object.refusedUntil.Sub(w.since); wait > 0 { // many ask for it, and none of them has a backoff that the others obey
		return &provider.ThrottledError{RetryAfter: wait, Err: w.object.refusal}
	}
	q.arrivals++
	w.arrival = q.arrivals
	if turn := w.request.turn; turn != nil && !turn.arrival.CompareAndSwap(0, w.arrival) {
		w.arrival = turn.arrival.Load()
	}
	w.group.insert(w)
	q.dispatch()
	return nil
}

// rank gives a call its pool and rank. Calls about objects that wait behind others go before refreshes, since no caller waits for those, and refreshes
// of such objects last.
func (q *Queue) rank(w *Waiter) {
	w.priority = Priority(w.request.priority.Load())
	w.rank = 2 * int(w.priority)
	if w.behind {
		w.rank = min(w.rank, 0) - 1
	}
	name := q.bounds.of(w.about, w.priority)
	at := slices.IndexFunc(w.group.pools, func(l *pool) bool { return l.name == name })
	if at < 0 {
		at = len(w.group.pools)
		w.group.pools = append(w.group.pools, &pool{name: name, size: cmp.Or(q.bounds[name], math.MaxInt)})
	}
	w.pool = w.group.pools[at]
}

// sort takes in that priorities were raised, and that objects wait behind others no more: else all later calls about one would pass the waiting ones.
func (q *Queue) sort(g *group) {
	for _, w := range g.all() {
		if caughtUp := w.behind && !w.object.behind(); caughtUp || w.priority != Priority(w.request.priority.Load()) {
			g.take(w)
			w.behind = w.behind && !caughtUp
			q.rank(w)
			g.insert(w)
		}
	}
}

// object returns what is known of what a call is about. It is known for twice the longest pause of an object that the cloud refuses.
func (g *group) object(key string, now time.Time) *object {
	if now.Sub(g.swept) > classify.MaxRetryAfter {
		g.swept = now
		for old, o := range g.objects {
			if now.Sub(o.used) > 2*classify.MaxRetryAfter {
				delete(g.objects, old)
			}
		}
	}
	o, known := g.objects[key]
	if !known {
		o = &object{}
		g.objects[key] = o
	}
	o.used = now
	return o
}

// all returns the waiting calls, in no particular order.
func (g *group) all() (all []*Waiter) {
	for _, l := range g.pools {
		all = append(all, l.waiting...)
	}
	return all
}

// insert adds a call in its place.
func (g *group) insert(w *Waiter) {
	at, _ := slices.BinarySearchFunc(w.pool.waiting, w, order)
	w.pool.waiting = slices.Insert(w.pool.waiting, at, w)
	g.waiting++
}

// take takes a call out of the waiting ones, and reports whether it was there.
func (g *group) take(w *Waiter) bool {
	at := slices.Index(w.pool.waiting, w)
	if at < 0 {
		return false
	}
	w.pool.waiting = slices.Delete(w.pool.waiting, at, at+1)
	g.waiting--
	return true
}

// release takes a call out of the running ones.
func (g *group) release(w *Waiter) {
	if at := slices.Index(w.pool.running, w); at >= 0 {
		w.pool.running = slices.Delete(w.pool.running, at, at+1)
		g.running--
	}
}

// remove takes a call out whose context has ended.
func (q *Queue) remove(w *Waiter, cause error) (*Waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.group.take(w) {
		q.dispatch() // the timer may have been set for it
		return nil, cause
	}
	return w, w.err // let in at the same moment; the call itself looks at the context
}

func (q *Queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dispatch()
}

// dispatch lets in every call that may enter now, and sets the timer for the next. The lock is held.
func (q *Queue) dispatch() {
	q.timer.Stop()
	now := time.Now()
	if count := raises.Load(); count != q.raised {
		q.raised = count
		for _, g := range q.groups {
			q.sort(g)
		}
	}
	next := q.age(now)
	best, again := q.first(now)
	for best != nil {
		if due := q.admit(best, now); !due.IsZero() {
			next = min(next, due.Sub(now))
		}
		best, again = q.first(now)
	}
	q.timer.Reset(min(next, again))
	for _, g := range q.groups {
		q.metrics.InFlight.WithLabelValues(g.name).Set(float64(g.running))
		q.metrics.Waiting.WithLabelValues(g.name).Set(float64(g.waiting))
		q.metrics.RateLimit.WithLabelValues(g.name).Set(g.quota.rate)
	}
}

// age lets calls that have been under way for long lose their places, and returns in which time the next one may.
func (q *Queue) age(now time.Time) time.Duration {
	next := time.Hour
	for _, g := range q.groups {
		for _, l := range g.pools {
			for _, w := range slices.Clone(l.running) {
				due := q.calls.Due(&w.Call)
				switch wait := due.Sub(now); {
				case due.IsZero():
				case wait > 0:
					next = min(next, wait)
				default:
					q.giveUp(w, now)
				}
			}
		}
	}
	return next
}

// giveUp lets a call be outstanding: its place is free, and the wait of calls ends that may wait for it for ever.
func (q *Queue) giveUp(w *Waiter, now time.Time) {
	g := w.group
	g.release(w)
	g.outstanding++
	q.metrics.Outstanding.WithLabelValues(g.name).Set(float64(g.outstanding))
	q.metrics.GivenUp.WithLabelValues(g.name).Inc()
	q.calls.GiveUp(&w.Call)
	w.object.hung = true
	for _, name := range w.about.objects {
		g.object(name, now).hung = true
	}
	for _, g := range q.groups {
		for _, other := range g.all() {
			if q.calls.About(other.Keys) == &w.Call {
				g.take(other)
				other.err = w.StillRunning()
				close(other.let)
			}
		}
	}
}

// first returns the call to let in next, and in which time it is worth looking again.
func (q *Queue) first(now time.Time) (best *Waiter, again time.Duration) {
	again = time.Hour
	for _, g := range q.groups {
		if g.waiting == 0 {
			continue
		}
		wait := g.quota.ready(now).Sub(now)
		if q.cap != nil {
			if missing := 1 - q.cap.TokensAt(now); missing > 0 {
				wait = max(wait, time.Duration(missing/float64(q.cap.Limit())*float64(time.Second))+1)
			}
		}
		if wait <= 0 && (q.most == 0 || q.taken(g) < q.most) {
			var w *Waiter
			if w, wait = g.first(q.calls, now); wait <= 0 && w != nil && (best == nil || order(w, best) < 0) {
				best = w
			}
		}
		if wait > 0 {
			again = min(again, wait)
		}
	}
	return best, again
}

// taken returns how many places a group finds taken: what other groups have not taken of their shares is kept for them.
func (q *Queue) taken(g *group) int {
	taken := g.running
	for _, other := range q.groups {
		if other != g {
			taken += max(other.running, q.share)
		}
	}
	return taken
}

// first returns the call of a group to let in next, nil if none may have a place: the first by their order, and at times the one that waits longest.
// It may have to leave its place for a time, see yields.
func (g *group) first(calls *guard.Calls, now time.Time) (best *Waiter, wait time.Duration) {
	fair := g.admitted%fairShare == fairShare-1
	for _, l := range g.pools {
		if len(l.running) >= l.size {
			continue
		}
		for _, w := range l.waiting {
			before := best == nil || fair && w.arrival < best.arrival || !fair && order(w, best) < 0
			if before && calls.About(w.Keys) == nil {
				best = w
			} else if !before && !fair {
				break // the others come after it
			}
		}
	}
	if best != nil && best.priority == PriorityRefresh && !fair && g.quota.rate > 0 {
		wait = g.yields(now)
	}
	return best, wait
}

// yields returns for how long a refresh leaves a place of the quota, since no caller waits for it: to a call whose pool is full, until two places after the
// last of that pool. In a pool of one, calls that take a little longer than from one place to the next would else have every other place.
func (g *group) yields(now time.Time) (wait time.Duration) {
	for _, l := range g.pools {
		if len(l.running) >= l.size && len(l.waiting) > 0 && l.waiting[0].priority > PriorityRefresh {
			wait = max(wait, l.running[len(l.running)-1].Began.Add(2*g.quota.gap()).Sub(now))
		}
	}
	return wait
}

// admit lets a call in, and returns when it is outstanding; zero if it is not to be.
func (q *Queue) admit(w *Waiter, now time.Time) time.Time {
	g := w.group
	g.take(w)
	w.ticket = g.quota.admit(now)
	if q.cap != nil {
		q.cap.AllowN(now, 1)
	}
	w.pool.running = append(w.pool.running, w)
	g.running++
	g.admitted++
	w.request.asked.CompareAndSwap(nil, &now)
	due := q.calls.Begin(&w.Call, now)
	close(w.let)
	return due
}

// GoesOn notes that a call under way has shown that it goes on. Paused says that what it has returned is being worked on.
func (q *Queue) GoesOn(w *Waiter, paused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.Call.GoesOn(paused)
	q.dispatch()
}

// Result is what became of a call: its error and its outcome, see package classify.
type Result struct {
	Err     error
	Outcome string
}

// Leave gives a call's place back, takes in what came of it, and reports whether the call was outstanding.
func (q *Queue) Leave(w *Waiter, result Result) (late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.dispatch()
	now := time.Now()
	g, o := w.group, w.object
	g.release(w)
	q.calls.Return(&w.Call, now)
	if w.Outstanding {
		g.outstanding--
		q.metrics.Outstanding.WithLabelValues(g.name).Set(float64(g.outstanding))
		return true
	}
	behind := o.behind()
	if result.Outcome != classify.OutcomeCanceled {
		o.hung = result.Outcome == classify.OutcomeTimeout // it took a place for all that time
	}
	refusal, refused := classify.Refusal(result.Err)
	switch {
	case refused:
		q.metrics.Refusals.WithLabelValues(g.name).Inc()
		g.refuse(w, refusal.RetryAfter, now)
		if w.about.whole && !w.about.Write {
			o.refusedUntil, o.refusal = now.Add(refusal.RetryAfter), result.Err
		}
	case result.Outcome != classify.OutcomeTimeout && result.Outcome != classify.OutcomeCanceled && result.Outcome != classify.OutcomePanic:
		o.refusals, g.pauses = 0, 0
		g.quota.accept(w.ticket)
	}
	if behind && !o.behind() {
		q.sort(g)
	}
	return false
}

// refuse takes in a refusal for the quota. That one object is refused says nothing of the quota, and that is so however often it is
// refused: it waits for itself. When two are refused within the time of a call, the rate is cut and the group held; where a rate is known already, when
// another is refused. The third refusal of an object in a row says nothing new.
func (g *group) refuse(w *Waiter, retryAfter time.Duration, now time.Time) {
	w.object.refusals++
	before := g.refused
	g.refused = refusal{object: w.Object, at: now, ticket: w.ticket}
	unknown := g.quota.rate == 0
	if before.object == w.Object || w.object.refusals > actingRefusals ||
		unknown && (before.object == "" || now.Sub(before.at) > guard.LongDeclared) {
		return
	}
	pause := time.Duration(0)
	if w.object.refusals == 1 {
		pause = min(retryAfter, firstPause<<min(g.pauses, 16), MaxGroupPause)
		g.pauses++
	}
	if unknown {
		g.quota.refuse(before.ticket, pause, now)
	}
	g.quota.refuse(w.ticket, pause, now)
}

// obstacle says what a call waits for; nothing if it waits no more.
func (q *Queue) obstacle(w *Waiter) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := w.group
	now := time.Now()
	if !slices.Contains(w.pool.waiting, w) {
		return ""
	}
	queued := fmt.Sprintf("%d calls for %s are waiting", g.waiting, g.name)
	if other := q.calls.About(w.Keys); other != nil {
		return fmt.Sprintf("%s for %s has been under way since %s", other.Method, other.Object, other.Began.UTC().Format(time.RFC3339))
	}
	full := len(w.pool.running) >= w.pool.size
	switch {
	case g.quota.pausedUntil.After(now):
		return fmt.Sprintf("the cloud asked for no calls for %s until %s; %s", g.name, g.quota.pausedUntil.UTC().Format(time.RFC3339), queued)
	case full && q.calls.TooMany(w.Method):
		return fmt.Sprintf("%d calls of %s have not returned, and no more are made; restart this process", guard.MaxOutstanding, w.Method)
	case full:
		return fmt.Sprintf("no more than %d calls are made at the same time (%s); %s", w.pool.size, w.pool.name, queued)
	case g.quota.rate > 0:
		return fmt.Sprintf("the cloud's quota for %s takes %.1f calls a second, as its refusals show; %s", g.name, g.quota.rate, queued)
	case q.cap != nil && q.cap.TokensAt(now) < 1:
		return fmt.Sprintf("--cloud-api-qps, or what the provider declares, allows %v calls a second; %s", q.cap.Limit(), queued)
	default:
		others := -g.running
		for _, other := range q.groups {
			others += other.running
		}
		return fmt.Sprintf("%d calls for %s and %d others are under way; %s", g.running, g.name, others, queued)
	}
}

// Overdue returns an error if a method has as many outstanding calls as it may.
func (q *Queue) Overdue() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls.Overdue()
}

// Unreturned returns a StillRunningError for each write that is outstanding.
func (q *Queue) Unreturned() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls.Unreturned()
}
