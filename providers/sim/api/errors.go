package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/internal/message"
)

// ErrorCode says what is wrong in one word that programs may decide on.
type ErrorCode string

// The codes, each with the HTTP status that it comes with.
const (
	CodeInvalid            ErrorCode = "invalid"            // 400: Fields says what
	CodeUnauthenticated    ErrorCode = "unauthenticated"    // 401
	CodeForbidden          ErrorCode = "forbidden"          // 403
	CodeNotFound           ErrorCode = "notFound"           // 404: the named resource does not exist
	CodeUnknownPath        ErrorCode = "unknownPath"        // 404: the API has no such path
	CodeMethodNotAllowed   ErrorCode = "methodNotAllowed"   // 405
	CodeConflict           ErrorCode = "conflict"           // 409: ExistingID says with what, if it is one resource
	CodePageTokenExpired   ErrorCode = "pageTokenExpired"   // 410: list again from the first page
	CodeRevisionExpired    ErrorCode = "revisionExpired"    // 410: watch again from the beginning
	CodePreconditionFailed ErrorCode = "preconditionFailed" // 412: another client wrote in between
	CodeTooLarge           ErrorCode = "tooLarge"           // 413
	CodeThrottled          ErrorCode = "throttled"          // 429: Retry-After says how long to wait
	CodeInternal           ErrorCode = "internal"           // 500
	CodeUnavailable        ErrorCode = "unavailable"        // 503
)

// FieldError is one thing that is wrong with a request.
type FieldError struct {
	// Field is the path of the field in the request, "addresses[1].family".
	Field string `json:"field"`
	// Value is what the request has there.
	Value string `json:"value,omitempty"`
	// Reason says what is wrong with it and what would be right.
	Reason string `json:"reason"`
}

// String returns the field error as one line.
func (e FieldError) String() string {
	if e.Value == "" {
		return e.Field + ": " + e.Reason
	}
	return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Reason)
}

// Error is the cloud's refusal of a call. The client returns it for every answer with a status of 300 or more.
type Error struct {
	// Operation is the call that was refused. Filled in by the client.
	Operation Operation `json:"-"`
	// Status is the HTTP status.
	Status int `json:"-"`
	// RetryAfter is how long the cloud asks to wait, zero if it does not say. It travels in the Retry-After header.
	RetryAfter time.Duration `json:"-"`

	// Code is empty if the answer did not come from the simulated cloud, but from something before it.
	Code ErrorCode `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Fields are all things that are wrong with the request, with CodeInvalid.
	Fields []FieldError `json:"fields,omitempty"`
	// ExistingID is the ID of the resource that is in the way, with CodeConflict.
	ExistingID string `json:"existingID,omitempty"`
}

// ErrorBody is how an Error stands in an answer.
type ErrorBody struct {
	Error Error `json:"error"`
}

// Error says what was refused and why, all fields included, in one line of bounded length.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Operation != "" {
		fmt.Fprintf(&b, "%s: ", e.Operation)
	}
	fmt.Fprintf(&b, "%d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	for i, f := range e.Fields {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + f.String())
	}
	return message.Printable(b.String(), maxErrorBytes)
}

// HasCode reports whether err is an answer of the cloud with that code.
func HasCode(err error, code ErrorCode) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Code == code
}

// AnswerError says that the cloud answered, with success, something that is no valid answer: not JSON, cut off, or without
// a field that is always there. Whether the call had an effect is unknown.
type AnswerError struct {
	// Operation is the call.
	Operation Operation
	// Err says what is wrong with the answer.
	Err error
}

// Error says what is wrong with the answer.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s: invalid answer: %v", e.Operation, e.Err)
}

// Unwrap returns what is wrong with the answer.
func (e *AnswerError) Unwrap() error { return e.Err }

// IncompleteListError says that the pages of a list do not add up to the list. What was received must not be taken for it.
type IncompleteListError struct {
	// Operation is the call.
	Operation Operation
	// Got and Want are the numbers of elements received and announced.
	Got, Want int
	// Reason says how it was noticed.
	Reason string
}

// Error says how much of the list is there.
func (e *IncompleteListError) Error() string {
	return fmt.Sprintf("%s: incomplete list, %d of %d elements: %s", e.Operation, e.Got, e.Want, e.Reason)
}
