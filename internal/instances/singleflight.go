package instances

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/sleep"
)

// singleflight is a question to the cloud that any number of callers may ask at any time, and that is put to the cloud by one
// call at a time. A caller is served by an answer that is young enough for it; by the call under way, if that began late
// enough; and otherwise by the next call, which all such callers share.
//
// golang.org/x/sync/singleflight does not do: it serves a caller by a call that began before the question and may say that something is
// not there that has come since; it has no context that ends when no caller waits; a call that is shared has the priority of
// its first caller; and it keeps no answer.
type singleflight[T any] struct {
	// due returns when a call may begin for which a caller waits since first, and the last one that joined came at last, so callers
	// who come together share it. Nil: at once.
	due func(first, last time.Time) time.Time

	mu      sync.Mutex
	last    *answer[T] // the newest success
	current *call[T]   // under way
	next    *call[T]   // begins when current has ended and the pause is over
	running bool       // a goroutine looks after current and next
}

// ask puts a question to the cloud.
type ask[T any] func(context.Context) (T, error)

// answer is what the cloud said, and when it was called that said so, at the earliest.
type answer[T any] struct {
	value T
	at    time.Time
	// asked is the span of the caller whose question it answers, nil unless that is traced.
	asked *trace.SpanContext
}

// call is one call and the callers that wait for it. Its context ends when none waits, whichever asked first.
type call[T any] struct {
	ask     ask[T]
	ctx     context.Context // the call's own, not a caller's
	cancel  context.CancelFunc
	waiting int
	// first and last are when the first and the last waiting caller came.
	first, last time.Time
	began       time.Time
	done        chan struct{}
	answer      answer[T]
	err         error
}

// newest returns the newest answer without asking.
func (s *singleflight[T]) newest() (answer[T], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return answer[T]{}, false
	}
	return *s.last, true
}

// idle reports whether no caller waits for an answer and the newest one is older than the given time.
func (s *singleflight[T]) idle(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.running && (s.last == nil || s.last.at.Before(since))
}

// get returns an answer whose call began no earlier than notBefore, and puts the question if a new call has to be made. The
// error is the call's, or ctx's if that ends first; the call goes on for the others.
func (s *singleflight[T]) get(ctx context.Context, notBefore time.Time, question ask[T]) (answer[T], error) {
	s.mu.Lock()
	if s.last != nil && !s.last.at.Before(notBefore) {
		defer s.mu.Unlock()
		if s.last.asked != nil {
			linkTo(ctx, s.last.asked)
		}
		return *s.last, nil
	}
	c := s.join(ctx, notBefore, question)
	s.mu.Unlock()

	select {
	case <-c.done:
		if c.answer.asked != nil {
			linkTo(ctx, c.answer.asked)
		}
		return c.answer, c.err
	case <-ctx.Done():
		s.leave(c)
		return answer[T]{}, fmt.Errorf("waiting for the cloud's answer: %w", context.Cause(ctx))
	}
}

// join returns a call that serves notBefore and counts the caller among the waiting ones. The lock is held.
func (s *singleflight[T]) join(ctx context.Context, notBefore time.Time, question ask[T]) *call[T] {
	c := s.current
	if c == nil || c.waiting == 0 || c.began.Before(notBefore) {
		c = s.next
	}
	// The call is as urgent as its most urgent waiting caller, and so is the one that has to end before it.
	if s.current != nil {
		admission.Join(s.current.ctx, ctx)
	}
	switch {
	case c == nil || c.waiting == 0:
		c = &call[T]{ask: question, done: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(admission.Apart(ctx))
		s.next = c
	case c != s.current:
		admission.Join(c.ctx, ctx)
	}
	c.waiting++
	c.last = time.Now()
	if c.first.IsZero() {
		c.first = c.last
	}
	if !s.running {
		s.running = true
		go s.run()
	}
	return c
}

func (s *singleflight[T]) leave(c *call[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
	}
}

// run makes one call after the other, as long as a caller waits for one.
func (s *singleflight[T]) run() {
	for {
		c := s.begin()
		if c == nil {
			return
		}
		value, err := c.ask(c.ctx)
		s.finish(c, value, err)
	}
}

// begin waits until a call is due and returns the next one that a caller still waits for, or nil if there is none.
func (s *singleflight[T]) begin() *call[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next != nil {
		c := s.next
		s.awaitDue(c)
		if c.waiting > 0 {
			s.current, s.next = c, nil
			c.began = time.Now()
			return c
		}
		if s.next == c {
			s.next = nil
		}
	}
	s.running = false
	return nil
}

// awaitDue waits until a call is due, which callers that come meanwhile can put off, or until no caller waits for it. The lock is
// held, but not while it waits.
func (s *singleflight[T]) awaitDue(c *call[T]) {
	if s.due == nil {
		return
	}
	for c.ctx.Err() == nil {
		wait := time.Until(s.due(c.first, c.last))
		if wait <= 0 {
			return
		}
		s.mu.Unlock()
		sleep.For(c.ctx, wait)
		s.mu.Lock()
	}
}

// finish hands the answer to all who wait.
func (s *singleflight[T]) finish(c *call[T], value T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := c.began
	if asked := admission.AskedAt(c.ctx); asked.After(at) {
		at = asked // the call had to wait
	}
	said := answer[T]{value: value, at: at, asked: spanOf(c.ctx)}
	c.answer, c.err = said, err
	if err == nil {
		s.last = &said // not the call's own, which would keep the call alive
	}
	s.current = nil
	c.cancel()
	close(c.done)
}

// spanOf returns the span under which a call is made, nil if it is not recorded.
func spanOf(ctx context.Context) *trace.SpanContext {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return nil
	}
	asked := span.SpanContext()
	return &asked
}

// linkTo has the span of a caller that was served by another's question lead there: the call is in that trace.
func linkTo(ctx context.Context, asked *trace.SpanContext) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() && span.SpanContext().SpanID() != asked.SpanID() {
		span.AddLink(trace.Link{SpanContext: *asked})
	}
}
