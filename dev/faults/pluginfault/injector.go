package pluginfault

import (
	"slices"
	"sync"
	"time"

	"github.com/mooring-ccm/mooring/dev/faults"
	"github.com/mooring-ccm/mooring/providers/sim/fault"
)

// Any stands for every object or every operation.
const Any = "*"

// Injector makes calls misbehave on command, and notes all calls.
type Injector struct {
	rules *fault.Rules[Call, Fault]
	log   faults.Log[Call]

	mu      sync.Mutex
	removes map[subject]func()
}

// subject is what a fault belongs to. Each part may be Any.
type subject struct{ operation, object string }

func (s subject) matches(call Call) bool {
	return (s.operation == Any || s.operation == call.Operation) && (s.object == Any || s.object == call.Object)
}

// NewInjector returns an injector without faults.
func NewInjector() *Injector {
	return &Injector{rules: fault.NewRules[Call, Fault](), removes: map[subject]func(){}}
}

// Fault makes the calls of an operation for an object misbehave from now on, in place of the fault that they had. The zero Fault heals.
// Operation and object are as in Call, or Any. Of several faults that match a call, the oldest is used.
func (i *Injector) Fault(operation, object string, one Fault) {
	i.mu.Lock()
	defer i.mu.Unlock()
	about := subject{operation, object}
	remove := i.removes[about]
	delete(i.removes, about)
	if one.misbehaves() {
		i.removes[about] = i.rules.Add(fault.Rule[Call, Fault]{Matches: about.matches, Effect: one})
	}
	if remove != nil {
		remove() // after the new one is there: no call works in between
	}
}

// Release lets all calls that hang or are slow return, and later ones at once. A test that makes calls hang has to release them before it
// ends.
func (i *Injector) Release() { i.rules.Close() }

// Begin is part of Faults.
func (i *Injector) Begin(call Call) (Fault, <-chan struct{}, func(error)) {
	hit, released := i.rules.Take(call)
	call.Began, call.Faulty = time.Now(), hit != nil
	call.Request, call.Nodes = nil, nil
	end := i.log.Begin(call)
	if hit == nil {
		hit = &Fault{}
	}
	return *hit, released, func(err error) { end(func(call *Call) { call.Ended, call.Err = time.Now(), err }) }
}

// Calls returns the calls of an operation for an object, oldest first. Both are as in Call, or Any.
func (i *Injector) Calls(operation, object string) []Call {
	return i.log.Find(func(call Call, _ bool) bool { return subject{operation, object}.matches(call) })
}

// CallsSince returns how many calls of an operation for an object began at a time or later. Both are as in Call, or Any.
func (i *Injector) CallsSince(operation, object string, since time.Time) int {
	return len(i.log.Find(func(call Call, _ bool) bool {
		return !call.Began.Before(since) && subject{operation, object}.matches(call)
	}))
}

// UnderWay returns how many calls of an operation for some objects have not returned.
func (i *Injector) UnderWay(operation string, objects ...string) int {
	return len(i.log.Find(func(call Call, ended bool) bool {
		return !ended && call.Operation == operation && slices.Contains(objects, call.Object)
	}))
}
