package scenario

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Call is a call of an API of the cloud.
type Call struct {
	// Service is the name of the service, Method the HTTP method. Template is the path with {id} in the place of IDs.
	Service, Method, Template string
	// Status is the status of the answer, 0 if there was none, and Took how long it took.
	Status int
	Took   time.Duration
}

// Kind is what calls are counted by.
func (c Call) Kind() string { return c.Service + " " + c.Method + " " + c.Template }

// Writes reports whether the call asks for a change. One that logs in does not.
func (c Call) Writes() bool {
	return c.Method != http.MethodGet && !strings.HasSuffix(c.Template, "/auth/tokens")
}

// Calls are how many calls were like another.
type Calls struct {
	// Kind is Call.Kind of each of them, and Service who was called.
	Kind, Service string
	Count         int
}

// recentCalls is how many calls a model keeps.
const recentCalls = 4

// called returns the model after a call.
func (m Model) called(call Call) Model {
	m.Calls = put(m.Calls, call.Kind(), func(c Calls) string { return c.Kind },
		func(c Calls) Calls { return Calls{Kind: call.Kind(), Service: call.Service, Count: c.Count + 1} })
	m.Recent = append(slices.Clone(m.Recent[max(0, len(m.Recent)-recentCalls+1):]), call)
	return m
}

// CallsOf returns how many calls a service has had.
func (m Model) CallsOf(service string) int {
	count := 0
	for _, calls := range m.Calls {
		if calls.Service == service {
			count += calls.Count
		}
	}
	return count
}

// Services returns the names of the services that were called, in their order.
func (m Model) Services() []string {
	var names []string
	for _, calls := range m.Calls { // whose kinds begin with the service
		if !slices.Contains(names, calls.Service) {
			names = append(names, calls.Service)
		}
	}
	return names
}
