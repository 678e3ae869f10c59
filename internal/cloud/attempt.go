package cloud

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// grace is how long after its deadline a call is given up. Most plugins return once their context has ended.
const grace = time.Second

// MaxErrorText is how many bytes of an error of the plugin go on, to logs, events, spans and conditions. See ADR 6.
const MaxErrorText = 4000

// shown returns an error of the plugin as it goes on: with a text that is bounded and repeats no credential.
func (c *client) shown(err error) error { return c.secrets.Bound(err, MaxErrorText) }

// attempt is one call of the plugin, on a goroutine of its own, so that nobody waits for a plugin that ignores its context.
//
//	state      place in the queue   context      left by
//	running    taken                alive        the plugin returns: over; the deadline: late
//	late       taken                ended        the plugin returns: over; grace: abandoned
//	abandoned  given back, counted  ended        the plugin returns: over
//	over       given back           ended        -
type attempt struct {
	*call
	waiter *waiter
	method func(context.Context) error
	repeat func(context.Context) error
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time

	timeout time.Duration
	done    chan error
	given   chan struct{} // closed when the call is abandoned

	mu        sync.Mutex
	deadline  *time.Timer // ends the context
	giveUp    *time.Timer // abandons the call
	left      bool        // the place was given back
	abandoned bool
	over      bool
}

// begin prepares an attempt that has its place in the queue.
func (c *call) begin(ctx context.Context, w *waiter, method func(context.Context) error) *attempt {
	a := &attempt{
		call: c, waiter: w, method: method, began: time.Now(), timeout: c.timeout(), done: make(chan error, 1), given: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

// timeout is the deadline of an attempt.
func (c *call) timeout() time.Duration {
	if len(c.about.several) > 0 {
		return min(c.writeTimeout, severalTimeout)
	}
	if c.about.write {
		return c.writeTimeout
	}
	return c.readTimeout
}

// run calls the plugin. Every call of a plugin's method passes here.
func (a *attempt) run() {
	a.mu.Lock()
	a.deadline = time.AfterFunc(a.timeout, func() { a.cancel(ErrDeadline) })
	a.giveUp = time.AfterFunc(a.timeout+grace, a.abandon)
	a.mu.Unlock()
	a.client.writes.begin(a.about)
	go func() {
		// Errors of SDKs may panic when they are asked what they say, so that they are classified here, and their texts bounded.
		err := Protect(a.about.name, func() error { return a.shown(classify(a.method(a.ctx))) }, a.returned)
		a.returned(a.shown(err)) // of a panic
	}()
}

// wait returns what the plugin returned, or that it is not back at the deadline. A read is not waited for when its caller has
// given up.
func (a *attempt) wait() (err error, back bool) {
	ended := a.ctx.Done()
	if a.about.write {
		ended = nil
	}
	select {
	case err := <-a.done:
		return err, true
	case <-a.given:
		return context.Cause(a.ctx), false
	case <-ended:
	}
	select {
	case err := <-a.done: // at the same moment
		return err, true
	default:
		return context.Cause(a.ctx), false
	}
}

// extend lets the deadline begin anew, because the plugin has shown that it goes on.
func (a *attempt) extend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over && !a.abandoned {
		a.deadline.Reset(a.timeout)
		a.giveUp.Reset(a.timeout + grace)
	}
}

// pause lets no deadline pass until extend is called.
func (a *attempt) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deadline.Stop()
	a.giveUp.Stop()
}

// begun gives the place back although the call goes on, as that of a watch does.
func (a *attempt) begun() {
	a.mu.Lock()
	a.deadline.Stop()
	a.giveUp.Stop()
	changed := a.leave(nil, false)
	a.mu.Unlock()
	a.client.took(a.ctx, a.about, changed)
}

// expect abandons the call unless it returns soon: its context has ended.
func (a *attempt) expect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over && !a.abandoned {
		a.giveUp.Reset(grace)
	}
}

// returned ends the attempt. It is called once, by the plugin's goroutine.
func (a *attempt) returned(err error) {
	a.client.writes.end(a.about)
	a.mu.Lock()
	a.deadline.Stop()
	a.giveUp.Stop()
	a.over = true
	late, changed := a.abandoned, change{}
	if late {
		a.queue.returned(a.waiter)
	} else {
		changed = a.leave(err, false)
	}
	a.mu.Unlock()
	if late {
		logr.FromContextOrDiscard(a.ctx).Info("A call that was abandoned has returned", "operation", a.about.name,
			"object", a.about.object, "took", time.Since(a.began).Round(time.Millisecond).String())
	}
	a.client.took(a.ctx, a.about, changed)
	a.done <- err
}

// abandon gives the call up: its place is free for others, and whoever waits for it gets the error that the deadline has passed.
func (a *attempt) abandon() {
	a.mu.Lock()
	if a.over || a.abandoned {
		a.mu.Unlock()
		return
	}
	a.abandoned = true
	changed := a.leave(ErrDeadline, true)
	a.mu.Unlock()
	a.cancel(ErrDeadline)
	logr.FromContextOrDiscard(a.ctx).Error(ErrDeadline, "The cloud provider ignores the deadline of a call, which is abandoned",
		"operation", a.about.name, "object", a.about.object, "took", time.Since(a.began).Round(time.Millisecond).String())
	a.client.took(a.ctx, a.about, changed)
	close(a.given)
}

// leave gives the place back, the first time, and reports to the queue what came of the call. The lock is held.
func (a *attempt) leave(err error, abandoned bool) change {
	if a.left {
		if abandoned { // a watch, whose place was given back when it began
			a.queue.abandon(a.waiter, a.timeout)
		}
		return change{}
	}
	a.left = true
	label, err := labeled(a.ctx, err)
	result := outcome{err: err, label: label, abandoned: abandoned, timeout: a.timeout, repeat: a.repeat}
	if refusal, refused := throttled(err); refused {
		result.refused, result.retryAfter = true, refusal.RetryAfter
	}
	result.rejected = label == outcomeError && isRequestError(err)
	return a.queue.leave(a.waiter, result)
}
