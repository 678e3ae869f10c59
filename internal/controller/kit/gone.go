package kit

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
