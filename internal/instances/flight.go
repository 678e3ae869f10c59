package instances

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mooring-ccm/mooring/internal/cloud"
)

// shared is a question to the cloud that any number of callers may ask at any time, and that is put to the cloud by one
// call at a time. A caller is served by an answer that is young enough for it; by the call under way, if that began late
// enough; and otherwise by the next call, which all such callers share.
type shared[T any] struct {
	// pause returns how long to wait before the next call, so that callers who come together share it. Nil: not at all.
	pause func() time.Duration

	mu      sync.Mutex
	last    *answer[T] // the newest success
	current *flight[T] // under way
	next    *flight[T] // begins when current has ended and the pause is over
	running bool       // a goroutine looks after current and next
}

// ask puts a question to the cloud.
type ask[T any] func(context.Context) (T, error)

// answer is what the cloud said, and when the call began that said so.
type answer[T any] struct {
	value T
	at    time.Time
	// asked is the span of the caller whose question it answers, nil unless that is traced.
	asked *trace.SpanContext
}

// flight is one call and those who wait for it. Its context ends when nobody waits any more, whoever was first to ask.
type flight[T any] struct {
	ask     ask[T]
	ctx     context.Context // the call's own, not a caller's
	cancel  context.CancelFunc
	waiting int
	began   time.Time
	done    chan struct{}
	answer  answer[T]
	err     error
}

// newest returns the newest answer without asking.
func (s *shared[T]) newest() (answer[T], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return answer[T]{}, false
	}
	return *s.last, true
}

// idle reports whether nobody waits for an answer and the newest one is older than the given time.
func (s *shared[T]) idle(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.running && (s.last == nil || s.last.at.Before(since))
}

// get returns an answer whose call began no earlier than notBefore, and puts the question if a new call has to be made. The
// error is that of the call, or of ctx if that ends first; the call goes on for the others.
func (s *shared[T]) get(ctx context.Context, notBefore time.Time, question ask[T]) (answer[T], error) {
	s.mu.Lock()
	if s.last != nil && !s.last.at.Before(notBefore) {
		defer s.mu.Unlock()
		linkTo(ctx, s.last.asked)
		return *s.last, nil
	}
	f := s.join(ctx, notBefore, question)
	s.mu.Unlock()

	select {
	case <-f.done:
		linkTo(ctx, f.answer.asked)
		return f.answer, f.err
	case <-ctx.Done():
		s.leave(f)
		return answer[T]{}, fmt.Errorf("waiting for the cloud's answer: %w", context.Cause(ctx))
	}
}

// join returns a flight that serves notBefore and counts the caller among those who wait for it. The lock is held.
func (s *shared[T]) join(ctx context.Context, notBefore time.Time, question ask[T]) *flight[T] {
	f := s.current
	if f == nil || f.waiting == 0 || f.began.Before(notBefore) {
		f = s.next
	}
	// The call is as urgent as the most urgent of those who wait for it, and so is the one that has to end before it.
	if s.current != nil {
		cloud.Join(s.current.ctx, ctx)
	}
	switch {
	case f == nil || f.waiting == 0:
		f = &flight[T]{ask: question, done: make(chan struct{})}
		own := cloud.WithPriority(context.WithoutCancel(ctx), cloud.PriorityOf(ctx))
		f.ctx, f.cancel = context.WithCancel(own)
		s.next = f
	case f != s.current:
		cloud.Join(f.ctx, ctx)
	}
	f.waiting++
	if !s.running {
		s.running = true
		go s.fly()
	}
	return f
}

func (s *shared[T]) leave(f *flight[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
	}
}

// fly makes one call after the other, as long as somebody waits for one.
func (s *shared[T]) fly() {
	for {
		f := s.takeOff()
		if f == nil {
			return
		}
		value, err := f.ask(f.ctx)
		s.land(f, value, err)
	}
}

// takeOff waits out the pause and returns the next flight that somebody still waits for, or nil if there is none.
func (s *shared[T]) takeOff() *flight[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next != nil {
		f := s.next
		if s.pause != nil {
			wait := s.pause()
			s.mu.Unlock()
			sleep(f.ctx, wait)
			s.mu.Lock()
		}
		if f.waiting > 0 {
			s.current, s.next = f, nil
			f.began = time.Now()
			return f
		}
		if s.next == f {
			s.next = nil
		}
	}
	s.running = false
	return nil
}

// land hands the answer to all who wait.
func (s *shared[T]) land(f *flight[T], value T, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := answer[T]{value: value, at: f.began, asked: spanOf(f.ctx)}
	f.answer, f.err = said, err
	if err == nil {
		s.last = &said // not the flight's own, which would keep the flight alive
	}
	s.current = nil
	f.cancel()
	close(f.done)
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
	if asked == nil {
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() && span.SpanContext().SpanID() != asked.SpanID() {
		span.AddLink(trace.Link{SpanContext: *asked})
	}
}

// sleep waits for a time, or less if ctx ends.
func sleep(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
