package cloud

import "time"

// forgetObject is after how long without a call an object is forgotten.
const forgetObject = time.Hour

// object is what is known of a node, a Service, a route or a listing from the calls about it.
type object struct {
	used time.Time
	// refusals is how many calls in a row were refused for the quota.
	refusals int
	// refusedUntil is until when the cloud wants to be asked for no listing, and refusal how it said so.
	refusedUntil time.Time
	refusal      error
	// hung says that its last call was outstanding.
	hung bool
}

// behind reports whether calls about an object wait behind those about others.
func (o *object) behind() bool { return o.hung || o.refusals > 0 }
