package cloud

import "github.com/mooring-ccm/mooring/internal/cloud/classify"

// MaxRetryAfter is classify.MaxRetryAfter.
const MaxRetryAfter = classify.MaxRetryAfter

// What errors of calls mean to controllers, see package classify.
var (
	ErrDeadline     = classify.ErrDeadline
	ErrStillRunning = classify.ErrStillRunning
	RetryAfter      = classify.RetryAfter
)
