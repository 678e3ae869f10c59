// Package guard keeps a call that hangs or panics from harming others: an object has one call at a time, a call that has not returned for long no longer
// counts but keeps its object, and a panic is the error of its call.
package guard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
)

const (
	// MaxOutstanding is how many calls of a method may be outstanding. The next one that takes as long keeps its place, so a plugin
	// that hangs for all objects is not called for all of them.
	MaxOutstanding = 8
	// Grace is how long after its deadline a call is outstanding. Most plugins return once their context has ended.
	Grace = time.Second
	// Long is after how long a read is outstanding at the earliest: no usual one takes as long. A caller that waits for that long is told why.
	Long = time.Minute
	// LongDeclared is the same where calls at the same time are declared.
	LongDeclared = 10 * time.Second
	// A slow method is given slowFactor times the median of its last calls.
	slowFactor, lastCalls = 10, 20
)

// Call is a call of the plugin.
type Call struct {
	Method, Object string
	// Keys name what only one call at a time may be about.
	Keys  []string
	Write bool
	// Timeout is its deadline, 0 if there is none.
	Timeout time.Duration
	// Began is when it began.
	Began time.Time
	// Outstanding says that it has not returned for so long that it no longer counts as under way. Given is closed then.
	Outstanding bool
	Given       chan struct{}

	method *method
	shown  time.Time // when it last showed that it goes on; zero while what it has returned is being worked on
}

// StillRunning is the error of a call that is outstanding, and of calls that wait for it.
func (c *Call) StillRunning() error {
	return &StillRunningError{Operation: c.Method, Object: c.Object, Since: c.Began}
}

// GoesOn notes that a call has shown that it goes on. Paused says that what it has returned is being worked on.
func (c *Call) GoesOn(paused bool) {
	c.shown = time.Now()
	if paused {
		c.shown = time.Time{}
	}
}

// method is what is known of the calls of a method in this process.
type method struct {
	took        []time.Duration // of the last calls that returned
	returned    int
	median      time.Duration
	outstanding int
}

// Calls are the calls that have not returned. They have no lock: the queue's protects them.
type Calls struct {
	long    time.Duration
	methods map[string]*method
	under   map[string]*Call // by key
}

// NewCalls returns the calls of a plugin. Declared says that calls at the same time are declared.
func NewCalls(declared bool) *Calls {
	c := &Calls{long: Long, methods: map[string]*method{}, under: map[string]*Call{}}
	if declared {
		c.long = LongDeclared
	}
	return c
}

// About returns the call that has not returned about one of some keys, an outstanding one if there is one, and nil if there is none.
func (c *Calls) About(keys []string) (about *Call) {
	for _, key := range keys {
		if call := c.under[key]; call != nil && (about == nil || call.Outstanding) {
			about = call
		}
	}
	return about
}

// Begin takes in that a call begins, and returns when it is outstanding as Due does.
func (c *Calls) Begin(call *Call, now time.Time) time.Time {
	known := c.methods[call.Method]
	if known == nil {
		known = &method{}
		c.methods[call.Method] = known
	}
	call.method, call.Began, call.shown = known, now, now
	for _, key := range call.Keys {
		c.under[key] = call
	}
	return c.Due(call)
}

// Due returns when a call is outstanding, zero if it is not to be. A method that has never returned fills a cache, as far as is known, and that is
// not done by asking once more. At a deadline that the operator or the provider has set, its calls are due.
func (c *Calls) Due(call *Call) time.Time {
	known := call.method
	switch {
	case known.outstanding >= MaxOutstanding || call.shown.IsZero():
		return time.Time{}
	case call.Timeout > 0:
		return call.shown.Add(call.Timeout + Grace)
	case known.returned == 0:
		return time.Time{}
	case call.Write: // in which plugins commonly wait until the cloud is done: as long as it may ask to wait
		return call.shown.Add(classify.MaxRetryAfter)
	default:
		return call.shown.Add(max(c.long, slowFactor*known.median))
	}
}

// GiveUp lets a call be outstanding: its caller is told.
func (c *Calls) GiveUp(call *Call) {
	call.Outstanding = true
	call.method.outstanding++
	close(call.Given)
}

// Return takes in that a call has returned.
func (c *Calls) Return(call *Call, now time.Time) {
	for _, key := range call.Keys {
		delete(c.under, key)
	}
	known, took := call.method, now.Sub(call.Began)
	if call.Outstanding {
		known.outstanding--
	}
	if len(known.took) < lastCalls {
		known.took = append(known.took, took)
	} else {
		known.took[known.returned%lastCalls] = took
	}
	known.returned++
	known.median = slices.Sorted(slices.Values(known.took))[len(known.took)/2]
}

// TooMany reports whether a method has as many outstanding calls as it may.
func (c *Calls) TooMany(name string) bool {
	known := c.methods[name]
	return known != nil && known.outstanding >= MaxOutstanding
}

// ErrTooManyOutstanding says that a method is no longer called, because too many calls of it have not returned. Only a restart helps.
var ErrTooManyOutstanding = errors.New("too many calls have not returned from the cloud provider")

// Overdue returns an error if a method has as many outstanding calls as it may.
func (c *Calls) Overdue() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.methods)) {
		if c.TooMany(name) {
			errs = append(errs, fmt.Errorf("%w: %d of %s; restart this process", ErrTooManyOutstanding, c.methods[name].outstanding, name))
		}
	}
	return errors.Join(errs...)
}

// Unreturned returns a StillRunningError for each write that is outstanding.
func (c *Calls) Unreturned() error {
	seen := map[*Call]bool{}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c.under)) {
		if call := c.under[key]; call.Outstanding && call.Write && !seen[call] { // a write may be about several objects
			seen[call] = true
			errs = append(errs, call.StillRunning())
		}
	}
	return errors.Join(errs...)
}

// StillRunningError is an ErrStillRunning that says which call it is.
type StillRunningError struct {
	// Operation is the plugin's method that has not returned, Object what it is about.
	Operation, Object string
	// Since is when that call began.
	Since time.Time
}

// Error names the call.
func (e *StillRunningError) Error() string {
	return fmt.Sprintf("%v: %s for %s has been running since %s; no other call about it is made until it returns, or this process restarts",
		classify.ErrStillRunning, e.Operation, e.Object, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns classify.ErrStillRunning.
func (e *StillRunningError) Unwrap() error { return classify.ErrStillRunning }
