package faulty

import (
	"context"
	"slices"
	"time"
)

// Any stands for every object that has no fault of its own, or every operation.
const Any = "*"

// Call is a call that the plugin received.
type Call struct {
	// Operation is the plugin's method, and Object what it is about: the name of a node, NAMESPACE/NAME of a Service, the target
	// node of a route; empty for a list.
	Operation, Object string
	// Began and Ended are when the call came and went. Ended is zero while it is under way.
	Began, Ended time.Time
	// Faulty says that there was a fault for it.
	Faulty bool
	// Err is what it returned.
	Err error
}

// Fault makes the calls of an operation for an object misbehave from now on. The object is as in Call, or Any. The zero Fault heals.
func (c *Cloud) Fault(operation, object string, fault Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[subject{operation, object}] = fault
}

// Release lets all calls that hang or are slow return, and those that come later at once. Whoever has made calls hang has to
// release them before the test ends.
func (c *Cloud) Release() { c.release() }

// Calls returns the calls of an operation for an object, oldest first. Both are as in Call, or Any.
func (c *Cloud) Calls(operation, object string) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Call
	for _, one := range c.calls {
		if (operation == Any || one.Operation == operation) && (object == Any || one.Object == object) {
			found = append(found, *one)
		}
	}
	return found
}

// CallsSince returns how many calls of an operation for an object began at a time or later. Both are as in Call, or Any.
func (c *Cloud) CallsSince(operation, object string, since time.Time) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range slices.Backward(c.calls) {
		if one.Began.Before(since) {
			break
		}
		if (operation == Any || one.Operation == operation) && (object == Any || one.Object == object) {
			count++
		}
	}
	return count
}

// UnderWay returns how many calls of an operation for some objects have not returned.
func (c *Cloud) UnderWay(operation string, objects ...string) int {
	count := 0
	for _, one := range c.Calls(operation, Any) {
		if one.Ended.IsZero() && slices.Contains(objects, one.Object) {
			count++
		}
	}
	return count
}

// subject is what a fault belongs to.
type subject struct{ operation, object string }

// begin records a call and returns how it misbehaves.
func (c *Cloud) begin(operation, object string) (*Call, Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fault, ok := c.faults[subject{operation, object}]
	if !ok {
		fault = c.faults[subject{operation, Any}]
	}
	received := &Call{
		Operation: operation, Object: object, Began: time.Now(), Faulty: fault.Before != nil || fault.After != nil || fault.Answer != nil,
	}
	c.calls = append(c.calls, received)
	return received, fault
}

func (c *Cloud) end(received *Call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	received.Ended, received.Err = time.Now(), err
}

// serve is what all operations have in common. Work is the cloud's and runs under its lock.
func serve[T any](ctx context.Context, c *Cloud, operation, object string, request any, work func() (T, error)) (answer T, err error) {
	received, fault := c.begin(operation, object)
	defer func() { c.end(received, err) }()
	if fault.Before != nil {
		if err := fault.Before(ctx, c.released); err != nil {
			return answer, err
		}
	}
	if answer, err = locked(c, work); err != nil {
		return answer, err
	}
	if fault.After != nil {
		return answer, fault.After
	}
	if fault.Answer != nil {
		answer = fault.Answer(request, answer).(T)
	}
	return answer, nil
}

func locked[T any](c *Cloud, work func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return work()
}
