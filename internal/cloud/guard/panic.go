package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// PanicError says that the plugin panicked. The process goes on: the caller gets this error, and no other caller
// notices. A panic in a goroutine that the plugin started itself cannot be caught, and ends the process as in the reference.
type PanicError struct {
	// Operation is the plugin's method.
	Operation string
	// Value is what the plugin panicked with.
	Value any
	// Stack is the stack of the goroutine that panicked, for logs.
	Stack []byte
}

// Error names the method and the value. The stack is for the log: an event has one line.
func (e *PanicError) Error() string {
	return fmt.Sprintf("the cloud provider panicked in %s: %v", e.Operation, e.Value)
}

// Unwrap returns the value if it is an error, as a runtime error is.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrExited is a plugin that ended its goroutine by runtime.Goexit instead of returning.
var ErrExited = errors.New("it ended its goroutine instead of returning")

// Protect calls the plugin and makes a *PanicError of a panic. Every call of the plugin passes it, those of package ccm that
// have no place in the queue too; there is no other recover around a plugin. The function is called on this goroutine; if it
// ends that, exited is called with the reason, and otherwise not.
func Protect(operation string, call func() error, exited func(error)) (err error) {
	returned := false
	defer func() {
		switch value := recover(); {
		case value != nil:
			err = &PanicError{Operation: operation, Value: value, Stack: debug.Stack()}
		case !returned && exited != nil:
			exited(fmt.Errorf("the cloud provider did not return from %s: %w", operation, ErrExited))
		}
	}()
	err = call()
	returned = true
	return err
}
