package classify

import (
	"net/http"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// walk collects what the types in a chain of errors say. It knows no SDK: it looks for the methods and the fields by which they
// show a response.
func (a *answer) walk(err error) {
	if value := reflect.ValueOf(err); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return
	}
	if text := readable(err.Error()); len(a.text) < 2*maxReadText && !strings.Contains(a.text, text) { // a wrapper may have kept it to itself
		a.text += "\n" + text
	}
	a.readMethods(err)
	a.readFields(err)
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		a.walk(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, wrapped := range wrapper.Unwrap() {
			a.walk(wrapped)
		}
	case interface{ OrigErr() error }: // AWS v1, awserr.Error
		a.walk(wrapper.OrigErr())
	}
}

// readMethods reads what an error says by methods.
func (a *answer) readMethods(err error) {
	switch e := err.(type) {
	case interface{ HTTPStatusCode() int }: // AWS v2, transport/http.ResponseError
		a.addStatus(e.HTTPStatusCode())
	case interface{ GetHTTPStatusCode() int }: // OCI, common.ServiceError
		a.addStatus(e.GetHTTPStatusCode())
	case interface{ GetStatusCode() int }: // gophercloud.ErrUnexpectedResponseCode, and what embeds it
		a.addStatus(e.GetStatusCode())
	case interface{ StatusCode() int }: // AWS v1, awserr.RequestFailure; linodego.Error
		a.addStatus(e.StatusCode())
	case apierrors.APIStatus: // a cloud that is a Kubernetes API
		status := e.Status()
		a.addStatus(int(status.Code))
		if status.Details != nil {
			a.addWait(time.Duration(status.Details.RetryAfterSeconds) * time.Second)
		}
	}
	switch e := err.(type) {
	case interface{ ErrorCode() string }: // AWS v2, smithy.APIError
		a.addCode(e.ErrorCode())
	case interface{ GetCode() string }: // OCI
		a.addCode(e.GetCode())
	case interface{ Code() string }: // AWS v1
		a.addCode(e.Code())
	}
}

// readFields reads what an error says by exported fields. Many SDKs have no methods for it, and an interface cannot name a
// field, so the fields are looked up by name and used only if their kind is the expected one.
func (a *answer) readFields(err error) {
	value := reflect.Indirect(reflect.ValueOf(err))
	if value.Kind() != reflect.Struct {
		return
	}
	// StatusCode: azcore.ResponseError, autorest.DetailedError. Code: googleapi.Error and ovh.APIError (the status), hcloud.Error (a
	// string). ErrorCode: azcore.ResponseError.
	for _, name := range []string{"StatusCode", "Code", "ErrorCode"} {
		switch found := field(value, name); {
		case found.CanInt():
			a.addStatus(int(found.Int()))
		case found.Kind() == reflect.String:
			a.addCode(found.String())
		}
	}
	// Header: googleapi.Error. ResponseHeader: gophercloud.
	for _, name := range []string{"Header", "ResponseHeader"} {
		if header, ok := valueOf(field(value, name)).(http.Header); ok {
			a.addWait(retryAfterOf(header))
		}
	}
	// Response: godo.ErrorResponse, linodego.Error, AWS v2, where it embeds the standard one. RawResponse: azcore.ResponseError.
	for _, name := range []string{"Response", "RawResponse"} {
		found := field(value, name)
		if inner := reflect.Indirect(found); inner.Kind() == reflect.Struct && inner.Type() != reflect.TypeFor[http.Response]() {
			found = field(inner, "Response")
		}
		if response, ok := valueOf(found).(*http.Response); ok && response != nil {
			a.addStatus(response.StatusCode)
			a.addWait(retryAfterOf(response.Header))
		}
	}
	switch at := valueOf(field(value, "RetryAfter")).(type) { // the ThrottleError of cloud-provider-azure
	case time.Time:
		a.addWait(time.Until(at))
	case time.Duration:
		a.addWait(at)
	}
}

// field returns an exported field of a struct, its own or an embedded one, or the zero Value if there is no such field.
func field(of reflect.Value, name string) reflect.Value {
	described, ok := of.Type().FieldByName(name)
	if !ok || !described.IsExported() {
		return reflect.Value{}
	}
	found, _ := of.FieldByIndexErr(described.Index) // the zero Value where an embedded pointer is nil
	if found.Kind() == reflect.Interface {
		return found.Elem()
	}
	return found
}

// valueOf returns the value of a field, or nil if no such field may be read.
func valueOf(found reflect.Value) any {
	if !found.IsValid() || !found.CanInterface() {
		return nil
	}
	return found.Interface()
}

func (a *answer) addStatus(status int) {
	if status >= 400 && status < 600 {
		a.statuses = append(a.statuses, status)
	}
}

func (a *answer) addCode(code string) {
	if code != "" {
		a.codes = append(a.codes, code)
	}
}

func (a *answer) addWait(wait time.Duration) { a.retryAfter = max(a.retryAfter, wait) }
