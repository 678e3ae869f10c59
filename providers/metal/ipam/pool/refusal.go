package pool

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Reason says why a request is refused, for whoever decides on it. What it means to a person is in the message.
type Reason string

const (
	// Exhausted says that every address that the Service may have is taken.
	Exhausted Reason = "Exhausted"
	// Conflict says that another Service has the address, and that the two do not share it.
	Conflict Reason = "Conflict"
	// OutsidePools says that the address that was asked for is in no pool, or not in the one that was asked for.
	OutsidePools Reason = "OutsidePools"
	// FamilyMissing says that no pool that the Service may use has addresses of a family, or that an address of a family was
	// asked for that the Service does not have.
	FamilyMissing Reason = "FamilyMissing"
	// Forbidden says that the pool is not for this Service.
	Forbidden Reason = "Forbidden"
	// UnknownPool says that there is no pool of the name that was asked for.
	UnknownPool Reason = "UnknownPool"
	// Invalid says that what the Service asks for cannot be understood, or contradicts itself.
	Invalid Reason = "Invalid"
)

// RefusedError says that a Service does not get an address. Asking again cannot help until something else changes: the Service,
// the pools, or what other Services hold.
type RefusedError struct {
	// Reason is why.
	Reason Reason
	// Family is that of the address; empty if it is not about one.
	Family corev1.IPFamily
	// Message says it to people, as a clause.
	Message string
}

// Error returns the reason and the message.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

func refuse(reason Reason, family corev1.IPFamily, format string, args ...any) *RefusedError {
	return &RefusedError{reason, family, fmt.Sprintf(format, args...)}
}
