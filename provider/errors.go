package provider

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudprovider "k8s.io/cloud-provider"
)

// ErrInstanceNotFound says that the cloud has no such instance. It is upstream's error under a Go name, so
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
// the cloud calls invalid. The object that caused it is looked at again at once when it changes, and else after a pause.
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

// Throttled returns an error as one by which the cloud refused for its quota, and asks to wait before the call is repeated; zero
// if it does not say how long. Nil stays nil.
func Throttled(retryAfter time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &ThrottledError{RetryAfter: retryAfter, Err: err}
}

// IsThrottled reports whether the cloud refused the call that returned err for its quota.
func IsThrottled(err error) bool {
	var throttled *ThrottledError
	return errors.As(err, &throttled)
}

// Terminal returns an error as one that repeating the call cannot help. Nil stays nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &TerminalError{Err: err}
}

// NotFound returns an error as the cloud's word that there is no such instance, an ErrInstanceNotFound that keeps what was
// answered. Nil stays nil. It is for the answer that denies just this instance: a node of an instance that is not there is
// deleted, so an outage, a wrong region or missing rights must never become a NotFound.
func NotFound(err error) error {
	if err == nil || errors.Is(err, ErrInstanceNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInstanceNotFound, err)
}

// IsNotFound reports whether an error says that what was asked for does not exist, in one of the ways in which plugins do:
// as ErrInstanceNotFound, which some return for load balancers and routes too, or as a 404 of the Kubernetes API, by those
// whose cloud is one. Words are not looked at: a text that says "not found" may be about the region, the account or the host.
//
// It is for questions whose wrong answer costs a call. Whether a node's instance is gone is decided by ErrInstanceNotFound alone.
func IsNotFound(err error) bool {
	return errors.Is(err, ErrInstanceNotFound) || apierrors.IsNotFound(err)
}
