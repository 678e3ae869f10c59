// Package classify decides what an error of the plugin means: whether the cloud refused a call for its quota, how long it asks to wait, and what became
// of the call.
package classify

import (
	"context"
	"errors"
	"fmt"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// ErrDeadline says that a call took longer than the deadline that the operator or the provider has set. It is a context.DeadlineExceeded as well.
var ErrDeadline = fmt.Errorf("the cloud did not answer in time: %w", context.DeadlineExceeded)

// ErrStillRunning says that a call has not returned for long, or that one was not made because an earlier one about the same object has
// not returned. No other call about the object is made before that.
var ErrStillRunning = errors.New("a call has not returned")

// MaxRetryAfter bounds how long a cloud's Retry-After is obeyed, so a wrong one cannot stop the process for good.
const MaxRetryAfter = 10 * time.Minute

// Error wraps a plain error in the type by which controllers decide. What has a type already, or is one of upstream's
// sentinels, is returned as it is: plugins and upstream's own code compare those with ==.
//
// A ThrottledError that it returns asks to wait between zero and MaxRetryAfter.
func Error(err error) error {
	var throttled *provider.ThrottledError
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil,
		errors.Is(err, cloudprovider.InstanceNotFound),
		errors.Is(err, cloudprovider.NotImplemented),
		errors.Is(err, cloudprovider.ImplementedElsewhere),
		errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, ErrStillRunning),
		provider.IsTerminal(err),
		errors.As(err, &retry):
		return err
	case errors.As(err, &throttled):
		if wait := bounded(throttled.RetryAfter); wait != throttled.RetryAfter {
			return &provider.ThrottledError{RetryAfter: wait, Err: err}
		}
		return err
	}
	if a := answerOf(err); a.refused() {
		return &provider.ThrottledError{RetryAfter: a.wait(), Err: err}
	}
	return err
}

// bounded returns a wait as it is obeyed.
func bounded(wait time.Duration) time.Duration { return min(max(wait, 0), MaxRetryAfter) }

// RetryAfter returns how long the cloud asks to wait before the call is repeated that returned err, up to MaxRetryAfter, and whether it
// asks. What it asks of all calls the client obeys by itself; this is for who decides when an object is tried again.
func RetryAfter(err error) (time.Duration, bool) {
	wait, asked := provider.RetryAfter(err)
	return bounded(wait), asked
}

// The outcomes of a call, as the label of a metric. OutcomePanic is of one in which the plugin panicked.
const (
	OutcomeOK             = names.CallOK
	OutcomeNotFound       = names.CallNotFound
	OutcomeNotImplemented = names.CallNotImplemented
	OutcomeThrottled      = "throttled"
	OutcomeTerminal       = "terminal"
	OutcomeRetry          = names.CallRetry
	OutcomeTimeout        = "timeout"
	OutcomeCanceled       = "canceled"
	OutcomePanic          = "panic"
	OutcomeError          = "error"
)

// Refusal returns the refusal that an error is or wraps.
func Refusal(err error) (*provider.ThrottledError, bool) {
	var refusal *provider.ThrottledError
	ok := errors.As(err, &refusal)
	return refusal, ok
}

// OutcomeOf names what became of a call whose error has been classified.
func OutcomeOf(err error) string {
	var throttled *provider.ThrottledError
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil:
		return OutcomeOK
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return OutcomeNotFound
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err, cloudprovider.ImplementedElsewhere):
		return OutcomeNotImplemented
	case errors.As(err, &throttled):
		return OutcomeThrottled
	case errors.As(err, &retry):
		return OutcomeRetry
	case provider.IsTerminal(err):
		return OutcomeTerminal
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrStillRunning):
		return OutcomeTimeout
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	default:
		return OutcomeError
	}
}
