package kit

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Gone reports whether the error of a GET is the API server's own statement that an object does not exist. A proxy in front of the API server
// answers 404 for reasons of its own. The error of such an answer has the same reason, and the cause UnexpectedServerResponse.
//
// The error of a write proves nothing about the object, whatever its code: see OutcomeOf. What the cache does not hold was deleted by a watch
// or is missing from a complete list, and needs no such proof.
func Gone(err error, resource schema.GroupResource, name string) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Group == resource.Group && details.Kind == resource.Resource && details.Name == name &&
		!slices.ContainsFunc(details.Causes, func(cause metav1.StatusCause) bool { return cause.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// MaxCacheLag is how long after our own write to an object a copy of it that is older counts as one from before the write. After a
// restore of etcd from a backup the resource versions have gone back, and all copies are older forever.
const MaxCacheLag = time.Minute

// OwnWrite is our last write to an object: the resource version that it made, empty if the object was deleted, and when. The zero value is none.
type OwnWrite struct {
	Version string
	At      time.Time
}

// Hides reports whether a copy of the object with a resource version is from before the write, of up to MaxCacheLag ago.
func (w OwnWrite) Hides(version string, now time.Time) bool {
	return now.Sub(w.At) < MaxCacheLag && (w.Version == "" || Older(version, w.Version))
}

// Older reports whether one resource version of an object precedes another: whether a copy from the cache is older than what a write
// returned. A version that is empty, or that cannot be compared, is not older.
func Older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// ConditionPatch is a strategic merge patch of one condition of an object. The API server merges conditions by type, so the patch keeps the
// conditions of concurrent writers.
type ConditionPatch struct {
	// Metadata is what the object must have, or else the API server refuses the patch: a UID or a resource version.
	Metadata map[string]any
	// Condition is what is written of the condition, with its type.
	Condition map[string]any
}

// Type implements client.Patch.
func (p ConditionPatch) Type() types.PatchType { return types.StrategicMergePatchType }

// Data implements client.Patch. The object is not looked at.
func (p ConditionPatch) Data(client.Object) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": p.Metadata, "status": map[string]any{"conditions": []any{p.Condition}}})
}
