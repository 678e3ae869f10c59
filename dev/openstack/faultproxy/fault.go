package faultproxy

import (
	"net/http"
	"regexp"
	"time"

	"github.com/mooring-ccm/mooring/dev/faults/httpfault"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// Match says which calls are meant. What is empty matches every call.
type Match struct {
	// Service is the name of a service, as Listen was given it: "load-balancer".
	Service string
	// Method is the HTTP method.
	Method string
	// Path is matched with the whole path.
	Path *regexp.Regexp
}

// request is a request for a service.
type request struct {
	*http.Request
	service string
}

func (m Match) matches(r request) bool {
	return (m.Service == "" || m.Service == r.service) && (m.Method == "" || m.Method == r.Method) &&
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
	Effect httpfault.Effect
}

// Inject makes calls fail from now on. Of several faults that match a call the first injected one counts. The returned function ends it;
// what hangs by then goes on to hang.
func (p *Proxy) Inject(f Fault) (remove func()) {
	return p.faults.Add(fault.Rule[request, Fault]{Matches: f.matches, Skip: f.Skip, Count: f.Times, Effect: f})
}

// Clear ends all faults, and the calls that hang.
func (p *Proxy) Clear() { p.faults.Clear() }

// serve delays the call and does what the fault says in place of the service.
func (f *Fault) serve(w http.ResponseWriter, r *http.Request, released <-chan struct{}, service http.Handler) {
	if f.Latency > 0 {
		_ = fault.Delay(r.Context(), f.Latency, released) // a client that gave up does not see what follows
	}
	if f.Effect == nil {
		service.ServeHTTP(w, r)
		return
	}
	f.Effect.Serve(w, r, released, service)
}
