package dryrun

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ErrReadOnly says that a request was not sent because it could change something.
var ErrReadOnly = errors.New("not sent under --dry-run")

// ReadOnly returns a transport that sends only what reads. It is for rest.Config.Wrap, and holds for the plugin's own clients as
// for the controllers'.
func ReadOnly(next http.RoundTripper) http.RoundTripper { return readOnly{next} }

type readOnly struct{ next http.RoundTripper }

// RoundTrip sends a request if it reads, or asks a question that is put as a creation.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if reads(request) {
		return r.next.RoundTrip(request)
	}
	return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, ErrReadOnly)
}

// reads reports whether a request changes nothing.
func reads(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	case http.MethodPost: // reviews are answered, not stored
		return strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/") || strings.HasPrefix(request.URL.Path, "/apis/authentication.k8s.io/")
	default:
		return false
	}
}
