// Package httpfault has the ways in which a call of an HTTP API misbehaves.
package httpfault

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// Effect is how a call misbehaves: an Answer, Cut, CutAnswer or Hang.
type Effect interface {
	// Serve serves the call in place of a service. It panics with http.ErrAbortHandler to end the connection.
	Serve(w http.ResponseWriter, r *http.Request, released <-chan struct{}, service http.Handler)
}

// Answer is an answer that the service did not give. Its Serve does not ask the service.
type Answer struct {
	// Status is the HTTP status.
	Status int
	// Body is JSON. Empty means a message in the notation of OpenStack's services.
	Body string
	// RetryAfter is said in the header of that name, in whole seconds. Zero means no such header.
	RetryAfter time.Duration
}

type (
	cut       struct{}
	cutAnswer struct{}
	hang      struct{}
)

var (
	// Cut ends the connection without an answer; the service is not asked.
	Cut Effect = cut{}
	// CutAnswer has the service do what it is asked for, and ends the connection without passing its answer on.
	CutAnswer Effect = cutAnswer{}
	// Hang has no answer come until the client gives up or the call is released; the service is not asked.
	Hang Effect = hang{}
)

// Serve is part of Effect.
func (a Answer) Serve(w http.ResponseWriter, _ *http.Request, _ <-chan struct{}, _ http.Handler) {
	a.Write(w)
}

// Write gives the answer.
func (a Answer) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((a.RetryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(a.Status)
	body := a.Body
	if body == "" {
		body = fmt.Sprintf(`{"error": {"code": %d, "title": %q, "message": "injected by the test"}}`, a.Status, http.StatusText(a.Status))
	}
	_, _ = io.WriteString(w, body) // a client that is gone needs no answer
}

// Abort ends the connection of a call, as net/http has its handlers do.
func Abort() { panic(http.ErrAbortHandler) }

func (cut) Serve(http.ResponseWriter, *http.Request, <-chan struct{}, http.Handler) { Abort() }

func (cutAnswer) Serve(_ http.ResponseWriter, r *http.Request, _ <-chan struct{}, service http.Handler) {
	service.ServeHTTP(httptest.NewRecorder(), r)
	Abort()
}

func (hang) Serve(_ http.ResponseWriter, r *http.Request, released <-chan struct{}, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body) // until then, the server does not notice that the client is gone
	_ = fault.Hang(r.Context(), released)
	Abort()
}
