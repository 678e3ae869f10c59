package cloud

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// fairShare is how often the call that has waited longest is let in, whatever its priority: every so many-th.
	fairShare = 16
	// ranks are the priorities, and two of objects that wait behind others: rankBehind, before refreshes, since no caller waits for
	// those, and the lowest one for refreshes of such objects.
	ranks      = int(PriorityNewNode-PriorityRefresh) + 3
	rankBehind = 2
	// forgetObject is after how long without a call an object is forgotten.
	forgetObject = time.Hour
)

// groupQueue are the calls of one group: waiting, under way, and what the cloud lets through.
type groupQueue struct {
	name    string
	quota   *quota
	objects map[string]*object
	swept   time.Time

	bounds   pools
	pools    []*pool
	admitted uint64

	// refused is the call that was refused last. Holds is how many objects were refused in a row.
	refused refusal
	pauses  int
}

// refusal is a call that was refused.
type refusal struct {
	object string
	at     time.Time
	ticket ticket
}

func newGroupQueue(name string, bounds pools) *groupQueue {
	return &groupQueue{name: name, bounds: bounds, quota: &quota{}, objects: map[string]*object{}}
}

// object returns what is known of what a call is about.
func (g *groupQueue) object(key string, now time.Time) *object {
	if now.Sub(g.swept) > forgetObject/4 {
		g.swept = now
		for old, o := range g.objects {
			if now.Sub(o.used) > forgetObject {
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

// pool returns the pool of a name.
func (g *groupQueue) pool(name string) *pool {
	for _, known := range g.pools {
		if known.name == name {
			return known
		}
	}
	added := &pool{name: name, size: g.bounds[name]}
	g.pools = append(g.pools, added)
	return added
}

// rankOf returns the place of a priority in the order of calls, the highest of which goes first.
func rankOf(priority Priority, behind bool) int {
	switch refresh := priority == PriorityRefresh; {
	case refresh && behind:
		return 0
	case refresh:
		return 1
	case behind:
		return rankBehind
	default:
		return int(priority-PriorityRefresh) + rankBehind
	}
}

// insert adds a call in its place.
func (g *groupQueue) insert(w *waiter) {
	priority := Priority(w.request.priority.Load())
	w.rank, w.pool = rankOf(priority, w.behind), g.pool(g.bounds.of(w.about, priority))
	w.pool.insert(w)
}

// all returns the waiting calls, in no particular order.
func (g *groupQueue) all() []*waiter {
	var all []*waiter
	for _, l := range g.pools {
		for rank := range ranks {
			all = append(all, l.waiting[rank]...)
		}
	}
	return all
}

// sort takes in that priorities were raised.
func (g *groupQueue) sort() {
	all := g.all()
	for _, l := range g.pools {
		l.waiting = [ranks][]*waiter{}
	}
	slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, w := range all {
		g.insert(w)
	}
}

// catchUp gives the waiting calls about an object their usual places: it waits behind others no more. Otherwise all later calls about it would pass
// them.
func (g *groupQueue) catchUp(key string) {
	for _, w := range g.all() {
		if w.behind && w.about.key() == key {
			w.pool.remove(w)
			w.behind = false
			g.insert(w)
		}
	}
}

// waiting returns how many wait.
func (g *groupQueue) waiting() int {
	count := 0
	for _, l := range g.pools {
		count += l.count()
	}
	return count
}

// running returns how many count as under way.
func (g *groupQueue) running() int {
	count := 0
	for _, l := range g.pools {
		count += len(l.running)
	}
	return count
}

// ready returns when the next call may be let in, as far as the quota goes.
func (g *groupQueue) ready(now time.Time) time.Time {
	g.quota.forget(now)
	return g.quota.ready()
}

// expire ends the wait of calls that may wait for ever, for a call that is outstanding.
func (g *groupQueue) expire(blocked func(*waiter) error) {
	for _, w := range g.all() {
		if w.err = blocked(w); w.err != nil {
			w.pool.remove(w)
			close(w.let)
		}
	}
}

// pick returns the call to let in next, nil if no waiting call may have a place.
func (g *groupQueue) pick(free func(*waiter) bool) *waiter {
	return g.best(free, g.admitted%fairShare == fairShare-1)
}

// best returns the first call that may be let in, or the one that has waited longest.
func (g *groupQueue) best(may func(*waiter) bool, fair bool) (best *waiter) {
	for _, l := range g.pools {
		if l.full() {
			continue
		}
		w, oldest := l.first(may)
		if fair {
			w = oldest
		}
		if w == nil {
			continue
		}
		higher := !fair && best != nil && w.rank != best.rank
		if best == nil || higher && w.rank > best.rank || !higher && w.arrival < best.arrival {
			best = w
		}
	}
	return best
}

// refuse takes in a refusal for the quota. That one object is refused says nothing of the quota, and that is so however often it is
// refused: it waits for itself. When two are refused within a moment, the rate is cut and the group held; where a rate is known already, when
// another is refused. The third refusal of an object in a row says nothing new.
func (g *groupQueue) refuse(o *object, w *waiter, retryAfter time.Duration, now time.Time) {
	o.refusals++
	before := g.refused
	g.refused = refusal{object: w.about.key(), at: now, ticket: w.ticket}
	unknown := g.quota.rate == 0
	if before.object == g.refused.object || o.refusals > actingRefusals || unknown && (before.object == "" || now.Sub(before.at) > refusedTogether) {
		return
	}
	pause := time.Duration(0)
	if o.refusals == 1 {
		pause = min(retryAfter, firstPause<<min(g.pauses, 16), MaxGroupPause)
		g.pauses++
	}
	if unknown {
		g.quota.refuse(before.ticket, pause, now)
	}
	g.quota.refuse(w.ticket, pause, now)
}

// obstacle says what a call waits for; nothing if it waits no more.
func (q *queue) obstacle(w *waiter) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of(w.about.group)
	now := time.Now()
	if !slices.Contains(w.pool.waiting[w.rank], w) {
		return ""
	}
	queued := fmt.Sprintf("%d calls for %s are waiting", g.waiting(), g.name)
	for _, key := range w.exclusive {
		if other := q.busy[key]; other != nil {
			return fmt.Sprintf("%s for %s has been under way since %s", other.about.name, other.about.key(), other.admitted.UTC().Format(time.RFC3339))
		}
	}
	switch {
	case g.quota.pausedUntil.After(now):
		return fmt.Sprintf("the cloud asked for no calls for %s until %s; %s", g.name, g.quota.pausedUntil.UTC().Format(time.RFC3339), queued)
	case w.pool.full() && q.method(w.about.name).outstanding >= maxOutstanding:
		return fmt.Sprintf("%d calls of %s have not returned, and no more are made; restart this process", maxOutstanding, w.about.name)
	case w.pool.full():
		return fmt.Sprintf("no more than %d calls are made at the same time (%s); %s", w.pool.size, w.pool.name, queued)
	case g.quota.rate > 0:
		return fmt.Sprintf("the cloud's quota for %s takes %.1f calls a second, as its refusals show; %s", g.name, g.quota.rate, queued)
	case q.cap != nil && q.cap.TokensAt(now) < 1:
		return fmt.Sprintf("--cloud-api-qps, or what the provider declares, allows %v calls a second; %s", q.cap.Limit(), queued)
	default:
		return fmt.Sprintf("%d calls for %s and %d others are under way; %s", g.running(), g.name, q.others(g), queued)
	}
}

// others returns how many calls of other groups are under way.
func (q *queue) others(g *groupQueue) int {
	count := 0
	for _, other := range q.groups {
		if other != g {
			count += other.running()
		}
	}
	return count
}

// pool are the calls of one pool of a group.
type pool struct {
	name string
	size int // 0: no bound of its own
	// waiting are the waiting calls, by rank and then by arrival.
	waiting [ranks][]*waiter
	// running are the calls that count as under way.
	running []*waiter
}

// full reports whether no call may be let in.
func (l *pool) full() bool { return l.size > 0 && len(l.running) >= l.size }

// insert adds a call in its place.
func (l *pool) insert(w *waiter) {
	list := &l.waiting[w.rank]
	at, _ := slices.BinarySearchFunc(*list, w, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	*list = slices.Insert(*list, at, w)
}

// remove takes a call out of the waiting ones, and reports whether it was there.
func (l *pool) remove(w *waiter) bool {
	list := &l.waiting[w.rank]
	at := slices.Index(*list, w)
	switch {
	case at < 0:
		return false
	case at == 0:
		(*list)[0] = nil
		*list = (*list)[1:]
	default:
		*list = slices.Delete(*list, at, at+1)
	}
	return true
}

// release takes a call out of the running ones.
func (l *pool) release(w *waiter) {
	if at := slices.Index(l.running, w); at >= 0 {
		l.running = slices.Delete(l.running, at, at+1)
	}
}

// first returns the call that may be let in first, and the one of them that has waited longest.
func (l *pool) first(may func(*waiter) bool) (first, oldest *waiter) {
	for rank := ranks - 1; rank >= 0; rank-- {
		at := slices.IndexFunc(l.waiting[rank], may)
		if at < 0 {
			continue
		}
		w := l.waiting[rank][at]
		if first == nil {
			first = w
		}
		if oldest == nil || w.arrival < oldest.arrival {
			oldest = w
		}
	}
	return first, oldest
}

// count returns how many wait.
func (l *pool) count() int {
	count := 0
	for rank := range ranks {
		count += len(l.waiting[rank])
	}
	return count
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
