package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud"
	"github.com/mooring-ccm/mooring/provider"
)

// The reasons that the condition LoadBalancerReady gives for a failure, and that the metric of failures counts.
const (
	// ReasonPending says that the cloud is still at it; the provider returned an api.RetryError.
	ReasonPending = "Pending"
	// ReasonThrottled says that the cloud refused a call because of a quota.
	ReasonThrottled = "Throttled"
	// ReasonTimeout says that the cloud did not answer in time.
	ReasonTimeout = "Timeout"
	// ReasonRefused says that the cloud refused, and that asking again cannot help until something else changes.
	ReasonRefused = "Refused"
	// ReasonCloudError says that the cloud could not be asked, or answered with an error.
	ReasonCloudError = "CloudError"
	// ReasonTargetsUnknown says that it could not be found out which nodes may be targets.
	ReasonTargetsUnknown = "TargetsUnknown"
	// ReasonWriteFailed says that the API server did not accept what should be written to the Service.
	ReasonWriteFailed = "WriteFailed"
)

const (
	// DefaultFirstRetry is the pause after the first failure for a Service, as in the reference; it doubles with each further one.
	DefaultFirstRetry = 5 * time.Second
	// DefaultLongestRetry is the longest pause, as in the reference, and the one after an error that repeating cannot help.
	DefaultLongestRetry = 5 * time.Minute

	// maxRetryAfter bounds how long a cloud's Retry-After is obeyed.
	maxRetryAfter = 15 * time.Minute
	// absenceTries is how often in a row a deletion has to fail until it is believed that there is nothing to delete.
	absenceTries = 3
	// repeatEvent is how often a Service that goes on failing for the same reason says so in an event.
	repeatEvent = 10 * time.Minute
	// repeatCondition is how often a message that changes while its reason stays is written again. Some clouds put the number
	// of the request into each of their messages.
	repeatCondition = 5 * time.Minute
	// conflictDelay is the pause after a write to the API server that came too late; it doubles with each further one.
	conflictDelay = 20 * time.Millisecond
	// maxConflicts is how many writes in a row may come too late before that counts as a failure.
	maxConflicts = 6
	// maxMessage keeps events within what the events API takes for a note, 1 kB.
	maxMessage = 1000
)

// writeError says that the API server refused a write.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// targetsError says that the set of targets could not be determined.
type targetsError struct{ err error }

func (e *targetsError) Error() string {
	return fmt.Sprintf("it is not known yet which nodes may be targets: %v", e.err)
}
func (e *targetsError) Unwrap() error { return e.err }

// retargetError says that the targets of a load balancer could not be changed.
type retargetError struct {
	nodes []string
	err   error
}

func (e *retargetError) Error() string {
	return fmt.Sprintf("failed to change the targets of the load balancer to %d nodes: %v", len(e.nodes), e.err)
}
func (e *retargetError) Unwrap() error { return e.err }

// absentError says that a deletion failed, and that there is no load balancer to be seen. Parts of it may be left.
type absentError struct{ err error }

func (e *absentError) Error() string { return e.err.Error() }
func (e *absentError) Unwrap() error { return e.err }

// isAbsent reports whether an error is an *absentError.
func isAbsent(err error) bool {
	var absent *absentError
	return errors.As(err, &absent)
}

// outdatedError says that a write to the API server came too late: the Service has changed since it was planned for.
type outdatedError struct{ err error }

func (e *outdatedError) Error() string {
	return fmt.Sprintf("the Service changed while it was being written: %v", e.err)
}
func (e *outdatedError) Unwrap() error { return e.err }

// reasonOf names a failure.
func reasonOf(err error) string {
	var (
		write     *writeError
		targets   *targetsError
		retry     *cloudproviderapi.RetryError
		throttled *provider.ThrottledError
	)
	switch {
	case errors.As(err, &write):
		return ReasonWriteFailed
	case errors.As(err, &targets):
		return ReasonTargetsUnknown
	case errors.As(err, &retry):
		return ReasonPending
	case errors.As(err, &throttled):
		return ReasonThrottled
	case errors.Is(err, cloud.ErrDeadline), errors.Is(err, context.DeadlineExceeded), errors.Is(err, cloud.ErrStillRunning):
		return ReasonTimeout
	case provider.IsTerminal(err):
		return ReasonRefused
	default:
		return ReasonCloudError
	}
}

// isWriteFailure reports whether a reason says that a write to the cloud failed, and not that it goes on, or was never made.
func isWriteFailure(reason string) bool {
	switch reason {
	case ReasonThrottled, ReasonTimeout, ReasonRefused, ReasonCloudError:
		return true
	default:
		return false
	}
}

// saysNothing reports whether an error of a deletion leaves it open what became of it, so that the call has to be repeated
// even if the load balancer is not to be seen any more.
func saysNothing(err error) bool {
	switch reasonOf(err) {
	case ReasonPending, ReasonThrottled, ReasonTimeout:
		return true
	default:
		var panicked *cloud.PanicError // halfway, perhaps
		return errors.Is(err, context.Canceled) || errors.As(err, &panicked)
	}
}

// backoff is how long to wait after failures.
type backoff struct {
	first, longest time.Duration
}

// after returns the pause after a failure that was preceded by others. An api.RetryError says itself how long.
func (b backoff) after(before int, err error) time.Duration {
	var retry *cloudproviderapi.RetryError
	if errors.As(err, &retry) {
		return max(retry.RetryAfter(), conflictDelay)
	}
	delay := b.longest
	if before < 30 && (!provider.IsTerminal(err) || isAbsent(err)) { // 30 doublings are far past the longest pause, and still fit
		delay = min(b.first<<before, b.longest)
	}
	if wait, ok := provider.RetryAfter(err); ok {
		delay = max(delay, min(wait, maxRetryAfter))
	}
	return delay
}

// shortened makes of a message one line of the length that events and conditions take.
func shortened(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > maxMessage {
		return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
	}
	return message
}
