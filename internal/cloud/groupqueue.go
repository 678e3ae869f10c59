package cloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// fairShare is how often the call that has waited longest is let in, whatever its priority: every so many-th.
	fairShare = 16
	// ranks are the priorities, and two of objects that wait behind others: rankBehind, before refreshes, since nobody waits for
	// those, and the lowest one for refreshes of such objects.
	ranks      = int(PriorityNewNode-PriorityRefresh) + 3
	rankBehind = 2
	// maxCanaries is how many reads that worked are kept for checks, and maxChecks how many of them a check repeats.
	maxCanaries, maxChecks = 16, 4
	// maxBehind is the part of the window that objects may have whose last call hung or was refused repeatedly: one in four.
	maxBehind = 4
	// keptForReads is the part of the window that writes leave to reads: one in four.
	keptForReads = 4
)

// groupQueue are the calls of one group: those that wait, those under way, and what the cloud lets through.
type groupQueue struct {
	name    string
	window  window
	quota   *quota
	breaker breaker
	objects map[string]*object
	swept   time.Time

	// reads and writes are those that wait, by rank and then by arrival.
	reads, writes [ranks][]*waiter
	// brisk are the calls under way that count against the window, by admission. Slow ones are under way for longer.
	brisk     []*waiter
	slow      int
	abandoned int
	admitted  uint64

	counts counts
	// refused are the objects whose refusals the quota rests on, and holds is how many objects were refused in a row.
	refused   map[string]struct{}
	refusedAt time.Time
	holds     int
	// coincided is how often it was refused soon after another group.
	coincided map[string]int
	owned     int // objects whose refusals are their own matter
	canaries  []canary
}

// canary is a read that worked, by which to see whether the cloud answers at all.
type canary struct {
	about  subject
	repeat func(context.Context) error
}

func newGroupQueue(name string, window int) *groupQueue {
	return &groupQueue{
		name: name, window: newWindow(window), quota: &quota{}, objects: map[string]*object{}, refused: map[string]struct{}{},
		coincided: map[string]int{},
	}
}

// object returns what is known of what a call is about.
func (g *groupQueue) object(key string, now time.Time) *object {
	if now.Sub(g.swept) > forgetObject/4 {
		g.swept = now
		for old, o := range g.objects {
			if !o.idle(now) {
				continue
			}
			if o.own {
				g.owned--
			}
			delete(g.objects, old)
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

// lists returns the reads or the writes that wait.
func (g *groupQueue) lists(write bool) *[ranks][]*waiter {
	if write {
		return &g.writes
	}
	return &g.reads
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
	w.rank = rankOf(Priority(w.request.priority.Load()), w.behind)
	list := &g.lists(w.about.write)[w.rank]
	at, _ := slices.BinarySearchFunc(*list, w, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	*list = slices.Insert(*list, at, w)
}

// remove takes a call out, and reports whether it was there.
func (g *groupQueue) remove(w *waiter) bool {
	list := &g.lists(w.about.write)[w.rank]
	at := slices.Index(*list, w)
	if at < 0 {
		return false
	}
	if at == 0 {
		(*list)[0] = nil
		*list = (*list)[1:]
	} else {
		*list = slices.Delete(*list, at, at+1)
	}
	return true
}

// all returns those that wait, in no particular order.
func (g *groupQueue) all() []*waiter {
	var all []*waiter
	for rank := range ranks {
		all = append(append(all, g.reads[rank]...), g.writes[rank]...)
	}
	return all
}

// sort takes in that priorities were raised.
func (g *groupQueue) sort() {
	all := g.all()
	g.reads, g.writes = [ranks][]*waiter{}, [ranks][]*waiter{}
	slices.SortFunc(all, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, w := range all {
		g.insert(w)
	}
}

// waiting returns how many wait.
func (g *groupQueue) waiting() int {
	count := 0
	for rank := range ranks {
		count += len(g.reads[rank]) + len(g.writes[rank])
	}
	return count
}

// used returns how many places the group has of those that all groups share.
func (g *groupQueue) used(strict bool) int {
	if strict {
		return len(g.brisk) + g.slow
	}
	return len(g.brisk)
}

// ready returns when the next call may be let in, as far as the quota and the breaker go.
func (g *groupQueue) ready(now time.Time) time.Time {
	g.quota.forget(now)
	if g.quota.rate == 0 && len(g.refused) > 0 {
		clear(g.refused)
		clear(g.coincided)
	}
	if g.quota.rate == 0 && g.quota.shared {
		g.quota = &quota{}
	}
	at := g.quota.ready()
	if g.breaker.open {
		at = later(at, g.breaker.next)
	}
	return at
}

// age lets calls that have been under way for long leave the window.
func (g *groupQueue) age(now time.Time) {
	for len(g.brisk) > 0 && !now.Before(g.brisk[0].admitted.Add(slowAfter)) && g.slow+g.abandoned < maxOverdue {
		g.brisk[0].slow = true
		g.slow++
		g.brisk = slices.Delete(g.brisk, 0, 1)
	}
}

// slowing returns when the next call leaves the window by its age; zero if none does.
func (g *groupQueue) slowing() time.Time {
	if len(g.brisk) == 0 || g.slow+g.abandoned >= maxOverdue {
		return time.Time{}
	}
	return g.brisk[0].admitted.Add(slowAfter)
}

// release gives the place of a call back.
func (g *groupQueue) release(w *waiter) {
	if w.slow {
		g.slow--
		return
	}
	if at := slices.Index(g.brisk, w); at >= 0 {
		g.brisk = slices.Delete(g.brisk, at, at+1)
	}
}

// expire ends the wait of those that have waited in vain for the breaker to close, and of all when no call can be made any more.
func (g *groupQueue) expire(now time.Time) {
	if err := g.full(); err != nil {
		for _, w := range g.all() {
			g.refuse(w, err)
		}
	}
	if !g.breaker.open {
		return
	}
	for _, w := range g.all() {
		if !now.Before(g.patience(w)) {
			g.refuse(w, g.breaker.unavailable(g.name))
		}
	}
}

// refuse lets a call go with an error instead of a place.
func (g *groupQueue) refuse(w *waiter, err error) {
	g.remove(w)
	w.err = err
	close(w.let)
}

// full returns an error if so many calls have not returned from the plugin that no more are made.
func (g *groupQueue) full() error {
	if g.abandoned < maxOverdue {
		return nil
	}
	return fmt.Errorf("%w: %d for %s; restart this process", ErrTooManyAbandoned, g.abandoned, g.name)
}

// patience returns until when a call waits for the breaker to close. A refresh does not: nobody waits for it.
func (g *groupQueue) patience(w *waiter) time.Time {
	since := later(w.since, g.breaker.opened)
	if Priority(w.request.priority.Load()) == PriorityRefresh && !w.since.After(g.breaker.opened) {
		return since
	}
	return since.Add(lastProbe)
}

// expiry returns when the next of those that wait has waited for too long; zero while the breaker is closed.
func (g *groupQueue) expiry() time.Time {
	next := time.Time{}
	if g.breaker.open {
		for _, w := range g.all() {
			next = soonest(next, g.patience(w))
		}
	}
	return next
}

// pick returns the call to let in next, nil if none of those that wait may have a place. A probe is a read if there is one.
func (g *groupQueue) pick() *waiter {
	writes, behind := 0, 0
	for _, w := range g.brisk {
		if w.about.write {
			writes++
		}
		if w.behind {
			behind++
		}
	}
	var oldest, best *waiter
	for _, lists := range []*[ranks][]*waiter{&g.reads, &g.writes} {
		if lists == &g.writes && (writes >= max(g.window.size-max(g.window.size/keptForReads, 1), 1) || g.breaker.open && best != nil) {
			break
		}
		for rank := range ranks {
			if len(lists[rank]) == 0 || lists[rank][0].behind && behind >= max(g.window.size/maxBehind, 1) {
				continue
			}
			w := lists[rank][0]
			if oldest == nil || w.arrival < oldest.arrival {
				oldest = w
			}
			if best == nil || w.rank > best.rank || w.rank == best.rank && w.arrival < best.arrival {
				best = w
			}
		}
	}
	if g.admitted%fairShare == fairShare-1 && !g.breaker.open {
		return oldest
	}
	return best
}

// hold returns for how long a refusal may hold the group. A write's first holds its object only, by its controller.
func (g *groupQueue) hold(w *waiter) time.Duration {
	if w.about.write && g.holds == 0 {
		return 0
	}
	return min(firstHold<<min(g.holds, 16), longestGroupHold)
}

// accept notes that a call was not refused.
func (g *groupQueue) accept(o *object, t ticket, now time.Time) {
	if o.own {
		g.owned--
	}
	if o.clean(now) {
		g.counts.clean++
	}
	o.accept()
	t.quota.accept(t, now)
}

// witness looks, after a call was accepted, which objects are the only ones that the cloud refuses.
func (g *groupQueue) witness(now time.Time) {
	for key := range g.refused {
		if o := g.objects[key]; o != nil && !o.own && o.attribute(g.counts, now) {
			g.drop(key)
		}
	}
}

// drop takes an object out of those by whose refusals the quota is known: they are its own matter. Without any such object, no
// quota is known.
func (g *groupQueue) drop(key string) {
	g.owned++
	if _, found := g.refused[key]; !found {
		return
	}
	delete(g.refused, key)
	if len(g.refused) == 0 {
		g.quota, g.refusedAt = &quota{}, time.Time{}
	}
}

// learn has the breaker take in what came of a call.
func (g *groupQueue) learn(about subject, o *object, result outcome, now time.Time, changed *change) {
	bit := about.bit()
	switch {
	case result.label == outcomeError && !result.rejected || result.label == outcomeTimeout:
		g.breaker.failed(about, o.worked&bit != 0, result.err, now)
		o.worked &^= bit
		g.forgetCanary(about)
		if g.breaker.suspicious(now) {
			g.breaker.check(now)
			changed.check = true
		}
	case result.label == outcomePanic:
		g.forgetCanary(about)
	case result.refused || !result.answered(): // says nothing
	default:
		changed.since, changed.closed = g.breaker.since, g.breaker.open
		g.breaker.answered()
		o.worked |= bit
		if !about.write && result.repeat != nil {
			g.keepCanary(canary{about, result.repeat})
		}
	}
}

// takeCanary returns the newest read that worked, and forgets it, or nil if no read has worked.
func (g *groupQueue) takeCanary() *canary {
	if len(g.canaries) == 0 {
		return nil
	}
	newest := g.canaries[len(g.canaries)-1]
	g.canaries = g.canaries[:len(g.canaries)-1]
	return &newest
}

// keepCanary keeps a read that worked, one for each object and method.
func (g *groupQueue) keepCanary(worked canary) {
	g.forgetCanary(worked.about)
	g.canaries = append(g.canaries, worked)
	if len(g.canaries) > maxCanaries {
		g.canaries = slices.Delete(g.canaries, 0, 1)
	}
}

// forgetCanary forgets a read that does not work any more.
func (g *groupQueue) forgetCanary(about subject) {
	g.canaries = slices.DeleteFunc(g.canaries, func(kept canary) bool {
		return kept.about.name == about.name && kept.about.key() == about.key()
	})
}

// obstacle says what a call waits for; nothing if it waits no more.
func (q *queue) obstacle(w *waiter) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.of(w.about.group)
	now := time.Now()
	if !slices.Contains(g.lists(w.about.write)[w.rank], w) {
		return ""
	}
	queued := fmt.Sprintf("%d calls for %s are waiting", g.waiting(), g.name)
	switch {
	case g.breaker.open:
		return g.breaker.unavailable(g.name).Error()
	case g.quota.hold.After(now):
		return fmt.Sprintf("the cloud asked for no calls for %s until %s; %s", g.name, g.quota.hold.UTC().Format(time.RFC3339), queued)
	case g.quota.rate > 0:
		return fmt.Sprintf("the cloud's quota for %s takes %.1f calls a second, as its refusals show; %s", g.name, g.quota.rate, queued)
	case q.cap != nil && q.cap.TokensAt(now) < 1:
		return fmt.Sprintf("--cloud-api-qps, or what the provider declares, allows %v calls a second; %s", q.cap.Limit(), queued)
	default:
		return fmt.Sprintf("%d calls for %s and %d others are under way; %s", len(g.brisk)+g.slow, g.name, q.others(g), queued)
	}
}

// others returns how many calls of other groups are under way.
func (q *queue) others(g *groupQueue) int {
	count := 0
	for _, other := range q.groups {
		if other != g {
			count += len(other.brisk) + other.slow
		}
	}
	return count
}
