package cloud

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// fairShare is how often the call that has waited longest is let in, whatever its priority: every so many-th.
const fairShare = 16

// gate lets calls in: by priority, and among equals by arrival, when there is a place in the window and the quota has room.
type gate struct {
	metrics *metrics

	mu       sync.Mutex
	window   window
	quota    quota
	cap      *rate.Limiter // what the operator allows; nil: any
	inFlight int
	waiting  []*waiter // by arrival
	arrivals uint64
	admitted uint64
	timer    *time.Timer // runs dispatch when time is all that is missing
}

// waiter is a call that waits. A call that was refused waits again in its old place.
type waiter struct {
	ctx     context.Context
	arrival uint64
	ticket  ticket
	let     chan struct{} // closed when it is let in
}

func newGate(most int, limit rate.Limit, burst int, metrics *metrics) *gate {
	g := &gate{window: newWindow(most), metrics: metrics}
	if limit > 0 {
		g.cap = rate.NewLimiter(limit, burst)
	}
	g.timer = time.AfterFunc(time.Hour, g.wake)
	g.timer.Stop()
	return g
}

// enter waits until the call may be made. Arrival is zero, or what enter returned when the same call was made before. Unless
// it returns an error, leave has to follow.
func (g *gate) enter(ctx context.Context, arrival uint64) (*waiter, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{ctx: ctx, arrival: arrival, let: make(chan struct{})}
	g.mu.Lock()
	if w.arrival == 0 {
		g.arrivals++
		w.arrival = g.arrivals
	}
	at, _ := slices.BinarySearchFunc(g.waiting, w, func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	g.waiting = slices.Insert(g.waiting, at, w)
	g.dispatch()
	g.mu.Unlock()

	select {
	case <-w.let:
		return w, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.dispatch() // the timer may have been set for it
		return nil, context.Cause(ctx)
	}
	return w, nil // let in at the same moment; the call itself looks at the context
}

// leave gives a call's place back. Refused says that the cloud refused it for its quota, and after which time it asks to come
// again, if it says so.
func (g *gate) leave(w *waiter, refused bool, retryAfter time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if refused {
		g.quota.refuse(w.ticket, retryAfter, time.Now())
		g.metrics.refusals.Inc()
	} else {
		g.quota.accept(w.ticket, time.Now())
		g.window = g.window.answered(g.inFlight, g.quota.rate == 0 && len(g.waiting) > 0)
	}
	g.inFlight--
	g.dispatch()
}

func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dispatch()
}

// dispatch lets in whoever may enter now, and sets the timer for the next. The lock is held.
func (g *gate) dispatch() {
	g.timer.Stop()
	now := time.Now()
	for len(g.waiting) > 0 && g.inFlight < g.window.size {
		if wait := g.wait(now); wait > 0 {
			g.timer.Reset(wait)
			break
		}
		i := g.next()
		w := g.waiting[i]
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.admit(w, now)
	}
	g.metrics.inFlight.Set(float64(g.inFlight))
	g.metrics.waiting.Set(float64(len(g.waiting)))
	g.metrics.rateLimit.Set(g.quota.rate)
}

func (g *gate) admit(w *waiter, now time.Time) {
	g.window = g.window.admitted(now)
	w.ticket = g.quota.admit(now, g.window.pace())
	if g.cap != nil {
		g.cap.AllowN(now, 1)
	}
	g.inFlight++
	g.admitted++
	close(w.let)
}

// wait returns how long nobody may enter, for the cloud's quota and for the operator's.
func (g *gate) wait(now time.Time) time.Duration {
	wait := g.quota.ready().Sub(now)
	if g.cap != nil {
		if missing := 1 - g.cap.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(missing/float64(g.cap.Limit())*float64(time.Second))+1)
		}
	}
	return wait
}

// next returns the place of the waiter to let in next. Priorities are looked at now, because they can be raised while a call
// waits.
func (g *gate) next() int {
	best := 0
	if g.admitted%fairShare == fairShare-1 {
		return best
	}
	for i, w := range g.waiting {
		if PriorityOf(w.ctx) > PriorityOf(g.waiting[best].ctx) {
			best = i
		}
	}
	return best
}
