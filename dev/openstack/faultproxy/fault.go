package faultproxy

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Match says which calls are meant. What is empty matches every call.
type Match struct {
	// Service is the name of a service, as Listen was given it: "load-balancer".
	Service string
	// Method is that of HTTP.
	Method string
	// Path is matched with the whole path.
	Path *regexp.Regexp
}

func (m Match) matches(service string, r *http.Request) bool {
	return (m.Service == "" || m.Service == service) && (m.Method == "" || m.Method == r.Method) &&
		(m.Path == nil || m.Path.MatchString(r.URL.Path))
}

// Fault is what happens to calls in place of what the service would do.
type Fault struct {
	Match
	// Skip calls that match are let through first, and then Times are subject to the fault; zero means all.
	Skip, Times int
	// Latency passes before anything else happens.
	Latency time.Duration
	// Effect is what happens then. Nil means that the service is asked.
	Effect Effect

	seen int // calls that matched; guarded by the proxy
}

// Effect is how a call ends: an Answer, Cut, CutAnswer or Hang.
type Effect interface {
	apply(r *http.Request, closed <-chan struct{}, w *recorder, forward func())
}

// Answer is an answer that the service did not give; it is not asked.
type Answer struct {
	// Status is that of HTTP.
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
	// Hang has no answer come until the client gives up or the proxy is closed; the service is not asked.
	Hang Effect = hang{}
)

// Inject makes calls fail from now on. Of several faults that match a call the first injected one counts. The returned function ends it;
// what hangs by then goes on to hang.
func (p *Proxy) Inject(fault Fault) (remove func()) {
	mine := &fault
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, mine)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = slices.DeleteFunc(p.faults, func(f *Fault) bool { return f == mine })
	}
}

// Clear ends all faults.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

// apply delays the call and does what the fault says in place of forward.
func (f *Fault) apply(r *http.Request, closed <-chan struct{}, w *recorder, forward func()) {
	if f.Latency > 0 {
		select {
		case <-time.After(f.Latency):
		case <-r.Context().Done():
		case <-closed:
		}
	}
	if f.Effect == nil {
		forward()
		return
	}
	f.Effect.apply(r, closed, w, forward)
}

func (a Answer) apply(_ *http.Request, _ <-chan struct{}, w *recorder, _ func()) {
	w.Header().Set("Content-Type", "application/json")
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((a.RetryAfter+time.Second-1)/time.Second)))
	}
	w.WriteHeader(a.Status)
	body := a.Body
	if body == "" {
		body = fmt.Sprintf(`{"error": {"code": %d, "title": %q, "message": "injected by the test"}}`, a.Status, http.StatusText(a.Status))
	}
	_, _ = w.Write([]byte(body)) // a client that is gone needs no answer
}

// abort ends the connection of a call, as net/http has its handlers do.
func abort() { panic(http.ErrAbortHandler) }

func (cut) apply(*http.Request, <-chan struct{}, *recorder, func()) { abort() }

func (cutAnswer) apply(_ *http.Request, _ <-chan struct{}, w *recorder, forward func()) {
	w.ResponseWriter = discard{}
	forward()
	w.status = 0
	abort()
}

func (hang) apply(r *http.Request, closed <-chan struct{}, _ *recorder, _ func()) {
	_, _ = io.Copy(io.Discard, r.Body) // until then, the server does not notice that the client is gone
	select {
	case <-r.Context().Done():
	case <-closed:
	}
	abort()
}

// discard is a writer of an answer that nobody gets.
type discard struct{}

// Header returns headers that nobody reads.
func (discard) Header() http.Header { return http.Header{} }

// Write takes everything.
func (discard) Write(content []byte) (int, error) { return len(content), nil }

// WriteHeader does nothing.
func (discard) WriteHeader(int) {}
