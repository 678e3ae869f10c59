package cloud

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
)

// grace is how long after its deadline a call is outstanding. Most plugins return once their context has ended.
const grace = time.Second

// MaxErrorText is how many bytes of an error of the plugin go on, to logs, events, spans and conditions. See ADR 6.
const MaxErrorText = 4000

// shown returns an error of the plugin as it goes on: with a text that is bounded and repeats no credential.
func (c *client) shown(err error) error { return c.secrets.Bound(err, MaxErrorText) }

// attempt is one call of the plugin, on a goroutine of its own, so its caller need not wait for ever.
//
//	state        place        object   left by
//	running      taken        kept     the plugin returns: over; after long: outstanding
//	outstanding  given back   kept     the plugin returns: over
//	over         given back   free     -
//
// Its context ends with the lease or the process, and at a deadline if the operator or the provider has set one. The caller of a read may
// give up, the call goes on.
type attempt struct {
	*call
	waiter   *waiter
	method   func(context.Context) error
	caller   context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	ending   func() bool // stops following the process
	deadline *time.Timer // nil: there is none
	began    time.Time
	done     chan error
	left     sync.Once
}

// begin prepares an attempt that has its place in the queue.
func (c *call) begin(ctx context.Context, w *waiter, method func(context.Context) error) *attempt {
	a := &attempt{call: c, waiter: w, method: method, caller: ctx, began: time.Now(), done: make(chan error, 1), ending: func() bool { return true }}
	if c.lifetime == nil {
		a.ctx, a.cancel = context.WithCancelCause(ctx)
		return a
	}
	a.ctx, a.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	a.ending = context.AfterFunc(c.lifetime, func() { a.cancel(context.Cause(c.lifetime)) })
	return a
}

// timeout is the deadline of an attempt, 0 if there is none.
func (c *call) timeout() time.Duration {
	if c.about.write {
		return c.writeTimeout
	}
	return c.readTimeout
}

// run calls the plugin. Every call of a plugin's method passes here.
func (a *attempt) run() {
	if timeout := a.timeout(); timeout > 0 {
		a.deadline = time.AfterFunc(timeout, func() { a.cancel(classify.ErrDeadline) })
	}
	go func() {
		// Errors of SDKs may panic when they are asked what they say, so they are classified here, and their texts bounded.
		err := Protect(a.about.name, func() error { return a.shown(classify.Error(a.method(a.ctx))) }, a.returned)
		a.returned(a.shown(err)) // of a panic
	}()
}

// wait returns what the plugin returned, or that it has not for so long that its caller waits no more. A read is not waited for when its
// caller has given up; a write is, because to come back while it is under way would let its caller do something else about its object.
func (a *attempt) wait() (err error, back bool) {
	ended := a.caller.Done()
	if a.about.write {
		ended = nil
	}
	select {
	case err := <-a.done:
		return err, true
	case <-a.waiter.given:
		err = a.waiter.stillRunning()
		if a.ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(a.ctx), err)
		}
		logr.FromContextOrDiscard(a.ctx).Error(err, "A call of the cloud provider has not returned for long; other calls no longer wait for it",
			"operation", a.about.name, "object", a.about.object, "took", time.Since(a.began).Round(time.Millisecond).String())
	case <-ended:
		err = context.Cause(a.caller)
	}
	select {
	case err := <-a.done: // at the same moment
		return err, true
	default:
		return err, false
	}
}

// goesOn lets the deadline begin anew, because the plugin has shown that it goes on.
func (a *attempt) goesOn() {
	if a.deadline != nil {
		a.deadline.Reset(a.timeout())
	}
	a.queue.goesOn(a.waiter, false)
}

// pause lets no deadline pass until goesOn is called.
func (a *attempt) pause() {
	if a.deadline != nil {
		a.deadline.Stop()
	}
	a.queue.goesOn(a.waiter, true)
}

// begun gives the place back although the call goes on, as the call of a watch does.
func (a *attempt) begun() {
	if a.deadline != nil {
		a.deadline.Stop()
	}
	a.leave(nil)
}

// returned ends the attempt. It is called once, by the plugin's goroutine.
func (a *attempt) returned(err error) {
	if a.deadline != nil {
		a.deadline.Stop()
	}
	a.leave(err)
	a.done <- err
}

// release ends what belongs to the context of a call, once the plugin has returned from it.
func (a *attempt) release(back bool) {
	if back {
		a.ending()
		a.cancel(nil)
		return
	}
	go func() {
		<-a.done
		a.release(true)
	}()
}

// leave gives the place back, the first time, and reports to the queue what came of the call.
func (a *attempt) leave(err error) {
	a.left.Do(func() {
		label, err := labeled(a.ctx, err)
		result := outcome{err: err, label: label}
		if refusal, refused := classify.Refusal(err); refused {
			result.refused, result.retryAfter = true, refusal.RetryAfter
		}
		if a.queue.leave(a.waiter, result) {
			logr.FromContextOrDiscard(a.ctx).Info("A call that had not returned for long has returned", "operation", a.about.name,
				"object", a.about.object, "took", time.Since(a.began).Round(time.Millisecond).String())
		}
	})
}
