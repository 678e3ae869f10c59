package power

import (
	"context"
	"errors"
	"net/http"
)

// The classes of errors of TurnOn, ShutDown and TurnOff, short and the same for the same reason.
const (
	ClassWrongSystem = "bmc-of-another-machine"
	ClassUnverified  = "bmc-unverified"
	ClassUnable      = "bmc-unable"
	ClassRefused     = "bmc-refused"
	ClassTimeout     = "bmc-timeout"
	ClassFailed      = "bmc-failed"
)

// Classify returns the class of an error, and whether it stays until the operator acts.
func Classify(err error) (class string, lasting bool) {
	var wrong *WrongSystemError
	var answered *statusError
	switch {
	case errors.As(err, &wrong):
		return ClassWrongSystem, true
	case errors.Is(err, ErrUnverified):
		return ClassUnverified, true
	case errors.Is(err, ErrCannotTurnOff), errors.Is(err, ErrCannotTurnOn):
		return ClassUnable, true
	case errors.Is(err, errCredentials):
		return ClassRefused, true
	case errors.As(err, &answered) && answered.code >= 400 && answered.code < 500 &&
		answered.code != http.StatusRequestTimeout && answered.code != http.StatusTooManyRequests && answered.code != http.StatusPreconditionFailed:
		return ClassRefused, true
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout, false
	default:
		return ClassFailed, false
	}
}
