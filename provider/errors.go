package provider

import (
	"errors"
	"fmt"
	"time"

	cloudprovider "k8s.io/cloud-provider"
)

// ErrInstanceNotFound says that the cloud has no such instance. It is upstream's error under a Go name, so that
// errors.Is finds it whichever of the two a plugin returns.
var ErrInstanceNotFound = cloudprovider.InstanceNotFound

// ErrNotImplemented says that a plugin does not offer a method. It is upstream's error under a Go name.
var ErrNotImplemented = cloudprovider.NotImplemented

// ErrImplementedElsewhere says that another controller does this work. It is upstream's error under a Go name.
var ErrImplementedElsewhere = cloudprovider.ImplementedElsewhere

// ThrottledError says that the cloud refused a call because of a quota. Nothing happened; the call may be repeated.
type ThrottledError struct {
	// RetryAfter is how long the cloud asks to wait. Zero if it does not say.
	RetryAfter time.Duration
	// Err is what the cloud answered.
	Err error
}

// Error says how long to wait, when that is known.
func (e *ThrottledError) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("throttled by the cloud, retry after %s: %v", e.RetryAfter, e.Err)
	}
	return fmt.Sprintf("throttled by the cloud: %v", e.Err)
}

// Unwrap returns the cloud's answer.
func (e *ThrottledError) Unwrap() error { return e.Err }

// TerminalError says that repeating the call cannot help until something else changes: bad credentials, a request that
// the cloud calls invalid. The object that caused it is looked at again when it changes, and once per resync period.
type TerminalError struct {
	// Err is what the cloud answered.
	Err error
}

// Error returns the cloud's answer.
func (e *TerminalError) Error() string { return e.Err.Error() }

// Unwrap returns the cloud's answer.
func (e *TerminalError) Unwrap() error { return e.Err }

// RetryAfter returns how long an error asks to wait before the same call is made again, and whether it says so.
func RetryAfter(err error) (time.Duration, bool) {
	var throttled *ThrottledError
	if errors.As(err, &throttled) && throttled.RetryAfter > 0 {
		return throttled.RetryAfter, true
	}
	return 0, false
}

// IsTerminal reports whether repeating the call that returned err cannot help.
func IsTerminal(err error) bool {
	var terminal *TerminalError
	return errors.As(err, &terminal)
}
