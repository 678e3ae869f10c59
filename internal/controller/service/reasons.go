package service

import (
	"context"
	"errors"
	"fmt"

	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
	"github.com/mooring-ccm/mooring/provider"
)

var (
	// errNotFound is of a change of the targets of a load balancer that the cloud does not find.
	errNotFound = errors.New("the cloud does not find the load balancer")
	// errAbsent is of a deletion that failed while there is no load balancer to be seen. Parts of it may be left.
	errAbsent = errors.New("failed to delete all of the load balancer, which is gone")
	// errOutdated is of a write to the API server that came too late: the Service has changed since it was planned for.
	errOutdated = errors.New("the Service changed while it was being written")
	// errPredecessor is of a Service that waits for the load balancer of a predecessor to be deleted.
	errPredecessor = errors.New("the Service that had this name before still has its load balancer")
)

// writeError says that the API server refused a write.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// retargetError says that the targets of a load balancer could not be changed.
type retargetError struct {
	nodes []string
	err   error
}

func (e *retargetError) Error() string {
	return fmt.Sprintf("failed to change the targets of the load balancer to %d nodes: %v", len(e.nodes), e.err)
}
func (e *retargetError) Unwrap() error { return e.err }

// reasonOf names a failure.
func reasonOf(err error) string {
	var (
		write     *writeError
		retry     *cloudproviderapi.RetryError
		throttled *provider.ThrottledError
	)
	switch {
	case errors.As(err, &write):
		return ReasonWriteFailed
	case errors.Is(err, errNotFound):
		return ReasonNotFound
	case errors.As(err, &retry):
		return ReasonPending
	case errors.As(err, &throttled):
		return ReasonThrottled
	case errors.Is(err, classify.ErrDeadline), errors.Is(err, context.DeadlineExceeded), errors.Is(err, classify.ErrStillRunning):
		return ReasonTimeout
	case provider.IsTerminal(err):
		return ReasonRefused
	default:
		return ReasonCloudError
	}
}

// writeFailures are the reasons that say that a write to the cloud failed, and not that it is in progress, or was never made.
var writeFailures = map[string]bool{ReasonThrottled: true, ReasonTimeout: true, ReasonRefused: true, ReasonCloudError: true}

// saysNothing reports whether an error of a deletion leaves it open what became of it, so the call has to be repeated
// even if the load balancer is no longer to be seen.
func saysNothing(err error) bool {
	switch reasonOf(err) {
	case ReasonPending, ReasonThrottled, ReasonTimeout:
		return true
	default:
		var panicked *guard.PanicError // halfway, perhaps
		return errors.Is(err, context.Canceled) || errors.As(err, &panicked)
	}
}
