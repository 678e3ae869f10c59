package octavia

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/pagination"
)

const (
	// mostShared is how many objects a list has at the most that serves several callers: a bigger one costs the service more than the calls
	// that it saves.
	mostShared = 500
	// listTimeout ends a list, and listPatience is how long a caller waits for a list that it can do without.
	listTimeout  = 30 * time.Second
	listPatience = 10 * time.Second
	// pauseAfterFailure is how long no list is shared after one that failed, and pauseAfterSize after one that was too long.
	pauseAfterFailure = 30 * time.Second
	pauseAfterSize    = time.Hour
)

// shared is a list that many callers need at about the same time: one call answers all callers that accept a list of that moment. A caller
// may come while a call is under way that began too early. It waits for the next call, which begins when that one ends and answers all
// callers that came meanwhile. A list that fails, or does not end, stops no caller: get tells the caller to ask for itself. It is safe for
// concurrent use.
type shared[T any] struct {
	// list makes the call. It is given the values of the first caller's context, and a deadline.
	list func(ctx context.Context) ([]T, error)
	// patience is listPatience, but for tests.
	patience time.Duration

	lock          sync.Mutex
	last          *sharedCall[T] // the newest one that succeeded
	running, next *sharedCall[T]
	pausedUntil   time.Time
}

// sharedCall is one call of a shared list. Its result is read once done is closed, and never changes.
type sharedCall[T any] struct {
	ctx   context.Context // the context of the caller for whom the call is made
	began time.Time
	done  chan struct{}
	found []T
	err   error
}

func newShared[T any](list func(ctx context.Context) ([]T, error)) *shared[T] {
	return &shared[T]{list: list, patience: listPatience}
}

// get returns a whole list whose call began at notBefore or later, and when that was. It is not ok if the caller has to ask for itself. What is
// returned is for several callers, who change nothing of it.
func (s *shared[T]) get(ctx context.Context, notBefore time.Time) (found []T, began time.Time, ok bool) {
	awaited := s.join(ctx, notBefore)
	if awaited == nil {
		return nil, time.Time{}, false
	}
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	select {
	case <-awaited.done:
		return awaited.found, awaited.began, awaited.err == nil
	case <-patience.C:
	case <-ctx.Done():
	}
	return nil, time.Time{}, false
}

// join returns the call that serves a caller, or nil if none does. It begins one if none is under way.
func (s *shared[T]) join(ctx context.Context, notBefore time.Time) *sharedCall[T] {
	s.lock.Lock()
	defer s.lock.Unlock()
	now := time.Now()
	switch {
	case s.last != nil && !s.last.began.Before(notBefore):
		return s.last
	case now.Before(s.pausedUntil):
		return nil
	case s.running == nil:
		s.begin(&sharedCall[T]{ctx: ctx, done: make(chan struct{})})
		return s.running
	case now.Sub(s.running.began) > s.patience:
		return nil
	case !s.running.began.Before(notBefore):
		return s.running
	case s.next == nil:
		s.next = &sharedCall[T]{ctx: ctx, done: make(chan struct{})}
	}
	return s.next
}

// begin makes the call. The lock is held.
func (s *shared[T]) begin(c *sharedCall[T]) {
	c.began, s.running = time.Now(), c
	go func() {
		found, err := s.call(c.ctx)
		s.lock.Lock()
		defer s.lock.Unlock()
		c.found, c.err, s.running = found, err, nil
		if err == nil {
			s.last = c
		} else {
			s.pausedUntil = time.Now().Add(pauseAfter(err))
		}
		close(c.done)
		waiting := s.next
		s.next = nil
		switch {
		case waiting == nil:
		case err == nil:
			s.begin(waiting)
		default: // who waits asks alone
			waiting.err = err
			close(waiting.done)
		}
	}()
}

// call lists, whatever becomes of the caller for whom it does.
func (s *shared[T]) call(ctx context.Context) (found []T, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil { // it is no worker's goroutine, which would catch it
			err = fmt.Errorf("the list panicked: %v", reason)
		}
	}()
	return s.list(ctx)
}

// errLong says that a list has more than mostShared objects.
var errLong = errors.New("the list is too long to be shared")

func pauseAfter(err error) time.Duration {
	if errors.Is(err, errLong) {
		return pauseAfterSize
	}
	return pauseAfterFailure
}

// shortListOf collects the only page of a list that is asked for with the limit mostShared. It is complete, or an error.
func shortListOf[T any](ctx context.Context, pager pagination.Pager, extract func(pagination.Page) ([]T, error)) ([]T, error) {
	var all []T
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		found, err := extract(page)
		all = append(all, found...)
		if err == nil && len(all) >= mostShared {
			err = errLong
		}
		return err == nil, err
	})
	return all, err
}
