package cloud

import (
	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/classify"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
)

// What the callers of the client use of its parts: see there.
type (
	// Concurrency is how many calls may be under way at once, by the flags of the reference that say so.
	Concurrency = admission.Concurrency
	// Priority says which of the calls that wait for the cloud is let in first.
	Priority = admission.Priority
	// PanicError says that the plugin panicked.
	PanicError = guard.PanicError
	// StillRunningError says which call has not returned.
	StillRunningError = guard.StillRunningError
)

// The priorities, from the lowest.
const (
	PriorityRefresh   = admission.PriorityRefresh
	PriorityUpdate    = admission.PriorityUpdate
	PriorityNewObject = admission.PriorityNewObject
	PriorityDeletion  = admission.PriorityDeletion
	PriorityNewNode   = admission.PriorityNewNode
)

// What a context says of its calls, what an error means, and how a plugin is called that has no place in the queue.
var (
	WithPriority    = admission.WithPriority
	Apart           = admission.Apart
	InOneTurn       = admission.InOneTurn
	PriorityOf      = admission.PriorityOf
	AskedAt         = admission.AskedAt
	Join            = admission.Join
	ErrDeadline     = classify.ErrDeadline
	ErrStillRunning = classify.ErrStillRunning
	RetryAfter      = classify.RetryAfter
	Protect         = guard.Protect
)
