//go:build !linux

package netlab

import (
	"context"
	"errors"
	"io"
)

var errNotLinux = errors.New("a netlab needs Linux, for its network namespaces")

// Inside reports whether this process is the inside of a netlab: never, where there are no namespaces.
func Inside() (outside int, inside bool) { return 0, false }

// EndError says that the inside of a netlab did not end well.
type EndError struct {
	// ExitCode is the exit code of the process.
	ExitCode int
	// Said is what it wrote to its standard error.
	Said string
}

// Error says what it wrote.
func (e *EndError) Error() string { return e.Said }

// Enter fails.
func Enter(context.Context, []string, io.Writer) error { return errNotLinux }

// Furnish fails.
func Furnish(context.Context) error { return errNotLinux }

// Do fails.
func (h *Host) Do(func() error) error { return errNotLinux }
