package cloud

import (
	"errors"
	"fmt"
	"time"
)

const (
	// suspectAfter is how many calls of a group have to fail in a row, and suspectPast for how long none may have succeeded,
	// until the cloud itself is suspected.
	suspectAfter = 10
	suspectPast  = 30 * time.Second
	// suspectObjects is how many objects that worked before have to be among them. One listing is enough: it is about all.
	suspectObjects = 2
	// firstProbe is how long after the breaker opened one call is let through to see, and lastProbe what that doubles up to: objects
	// wait for no longer than that once the cloud answers.
	firstProbe = time.Second
	lastProbe  = 8 * time.Second
	// turnPatience is how long a call waits for its turn, until it fails with the reason.
	turnPatience = 30 * time.Second
)

// ErrUnavailable says that a call was not made, because the cloud has failed all calls of its kind for a while.
var ErrUnavailable = errors.New("the cloud is not available")

// UnavailableError is an ErrUnavailable that says for what, since when and why.
type UnavailableError struct {
	// Group is what the calls are about: instances, load_balancers or routes.
	Group string
	// Since is when the first of the calls failed that have all failed until now.
	Since time.Time
	// Err is the newest of their errors.
	Err error
}

// Error says since when the cloud has failed, and how.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%v for %s since %s: %v", ErrUnavailable, e.Group, e.Since.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns ErrUnavailable and the newest error.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// breaker holds the calls of a group back while the cloud fails them all.
//
//	state      what it means                                          left by
//	closed     calls go through; failures in a row are counted        enough failures: open; an answer: counts from zero
//	open       one call at a time goes through, reads first           an answer: closed
//
// What fails says little about the cloud: a plain error may be about a server that is gone or an annotation that the cloud
// refuses. So only what worked before counts, each object once, and a read has to be among it: a write may fail for what it asks.
type breaker struct {
	failures int // in a row
	since    time.Time
	err      error // the newest of them
	// turned are the calls, by method and object, that worked before the row and failed in it.
	turned map[string]struct{}
	// reads is how many of those are reads, and listed says that one is a listing.
	reads  int
	listed bool

	open     bool
	opened   time.Time
	interval time.Duration // between probes
	next     time.Time     // when the next one may go
}

// failed notes a call that failed. Worked says that the same call worked the last time it was answered.
func (b *breaker) failed(about subject, worked bool, err error, now time.Time) {
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	b.err = err
	if !worked {
		return
	}
	if b.turned == nil {
		b.turned = map[string]struct{}{}
	}
	b.turned[about.name+" "+about.key()] = struct{}{}
	if !about.write {
		b.reads++
	}
	b.listed = b.listed || about.whole && !about.write
}

// answered closes the breaker: the cloud has answered a call, whatever it said.
func (b *breaker) answered() { *b = breaker{} }

// suspicious reports whether the cloud seems to answer nothing at all.
func (b *breaker) suspicious(now time.Time) bool {
	return !b.open && b.reads > 0 && b.failures >= suspectAfter && now.Sub(b.since) >= suspectPast &&
		(len(b.turned) >= suspectObjects || b.listed)
}

// openNow opens the breaker.
func (b *breaker) openNow(now time.Time) {
	b.open, b.opened, b.interval, b.next = true, now, firstProbe, now.Add(firstProbe)
}

// probe notes that a call is let through to see.
func (b *breaker) probe(now time.Time) {
	b.next = now.Add(b.interval)
	b.interval = min(2*b.interval, lastProbe)
}

// unavailable is the error of calls that are held back.
func (b *breaker) unavailable(group string) error {
	return &UnavailableError{Group: group, Since: b.since, Err: b.err}
}
