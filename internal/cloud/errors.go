package cloud

import (
	"context"
	"errors"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

// classify wraps a plain error in the type by which controllers decide. What has a type already, or is one of upstream's
// sentinels, is returned as it is: plugins and upstream's own code compare those with ==.
//
// A ThrottledError that it returns asks to wait between zero and MaxRetryAfter.
func classify(err error) error {
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

// The outcomes of a call, as the label of a metric.
const (
	outcomeOK             = names.CallOK
	outcomeNotFound       = names.CallNotFound
	outcomeNotImplemented = names.CallNotImplemented
	outcomeThrottled      = "throttled"
	outcomeTerminal       = "terminal"
	outcomeRetry          = names.CallRetry
	outcomeTimeout        = "timeout"
	outcomeCanceled       = "canceled"
	outcomeError          = "error"
)

// outcomeOf names what became of a call whose error has been classified.
func outcomeOf(err error) string {
	var throttled *provider.ThrottledError
	var retry *cloudproviderapi.RetryError
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return outcomeNotFound
	case errors.Is(err, cloudprovider.NotImplemented), errors.Is(err, cloudprovider.ImplementedElsewhere):
		return outcomeNotImplemented
	case errors.As(err, &throttled):
		return outcomeThrottled
	case errors.As(err, &retry):
		return outcomeRetry
	case provider.IsTerminal(err):
		return outcomeTerminal
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrStillRunning):
		return outcomeTimeout
	case errors.Is(err, context.Canceled):
		return outcomeCanceled
	default:
		return outcomeError
	}
}
