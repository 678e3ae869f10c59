package double

import (
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/dev/simulation/apiserver"
)

// Change is a new version of an object. Before is nil for a creation, After for the end of the object.
type Change[T any] struct {
	At     time.Duration
	Object string
	// Ours says that the manager wrote it.
	Ours          bool
	Before, After *T
}

// EventWrite is one write of an Event.
type EventWrite struct {
	At time.Duration
	// Object is what the Event is about.
	Object, Reason string
}

// Sample is what was missing to the settled state at a time.
type Sample struct {
	At   time.Duration
	Open []Fault
}

// The answers of calls that ask whether something is so.
const (
	Yes = "yes"
	No  = "no"
)

// History is what the rules read about objects as they were.
type History struct {
	// NodeChanges and ServiceChanges are the versions of the objects, from every writer. Rules must not modify the objects.
	NodeChanges    []Change[corev1.Node]
	ServiceChanges []Change[corev1.Service]
	// Events are the manager's writes of Events.
	Events []EventWrite
	// Refused are the times of the manager's requests about an object that the API server refused or a fault answered.
	Refused map[string][]time.Duration
	// Starts are the starts of processes, the first one first.
	Starts []time.Duration
	// Samples are the states of the quiet time, the oldest first.
	Samples []Sample
}

// answer answers a request of the manager if a fault concerns it.
func (w *World) answer(request *http.Request, about apiserver.Attributes) (*http.Response, error) {
	response, err := w.intercept(request, about)
	if response != nil || err != nil {
		w.refuse(about.Name)
	}
	return response, err
}

// refuse notes that a fault has answered a request about an object.
func (w *World) refuse(object string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Refused[object] = append(w.record.Refused[object], w.now())
}

// keep adds a write to the history. The plugin has the manager's identity, and so has the other manager around an exchange. The lock is held.
func (w *World) keep(record apiserver.Record) {
	ours := record.Identity == manager && w.current == w.judged && !byPlugin(record)
	if ours && record.Code >= http.StatusBadRequest {
		w.record.Refused[record.Name] = append(w.record.Refused[record.Name], w.now())
	}
	if !record.Changed {
		return
	}
	switch record.Resource {
	case "nodes":
		w.record.NodeChanges = append(w.record.NodeChanges, change[corev1.Node](w.now(), ours, record))
	case "services":
		w.record.ServiceChanges = append(w.record.ServiceChanges, change[corev1.Service](w.now(), ours, record))
	case "events":
		if event, ok := record.After.(*corev1.Event); ok && ours {
			w.record.Events = append(w.record.Events, EventWrite{At: w.now(), Object: event.InvolvedObject.Name, Reason: event.Reason})
		}
	}
}

// byPlugin reports whether the plugin made a request.
func byPlugin(record apiserver.Record) bool {
	return strings.HasSuffix(record.UserAgent, "/"+ProviderName)
}

// change returns a write as a change of an object of a type.
func change[T any](at time.Duration, ours bool, record apiserver.Record) Change[T] {
	before, _ := any(record.Before).(*T)
	after, _ := any(record.After).(*T)
	return Change[T]{At: at, Object: record.Name, Ours: ours, Before: before, After: after}
}

// sample adds the state of now to the history, and returns what is missing.
func (w *World) sample() []Fault {
	open := w.open()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Samples = append(w.record.Samples, Sample{At: w.now(), Open: open})
	return open
}

// answers are where a call leaves its answer.
type answers struct {
	is     *bool
	routes *[]*cloudprovider.Route
	status **corev1.LoadBalancerStatus
	// denied says that the cloud denied what is there, whatever the call returns.
	denied *bool
}

// keep notes what a call that succeeded answers.
func (a answers) keep(call *Call) {
	switch {
	case a.is != nil && *a.is:
		call.Answer = Yes
	case a.is != nil:
		call.Answer = No
	case a.status != nil:
		call.Address = (*a.status).Ingress[0].IP
	case a.routes != nil:
		call.Listed = []string{}
		for _, route := range *a.routes {
			call.Listed = append(call.Listed, string(route.TargetNode))
		}
	}
}
