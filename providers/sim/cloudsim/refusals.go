package cloudsim

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
	"github.com/mooring-ccm/mooring/providers/sim/api"
)

// invalid turns everything that is wrong with a request into one answer; nil if nothing is.
func invalid(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	answer := &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: "the request is invalid"}
	for _, e := range errs {
		f := api.FieldError{Field: e.Field, Reason: e.Detail}
		if _, omitted := e.BadValue.(field.OmitValueType); !omitted && e.BadValue != nil {
			f.Value = fmt.Sprint(e.BadValue)
		}
		if e.Type == field.ErrorTypeRequired || e.Type == field.ErrorTypeDuplicate || f.Reason == "" {
			f.Reason = reason(e)
		}
		answer.Fields = append(answer.Fields, f)
	}
	return answer
}

// valid refuses a request in which something did not fit or is not valid, and names all of it.
func valid(decoded, validated field.ErrorList) error {
	return invalid(strict.Merge(decoded, validated))
}

// reason says in words what an error's type says, and its detail.
func reason(e *field.Error) string {
	words := map[field.ErrorType]string{
		field.ErrorTypeRequired: "is required", field.ErrorTypeDuplicate: "is listed twice", field.ErrorTypeNotFound: "does not exist",
	}[e.Type]
	switch {
	case words == "":
		words = e.Type.String()
	case e.Detail != "":
		words += ": " + e.Detail
	}
	return words
}

func invalidField(name, value, reason string) error {
	return invalid(field.ErrorList{field.Invalid(field.NewPath(name), value, reason)})
}

// refusalOf returns the refusal that an error is; any other error is an internal one.
func refusalOf(err error) *api.Error {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return &api.Error{Status: http.StatusInternalServerError, Code: api.CodeInternal, Message: err.Error()}
}

func unavailable(message string) error {
	return &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Message: message}
}

func notFound(kind, key string) error {
	return &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: fmt.Sprintf("there is no %s %q", kind, key)}
}

func conflict(existingID, format string, args ...any) error {
	return &api.Error{
		Status: http.StatusConflict, Code: api.CodeConflict, ExistingID: existingID, Message: fmt.Sprintf(format, args...),
	}
}

// checkGeneration refuses a write that was meant for another generation. Zero is meant for any.
func checkGeneration(wanted, current int64) error {
	if wanted == 0 || wanted == current {
		return nil
	}
	return &api.Error{
		Status: http.StatusPreconditionFailed, Code: api.CodePreconditionFailed,
		Message: fmt.Sprintf("the generation is %d, not %d: read it again", current, wanted),
	}
}
