package kit

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WriteTimeout is the deadline of one write to the API server.
const WriteTimeout = 30 * time.Second

// WriteOutcome is what became of a write to the API server.
type WriteOutcome int

const (
	// NotTried writes were not sent.
	NotTried WriteOutcome = iota
	// Written ones took effect.
	Written
	// Outdated ones did not: the object has changed since the write was planned, another one has its name, or it was not found. A write that is
	// answered 404 does not prove that the object was deleted: a proxy in front of the API server gives that answer too, see Gone.
	Outdated
	// Refused ones did not: the API server said no.
	Refused
	// Uncertain ones may have taken effect: the API server did not answer, or with an error of its own.
	Uncertain
)

// Failed reports whether a write failed for a reason that is not a change of the object.
func (o WriteOutcome) Failed() bool { return o == Refused || o == Uncertain }

// OutcomeOf returns what became of a write, by its error.
func OutcomeOf(err error) WriteOutcome {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return Written
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), patchDoesNotFit(err):
		return Outdated
	case errors.As(err, &answer) && answer.Status().Code >= http.StatusBadRequest && answer.Status().Code < http.StatusInternalServerError:
		return Refused
	default:
		return Uncertain
	}
}

// Blames reports whether the API server found an object invalid because of one of the fields.
func Blames(err error, fields ...string) bool {
	var answer apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &answer) && answer.Status().Details != nil &&
		slices.ContainsFunc(answer.Status().Details.Causes, func(cause metav1.StatusCause) bool { return slices.Contains(fields, cause.Field) })
}

// patchDoesNotFit reports whether the API server could not apply a patch because the object is not what the patch expects. When a test
// of a JSON patch failed, the answer names no object, because no object came to be; when a patch has the UID of another object of the
// name, the answer blames that field. Validation and admission have the same code, 422, and do name the object.
func patchDoesNotFit(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details == nil || details.Name == "" || Blames(err, "metadata.uid")
}

// RefusedForGood reports whether the API server itself refused a write, for a reason that does not pass by itself. A server that is
// overloaded, or could not be asked, may take the write a moment later.
func RefusedForGood(err error) bool {
	var answer apierrors.APIStatus
	return OutcomeOf(err).Failed() && errors.As(err, &answer) && !apierrors.IsTooManyRequests(err) &&
		!apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}
