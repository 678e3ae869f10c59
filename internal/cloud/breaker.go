package cloud

import "time"

const (
	// openAfter is how many calls in a row have to fail, and openPast for how long none may have succeeded, until a group of
	// calls is held back.
	openAfter = 10
	openPast  = 30 * time.Second
	// firstTry is how long after that one call is let through to see, and lastTry what that doubles up to.
	firstTry = time.Second
	lastTry  = 30 * time.Second
)

// breaker holds a group of calls back while the cloud fails them all. The zero value is closed: calls go through.
//
// Failures that are all of one object say something of that object and not of the cloud, so that they never open it.
type breaker struct {
	failures int       // in a row
	since    time.Time // the first of them
	object   string    // what the first was about
	several  bool      // failures are about more than one object, or about none in particular
	err      error     // the newest of them
	open     bool
	interval time.Duration // between calls that are let through
	next     time.Time     // when the next one may go
}

// failed returns the breaker after a call that failed. A call about no object in particular, such as a listing, has none.
func (b breaker) failed(object string, err error, now time.Time) breaker {
	if b.failures == 0 {
		b.since, b.object = now, object
	}
	b.failures++
	b.several = b.several || object == "" || object != b.object
	b.err = err
	if !b.open && b.several && b.failures >= openAfter && now.Sub(b.since) >= openPast {
		b.open, b.interval, b.next = true, firstTry, now.Add(firstTry)
	}
	return b
}

// answered returns the breaker after a call that the cloud has answered, whatever it said.
func (b breaker) answered() breaker { return breaker{} }

// admit returns the breaker after it was asked to let a call through, whether it does, and if not, when to ask again.
func (b breaker) admit(now time.Time) (after breaker, let bool, next time.Time) {
	switch {
	case !b.open:
		return b, true, now
	case now.Before(b.next):
		return b, false, b.next
	default:
		b.next = now.Add(b.interval)
		b.interval = min(2*b.interval, lastTry)
		return b, true, now
	}
}
