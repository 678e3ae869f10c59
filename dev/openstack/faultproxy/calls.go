package faultproxy

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Call is a call that has ended.
type Call struct {
	// Service is the name that Listen was given.
	Service string
	// Method, Path and Query are the request's.
	Method, Path, Query string
	// Template is the path with {id} in the place of IDs.
	Template string
	// Status is the status of the answer, 0 if there was none.
	Status int
	// Faulty says that a fault was injected into the call.
	Faulty bool
	// Began and Took say when the call came in and how long the answer took.
	Began time.Time
	Took  time.Duration
}

// Kind is what calls are counted by.
type Kind struct {
	// Service is the name that Listen was given.
	Service string
	// Method is the HTTP method, and Template the path with {id} in the place of IDs.
	Method, Template string
}

// String returns the kind in the notation of a list of an API: "compute GET /v2.1/servers/{id}".
func (k Kind) String() string { return k.Service + " " + k.Method + " " + k.Template }

// Calls returns the calls that have ended since the start, since Reset or since Drain, in the order in which they began.
func (p *Proxy) Calls() []Call { return p.log.Find(func(_ Call, ended bool) bool { return ended }) }

// Reset forgets the calls that have ended.
func (p *Proxy) Reset() { p.log.Drain() }

// Drain returns what Calls returns, and forgets it.
func (p *Proxy) Drain() []Call { return p.log.Drain() }

// Counts are numbers of calls by kind.
type Counts map[Kind]int

// Count counts calls by kind.
func Count(calls []Call) Counts {
	counts := Counts{}
	for _, call := range calls {
		counts[Kind{Service: call.Service, Method: call.Method, Template: call.Template}]++
	}
	return counts
}

// Total is the number of all calls of services, of every service when none is named.
func (c Counts) Total(services ...string) int {
	total := 0
	for kind, count := range c {
		if len(services) == 0 || slices.Contains(services, kind.Service) {
			total += count
		}
	}
	return total
}

// String returns a line for each kind, the most frequent one first.
func (c Counts) String() string {
	kinds := slices.SortedFunc(maps.Keys(c), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), strings.Compare(a.String(), b.String()))
	})
	var lines strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&lines, "%6d %s\n", c[kind], kind)
	}
	return lines.String()
}

// id is a segment of a path that names one object: a UUID with or without hyphens, or a number.
var id = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}|[0-9]+)$`)

// Template returns a path with {id} in the place of its IDs, so calls for different objects count as one kind.
func Template(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if id.MatchString(segment) {
			segments[i] = "{id}"
		}
	}
	return strings.Join(segments, "/")
}
